"""What owners want, as columns and back. Instants come back in UTC, whatever the session's time zone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, timedelta
from typing import Any, assert_never

from psycopg.rows import DictRow

from delivery.adapters.postgres.credentials import Credentials
from subscriptions.model import (
    Checks,
    ClientErrors,
    Endpoint,
    EndpointState,
    EndpointTarget,
    EventType,
    Exposure,
    HandlerTarget,
    PayloadFormat,
    RetryPolicy,
    Subscription,
    Target,
)
from subscriptions.policies import POLICIES, STANDARD, custom_policy
from subscriptions.rates import Rate
from subscriptions.store import Change, StoredKey

Columns = dict[str, Any]
_MS, _S = timedelta(milliseconds=1), timedelta(seconds=1)


def type_columns(event_type: EventType) -> Columns:
    """Write a type."""
    exposure = event_type.exposure.value
    about = {"type": event_type.type, "exposure": exposure, "description": event_type.description}
    return about | {"schema": event_type.schema, "checks": event_type.checks.value}


def type_of(row: DictRow) -> EventType:
    """Read a type."""
    return EventType(
        type=row["type"],
        exposure=Exposure(row["exposure"]),
        description=row["description"],
        schema=row["schema"],
        checks=Checks(row["checks"]),
    )


def policy_columns(policy: RetryPolicy) -> Columns:
    """Write what operators said of a policy."""
    return {
        "name": policy.name,
        "ladder_ms": [step // _MS for step in policy.ladder],
        "max_attempts": policy.max_attempts,
        "policy_timeout_ms": policy.timeout // _MS,
        "max_age_ms": None if policy.max_age is None else policy.max_age // _MS,
        "client_errors": policy.client_errors.value,
    }


def policy_of(row: DictRow) -> RetryPolicy:
    """Read a policy that operators made; its name is in the column `policy`."""
    return custom_policy(
        row["policy"],
        ladder=[step * _MS for step in row["ladder_ms"]],
        max_attempts=row["max_attempts"],
        timeout=row["policy_timeout_ms"] * _MS,
        max_age=None if row["max_age_ms"] is None else row["max_age_ms"] * _MS,
        client_errors=ClientErrors(row["client_errors"]),
    )


def chosen_policy_of(row: DictRow) -> RetryPolicy:
    """Read the policy that comes with an endpoint; `standard` where there is none of that name any more."""
    if row["policy"] in POLICIES or row["ladder_ms"] is None:
        return POLICIES.get(row["policy"], STANDARD)
    return policy_of(row)


def endpoint_columns(endpoint: Endpoint, sealed: bytes | None) -> Columns:
    """Write an endpoint; its timeout loses what is less than a millisecond."""
    return {
        "id": endpoint.id,
        "owner_id": endpoint.owner_id,
        "url": endpoint.url,
        "description": endpoint.description,
        "policy": endpoint.policy,
        "credentials": sealed,
        "format": endpoint.format.value,
        "job_limit": endpoint.limit,
        **_rate_columns(endpoint.rate),
        "timeout_ms": (endpoint.timeout or STANDARD.timeout) // _MS,
        "has_own_timeout": endpoint.timeout is not None,
        "overrides": _json(endpoint.overrides),
        "state": endpoint.state.value,
        "state_reason": endpoint.state_reason,
        "state_by": endpoint.state_by,
        "created_at": endpoint.created_at,
        "updated_at": endpoint.updated_at,
    }


def endpoint_of(row: DictRow, credentials: Credentials) -> Endpoint:
    """Read an endpoint, with its credentials opened by the caller."""
    headers, tls = credentials
    return Endpoint(
        id=row["id"],
        owner_id=row["owner_id"],
        url=row["url"],
        description=row["description"],
        policy=row["policy"],
        headers=headers,
        tls=tls,
        format=PayloadFormat(row["format"]),
        limit=row["job_limit"],
        rate=_rate_of(row),
        timeout=_own_timeout(row),
        overrides=row["overrides"],
        state=EndpointState(row["state"]),
        state_reason=row["state_reason"],
        state_by=row["state_by"],
        created_at=row["created_at"].astimezone(UTC),
        updated_at=row["updated_at"].astimezone(UTC),
    )


def _own_timeout(row: DictRow) -> timedelta | None:
    timeout = row["timeout_ms"] * _MS
    is_own = row["has_own_timeout"]
    return timeout if is_own or (is_own is None and timeout != STANDARD.timeout) else None


def _rate_columns(rate: Rate | None) -> Columns:
    if rate is None:
        return {"rate_number": None, "rate_s": None, "burst": None}
    return {"rate_number": rate.number, "rate_s": rate.per // _S, "burst": rate.burst}


def _rate_of(row: DictRow) -> Rate | None:
    if row["rate_number"] is None:
        return None
    return Rate(number=row["rate_number"], per=row["rate_s"] * _S, burst=row["burst"])


def subscription_columns(subscription: Subscription) -> Columns:
    """Write a subscription."""
    return {
        "id": subscription.id,
        "owner_id": subscription.owner_id,
        "name": subscription.name,
        "patterns": list(subscription.patterns),
        "filter": subscription.filter,
        "created_at": subscription.created_at,
        **_target_columns(subscription.target),
    }


def _target_columns(target: Target) -> Columns:
    match target:
        case EndpointTarget(endpoint_id=endpoint_id):
            return {"endpoint_id": endpoint_id, "handler": None, "coalesces": False}
        case HandlerTarget(kind=kind, coalesce=coalesce):
            return {"endpoint_id": None, "handler": kind, "coalesces": coalesce}
        case _:
            assert_never(target)


def subscription_of(row: DictRow) -> Subscription:
    """Read a subscription."""
    return Subscription(
        id=row["id"],
        owner_id=row["owner_id"],
        name=row["name"],
        patterns=tuple(row["patterns"]),
        filter=row["filter"],
        target=_target_of(row),
        created_at=row["created_at"].astimezone(UTC),
    )


def _target_of(row: DictRow) -> Target:
    if row["endpoint_id"] is not None:
        return EndpointTarget(endpoint_id=row["endpoint_id"])
    return HandlerTarget(kind=row["handler"], coalesce=row["coalesces"])


def key_columns(key: StoredKey) -> Columns:
    """Write a sealed key."""
    return {
        "id": key.id,
        "endpoint_id": key.endpoint_id,
        "scheme": key.scheme,
        "sealed": key.sealed,
        "created_at": key.created_at,
        "expires_at": key.expires_at,
    }


def key_of(row: DictRow) -> StoredKey:
    """Read a sealed key."""
    return StoredKey(
        id=row["id"],
        endpoint_id=row["endpoint_id"],
        scheme=row["scheme"],
        sealed=row["sealed"],
        created_at=row["created_at"].astimezone(UTC),
        expires_at=row["expires_at"] and row["expires_at"].astimezone(UTC),
    )


def change_columns(change: Change) -> Columns:
    """Write a change."""
    return {
        "owner_id": change.owner_id,
        "of": change.of,
        "what": change.what,
        "by": change.by,
        "at": change.at,
        "before": _json(change.before),
        "after": _json(change.after),
    }


def change_of(row: DictRow) -> Change:
    """Read a change."""
    return Change(
        owner_id=row["owner_id"],
        what=row["what"],
        of=row["subject"],
        by=row["made_by"],
        at=row["made_at"].astimezone(UTC),
        before=row["before"] or {},
        after=row["after"] or {},
    )


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(dict(value), ensure_ascii=False)
