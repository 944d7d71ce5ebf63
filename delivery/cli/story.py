"""What happens to a delivery next, and when, in words that say what to do. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import assert_never

from delivery.attempts import Attempt
from delivery.channels import Reply
from delivery.classifier import Ladder, Retryable, classify
from delivery.cli.output import counted, instant_shown, span
from delivery.jobs import JobRow, JobState
from subscriptions.model import Endpoint, EndpointState, RetryPolicy

#: What is relayed to start at once starts within this, whichever clock is read.
_AT_ONCE = timedelta(seconds=10)
#: Outcomes that say nothing of the receiver, so that they neither count nor end a row.
_OF_NO_ACCOUNT = {"ours", "interrupted", "lost"}


def next_step(
    job: JobRow,
    endpoint: Endpoint | None,
    policy: RetryPolicy | None,
    attempts: Sequence[Attempt] = (),
    *,
    now: datetime,
    max_age: timedelta,
) -> str:
    """Tell it in one line.

    `now` is compared with the database's clock; `max_age` is the age at which every delivery that waits is given up.
    """
    if policy is not None and policy.max_age is not None:
        max_age = min(max_age, policy.max_age)
    match job.state:
        case JobState.RUNNING:
            return f"attempt {job.attempt} is under way; if its process dies, another one takes over"
        case JobState.PENDING | JobState.RETRYABLE:
            short = _short(job, endpoint, policy, attempts)
            return f"{_waiting(job, endpoint, now)}; {_given_up(job, now, max_age, short)}"
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


def budget(job: JobRow, endpoint: Endpoint | None, policy: RetryPolicy | None, attempts: Sequence[Attempt] = ()) -> str:
    """Tell how many attempts were made, and how many the endpoint's policy has left.

    Answers that a deploy may explain, such as 404, have a smaller budget within it: so many in a row.
    """
    if policy is None:
        return f"{job.attempt} made"
    whole = f"{job.attempt} made, {job.spent} of {policy.max_attempts} spent (policy {policy.name})"
    short = _short(job, endpoint, policy, attempts)
    if short is None:
        return whole
    return f"{whole}; {short.code} in a row: {short.spent} of {short.most}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Short:
    """The smaller budget that the last attempts have drawn on."""

    code: str  #: of the last one
    spent: int
    most: int


def _short(
    job: JobRow, endpoint: Endpoint | None, policy: RetryPolicy | None, attempts: Sequence[Attempt]
) -> _Short | None:
    """Count as `backoff.plan` does: from the last attempt back; our own trouble in between counts for nothing."""
    if endpoint is None or policy is None:
        return None
    row, code = 0, None
    for attempt in reversed(attempts):
        if attempt.outcome in _OF_NO_ACCOUNT:
            continue
        if not _is_short(attempt, endpoint, policy):
            break
        row, code = row + 1, code or attempt.report.code
    spent = min(row, job.spent)  # one that was retried by a person has a new budget
    return _Short(code=code or "such answers", spent=spent, most=policy.short_attempts) if spent else None


def _is_short(attempt: Attempt, endpoint: Endpoint, policy: RetryPolicy) -> bool:
    status = attempt.report.status
    if attempt.outcome != Retryable.outcome or status is None:
        return False
    verdict = classify(Reply(status=status), endpoint.overrides, policy.client_errors)
    return isinstance(verdict, Retryable) and verdict.ladder is Ladder.SHORT


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
    if not job.attempt and due - job.created_at > _AT_ONCE:
        return f"{when}: its endpoint's tries only fail, so new deliveries start late (TIDINGS_COOLDOWN); {past}"
    return f"{when}; {past}"


def _parked(endpoint: Endpoint | None) -> str:
    if endpoint is None or endpoint.state is not EndpointState.DISABLED:
        return "parked: the lane of its endpoint is off"
    why = f"{endpoint.state_reason or 'no reason kept'}, by {endpoint.state_by or 'somebody'}"
    return f"parked: its endpoint is disabled ({why}); `tidings endpoints enable {endpoint.id}` lets it go"


def _given_up(job: JobRow, now: datetime, max_age: timedelta, short: _Short | None) -> str:
    end = job.queued_at + max_age
    if end <= now:
        return "it has reached its greatest age and is discarded as expired at its next turn"
    latest = f"at {instant_shown(end)} at the latest"
    if short is None:
        return f"given up {latest}"
    left = max(1, short.most - short.spent)
    return f"given up after {counted(left, 'more attempt')} in a row with such an answer, or {latest}"


def _again(job: JobRow, endpoint: Endpoint | None) -> str:
    if endpoint is None or endpoint.state is EndpointState.REMOVED:
        return "its endpoint was removed, so it cannot be sent again"
    again = f"`tidings deliveries retry {job.id}` sends it again with a new budget"
    if endpoint.state is EndpointState.DISABLED:
        return f"its endpoint is disabled: after `tidings endpoints enable {endpoint.id}`, {again}"
    return again
