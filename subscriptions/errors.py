"""What can go wrong while an owner says what it wants.

    SubscriptionError
     ├─ InvalidEndpoint (ValueError)      a URL, header, limit, policy ... that cannot be accepted
     ├─ InvalidPolicy (ValueError)        a name, a delay, a number of attempts ... that cannot be accepted
     ├─ InvalidType (ValueError)          not the name of an event type, or one that may not be declared
     ├─ InvalidPattern (ValueError)       not a pattern over event types
     ├─ InvalidSchema (ValueError)        not a JSON Schema for a type of event, or beyond its bounds
     ├─ InvalidFilter (ValueError)        not a filter over payloads, or beyond its bounds
     ├─ FilterFailed                      a filter could not be worked out over a payload
     ├─ InvalidSubscription (ValueError)  no patterns, too many, a bad name, a target that may not be
     ├─ UnknownType (ValueError)          a pattern that no declared type matches
     ├─ NotFound (LookupError)            no such endpoint or subscription of this owner, no such policy
     └─ Conflict                          right input at the wrong time: a taken name, a removed endpoint

Each message is one line and ends with what to do next. None carries a key, a header's value or a URL's query.
"""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID


class SubscriptionError(Exception):
    """Any error of `subscriptions`."""


class InvalidEndpoint(SubscriptionError, ValueError):
    """The endpoint cannot be accepted as it is written."""


class InvalidPolicy(SubscriptionError, ValueError):
    """The retry policy cannot be accepted as it is written."""


class InvalidType(SubscriptionError, ValueError):
    """The text is not the name of an event type, or the type may not be declared."""


class InvalidPattern(SubscriptionError, ValueError):
    """The text is not a pattern over event types."""


class InvalidFilter(SubscriptionError, ValueError):
    """The text is not a filter over payloads, or it is beyond the bounds."""


class InvalidSchema(SubscriptionError, ValueError):
    """The text is not a JSON Schema that a type of event may have."""


class FilterFailed(SubscriptionError):
    """Whether a filter wants a payload could not be worked out."""


class InvalidSubscription(SubscriptionError, ValueError):
    """The subscription cannot be accepted as it is written."""


class UnknownType(SubscriptionError, ValueError):
    """A pattern matches no declared type, so the subscription would receive nothing."""


class NotFound(SubscriptionError, LookupError):
    """No such thing among this owner's; another owner's looks the same."""


class Conflict(SubscriptionError):
    """The request contradicts what already stands."""


def no_endpoint(owner_id: str, endpoint_id: UUID) -> str:
    """Say that the owner has no such endpoint: in the same words whoever looked for it, and whosever it is."""
    return f"owner {owner_id!r} has no endpoint {endpoint_id}: `tidings endpoints list` shows those it has"


def written(length: timedelta) -> str:
    """Write a duration as a person would: 8d, 2h, 5m, 60s."""
    for size, unit in ((timedelta(days=1), "d"), (timedelta(hours=1), "h"), (timedelta(minutes=1), "m")):
        number, rest = divmod(length, size)
        if number > 0 and not rest and (number, unit) != (1, "m"):
            return f"{number}{unit}"
    return f"{length.total_seconds():g}s"
