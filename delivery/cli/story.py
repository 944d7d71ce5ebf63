"""What happens to a delivery next, and when, in words that say what to do. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import assert_never

from delivery.cli.output import instant_shown, span
from delivery.jobs import JobRow, JobState
from subscriptions.model import Endpoint, EndpointState
from subscriptions.policies import POLICIES


def next_step(job: JobRow, endpoint: Endpoint | None, *, now: datetime, max_age: timedelta) -> str:
    """Tell it in one line.

    `now` is compared with the database's clock; `max_age` is the age at which a delivery that waits is given up.
    """
    match job.state:
        case JobState.RUNNING:
            return f"attempt {job.attempt} is under way; if its process dies, another one takes over"
        case JobState.PENDING | JobState.RETRYABLE:
            return f"{_waiting(job, endpoint, now)}; {_given_up(job, now, max_age)}"
        case JobState.COMPLETED:
            return f"nothing: it was delivered at {instant_shown(job.finished_at)}; {_again(job, endpoint)}"
        case JobState.DISCARDED:
            reason = job.reason or "no reason kept"
            last = f", last answer {job.code}" if job.code and job.code != reason else ""
            when = instant_shown(job.finished_at)
            return f"nothing by itself: it was discarded at {when} ({reason}{last}); {_again(job, endpoint)}"
        case JobState.CANCELLED:
            why = job.reason or "no reason kept"
            return f"nothing: it was cancelled at {instant_shown(job.finished_at)} ({why}); {_again(job, endpoint)}"
        case _:
            assert_never(job.state)


def budget(job: JobRow, endpoint: Endpoint | None) -> str:
    """Tell how many attempts were made, and how many the endpoint's policy has left."""
    policy = None if endpoint is None else POLICIES.get(endpoint.policy)
    if policy is None:
        return f"{job.attempt} made"
    return f"{job.attempt} made, {job.spent} of {policy.max_attempts} spent (policy {policy.name})"


def _waiting(job: JobRow, endpoint: Endpoint | None, now: datetime) -> str:
    if job.parked:
        return _parked(endpoint)
    due = max(job.run_at, job.held_until or job.run_at)
    attempt = f"attempt {job.attempt + 1}"
    if due <= now:
        return (
            f"{attempt} is due: a worker sends it at its lane's next turn (`tidings up` or `tidings worker` runs one)"
        )
    when = f"{attempt} at {instant_shown(due)}, in {span(due - now)}"
    past = f"`tidings deliveries retry {job.id}` sends it now"
    if job.held_until is not None and job.held_until > now:
        why = ", as the receiver asked" if job.code in {"http_429", "http_503"} else ""
        return f"{when}: until then its endpoint's lane is held{why}; {past}"
    return f"{when}; {past}"


def _parked(endpoint: Endpoint | None) -> str:
    if endpoint is None or endpoint.state is not EndpointState.DISABLED:
        return "parked: the lane of its endpoint is off"
    why = f"{endpoint.state_reason or 'no reason kept'}, by {endpoint.state_by or 'somebody'}"
    return f"parked: its endpoint is disabled ({why}); `tidings endpoints enable {endpoint.id}` lets it go"


def _given_up(job: JobRow, now: datetime, max_age: timedelta) -> str:
    end = job.created_at + max_age
    if end <= now:
        return "it has reached its greatest age and is discarded as expired at its next turn"
    return f"given up at {instant_shown(end)} at the latest"


def _again(job: JobRow, endpoint: Endpoint | None) -> str:
    if endpoint is None or endpoint.state is EndpointState.REMOVED:
        return "its endpoint was removed, so it cannot be sent again"
    again = f"`tidings deliveries retry {job.id}` sends it again with a new budget"
    if endpoint.state is EndpointState.DISABLED:
        return f"its endpoint is disabled: after `tidings endpoints enable {endpoint.id}`, {again}"
    return again
