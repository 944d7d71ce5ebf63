"""What owners want, as data: endpoints, subscriptions, types of events, and the rules of changing them."""

from subscriptions.errors import (
    Conflict,
    InvalidEndpoint,
    InvalidPattern,
    InvalidSubscription,
    InvalidType,
    NotFound,
    SubscriptionError,
    UnknownType,
)
from subscriptions.model import (
    Endpoint,
    EndpointChanges,
    EndpointState,
    EndpointTarget,
    EventType,
    Exposure,
    HandlerTarget,
    RetryPolicy,
    Subscription,
)
from subscriptions.policies import POLICIES
from subscriptions.registry import EndpointRegistry, SubscriptionRegistry
from subscriptions.store import Change, Store, StoredKey

__all__ = [
    "POLICIES",
    "Change",
    "Conflict",
    "Endpoint",
    "EndpointChanges",
    "EndpointRegistry",
    "EndpointState",
    "EndpointTarget",
    "EventType",
    "Exposure",
    "HandlerTarget",
    "InvalidEndpoint",
    "InvalidPattern",
    "InvalidSubscription",
    "InvalidType",
    "NotFound",
    "RetryPolicy",
    "Store",
    "StoredKey",
    "Subscription",
    "SubscriptionError",
    "SubscriptionRegistry",
    "UnknownType",
]
