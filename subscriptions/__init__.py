"""What owners want, as data: endpoints, subscriptions, types of events, and the rules of changing them."""

from subscriptions.errors import (
    Conflict,
    FilterFailed,
    InvalidEndpoint,
    InvalidFilter,
    InvalidPattern,
    InvalidPolicy,
    InvalidSchema,
    InvalidSubscription,
    InvalidType,
    NotFound,
    SubscriptionError,
    UnknownType,
)
from subscriptions.model import (
    Checks,
    ClientErrors,
    Endpoint,
    EndpointChanges,
    EndpointState,
    EndpointTarget,
    EventType,
    Exposure,
    HandlerTarget,
    PolicyChanges,
    RetryPolicy,
    Subscription,
)
from subscriptions.policies import POLICIES, PolicyBounds, custom_policy
from subscriptions.policy_registry import PolicyRegistry
from subscriptions.registry import EndpointRegistry
from subscriptions.store import Change, Store, StoredKey
from subscriptions.subscribing import SubscriptionRegistry

__all__ = [
    "POLICIES",
    "Change",
    "Checks",
    "ClientErrors",
    "Conflict",
    "Endpoint",
    "EndpointChanges",
    "EndpointRegistry",
    "EndpointState",
    "EndpointTarget",
    "EventType",
    "Exposure",
    "FilterFailed",
    "HandlerTarget",
    "InvalidEndpoint",
    "InvalidFilter",
    "InvalidPattern",
    "InvalidPolicy",
    "InvalidSchema",
    "InvalidSubscription",
    "InvalidType",
    "NotFound",
    "PolicyBounds",
    "PolicyChanges",
    "PolicyRegistry",
    "RetryPolicy",
    "Store",
    "StoredKey",
    "Subscription",
    "SubscriptionError",
    "SubscriptionRegistry",
    "UnknownType",
    "custom_policy",
]
