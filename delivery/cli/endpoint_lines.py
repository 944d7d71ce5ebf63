"""An endpoint for people, line by line."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from delivery.cli.output import instant_shown, span
from delivery.health import Streak, described
from subscriptions.model import ClientErrors, Endpoint, RetryPolicy, UnopenedHeaders, described_tls
from subscriptions.store import StoredKey


def fields(
    one: Endpoint,
    policy: RetryPolicy | None,
    streak: Streak | None,
    keys: Sequence[StoredKey],
    counts: dict[str, int],
) -> list[tuple[str, object]]:
    """Return all there is to say of one, by name."""
    waiting = ", ".join(f"{number} {state}" for state, number in counts.items())
    parked = " (those that wait are parked)" if one.state.value == "disabled" else ""
    return [
        *brief(one),
        ("failing", streak and described(streak, datetime.now(UTC))),
        ("probed at", streak and streak.probe_at and instant_shown(streak.probe_at)),
        ("keys", _keys(keys)),
        ("policy", policy_line(one, policy)),
        ("headers", headers_line(one)),
        ("tls", tls_line(one)),
        ("format", one.format.value),
        ("limit", f"{one.limit} in flight"),
        ("rate", rate_line(one)),
        ("timeout", timeout_line(one, policy)),
        ("overrides", ", ".join(f"{code}={verdict}" for code, verdict in one.overrides.items()) or None),
        ("deliveries", waiting + parked),
        ("created", instant_shown(one.created_at)),
        ("updated", instant_shown(one.updated_at)),
    ]


def brief(one: Endpoint) -> list[tuple[str, object]]:
    """Return what tells it from others, and how it stands."""
    why = f" ({one.state_reason or 'no reason kept'}, by {one.state_by})" if one.state_by else ""
    return [
        ("endpoint", one.id),
        ("owner", one.owner_id),
        ("url", one.url),
        ("description", one.description or None),
        ("state", f"{one.state.value}{why}" if one.state.value != "enabled" else "enabled"),
    ]


def headers_line(one: Endpoint) -> str | None:
    """Name the headers that are sent along."""
    if isinstance(one.headers, UnopenedHeaders):
        return "sealed with a key that is not configured: put it into TIDINGS_KEYS again"
    return ", ".join(name for name, _ in one.headers) or None


def rate_line(one: Endpoint) -> str | None:
    """Say how often deliveries may start."""
    return None if one.rate is None else f"{one.rate}, {one.rate.burst} at once after a rest"


def tls_line(one: Endpoint) -> str | None:
    """Name what there is of a TLS identity."""
    return ", ".join(described_tls(one.tls)) or None


def _keys(keys: Sequence[StoredKey]) -> str:
    schemes = ", ".join(each.scheme for each in keys)
    ends = [f"one until {instant_shown(each.expires_at)}" for each in keys if each.expires_at is not None]
    signs = "1 signs" if len(keys) == 1 else f"{len(keys)} sign"
    return ", ".join([f"{signs} ({schemes})", *ends]) if keys else "none signs"


def policy_line(one: Endpoint, policy: RetryPolicy | None) -> str:
    """Tell the policy that an endpoint names, with its numbers."""
    return f"{one.policy}: {described_policy(policy)}" if policy else one.policy


def timeout_line(one: Endpoint, policy: RetryPolicy | None) -> str | None:
    """Tell how long an attempt may take, and who says so."""
    if one.timeout is not None:
        return f"{span(one.timeout)}, its own"
    return None if policy is None else f"{span(policy.timeout)}, its policy's"


def described_ladder(policy: RetryPolicy) -> str:
    """Tell when a policy tries again, and how often in all."""
    if not policy.ladder:
        return "1 attempt"
    steps = ", ".join(span(step) for step in policy.ladder)
    repeats = " (the last repeats)" if policy.max_attempts > len(policy.ladder) + 1 else ""
    return f"after {steps}{repeats}, {policy.max_attempts} attempts"


def described_policy(policy: RetryPolicy) -> str:
    """Tell what a policy says of retries in a line."""
    parts = [described_ladder(policy)]
    if policy.max_age is not None:
        parts.append(f"max age {span(policy.max_age)}")
    if policy.client_errors is not ClientErrors.SHORT:
        parts.append(f"client errors {policy.client_errors}")
    return ", ".join(parts)
