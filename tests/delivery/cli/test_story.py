"""What happens to a delivery next, and when. Pure."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from delivery.attempts import Attempt, Report
from delivery.cli.story import budget, next_step
from delivery.jobs import JobRow, JobState
from subscriptions.model import ClientErrors, Endpoint, EndpointState, RetryPolicy
from subscriptions.policies import STANDARD

NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
ENDPOINT_ID = UUID("01890000-0000-7000-8000-000000000001")
ENDPOINT = Endpoint(id=ENDPOINT_ID, owner_id="acme", url="https://example.com/", created_at=NOW, updated_at=NOW)
DISABLED = replace(ENDPOINT, state=EndpointState.DISABLED, state_reason="too loud", state_by="ann")
REMOVED = replace(ENDPOINT, state=EndpointState.REMOVED)
MAX_AGE = timedelta(days=14)


def job(state: JobState, **given: Any) -> JobRow:
    fields: dict[str, Any] = {
        "id": 7,
        "owner_id": "acme",
        "kind": "webhook.deliver",
        "lane": f"endpoint:{ENDPOINT_ID}",
        "args": {},
        "state": state,
        "attempt": 2,
        "spent": 1,
        "max_attempts": 34,
        "priority": 0,
        "run_at": NOW,
        "queued_at": NOW - timedelta(days=1),
        "created_at": NOW - timedelta(days=1),
        "finished_at": NOW - timedelta(hours=1) if state.is_final else None,
        "reason": None,
        "code": None,
    }
    return JobRow(**fields | given)


def told(row: JobRow, endpoint: Endpoint | None = ENDPOINT, policy: RetryPolicy = STANDARD) -> str:
    return next_step(row, endpoint, policy if endpoint else None, now=NOW, max_age=MAX_AGE)


def test_one_that_is_due_waits_for_a_worker():
    line = told(job(JobState.PENDING))
    assert line.startswith("attempt 3 is due: a worker sends it")
    assert "`tidings up` or `tidings worker`" in line
    assert line.endswith("given up at 2026-02-13 12:00:00Z at the latest")


def test_one_that_is_retried_tells_when_and_how_to_hurry_it():
    line = told(job(JobState.RETRYABLE, run_at=NOW + timedelta(minutes=5)))
    assert line.startswith("attempt 3 at 2026-01-31 12:05:00Z, in 5 min; `tidings deliveries retry 7` sends it now")


def test_one_that_is_held_tells_until_when_and_why():
    line = told(job(JobState.PENDING, held_until=NOW + timedelta(seconds=90)))
    assert line.startswith("attempt 3 at 2026-01-31 12:01:30Z, in 1 min 30 s: until then its endpoint's lane is held")
    assert "`tidings deliveries retry 7`" in line


def test_one_that_starts_late_tells_why():
    line = told(job(JobState.PENDING, attempt=0, spent=0, created_at=NOW, run_at=NOW + timedelta(minutes=5)))
    assert line.startswith(
        "attempt 1 at 2026-01-31 12:05:00Z, in 5 min: its endpoint's tries only fail, so new deliveries start late"
        " (TIDINGS_COOLDOWN); `tidings deliveries retry 7` sends it now"
    )
    soon = job(JobState.PENDING, attempt=0, spent=0, created_at=NOW, run_at=NOW + timedelta(seconds=2))
    assert "COOLDOWN" not in told(soon)


def test_the_later_of_hold_and_retry_counts():
    row = job(JobState.RETRYABLE, run_at=NOW + timedelta(hours=2), held_until=NOW + timedelta(minutes=1))
    assert "in 2 h" in told(row)


def test_a_hold_that_is_over_is_not_told():
    assert "is due" in told(job(JobState.PENDING, held_until=NOW - timedelta(seconds=1)))


def test_one_that_is_parked_tells_who_disabled_its_endpoint_and_why():
    line = told(job(JobState.PENDING, parked=True), DISABLED)
    assert line.startswith("parked: its endpoint is disabled (too loud, by ann)")
    assert f"`tidings endpoints enable {ENDPOINT_ID}` lets it go" in line
    assert "given up at" in line


def test_one_whose_lane_is_off_for_no_known_reason_says_so():
    assert told(job(JobState.PENDING, parked=True)).startswith("parked: the lane of its endpoint is off")


def test_one_that_runs_tells_which_attempt():
    assert told(job(JobState.RUNNING)).startswith("attempt 2 is under way")


def test_one_that_is_too_old_tells_that_it_is_given_up():
    assert "discarded as expired" in told(job(JobState.RETRYABLE, queued_at=NOW - timedelta(days=15)))


def test_one_that_was_delivered_has_nothing_left():
    line = told(job(JobState.COMPLETED))
    assert line.startswith("nothing: it was delivered at 2026-01-31 11:00:00Z")
    assert "`tidings deliveries retry 7` sends it again" in line


def test_one_that_was_discarded_tells_why_and_how_to_send_it_again():
    line = told(job(JobState.DISCARDED, reason="exhausted", code="http_500"))
    assert "discarded at 2026-01-31 11:00:00Z (exhausted, last answer http_500)" in line
    assert "`tidings deliveries retry 7` sends it again with a new budget" in line


def test_a_reason_is_told_once():
    assert "(http_400);" in told(job(JobState.DISCARDED, reason="http_400", code="http_400"))


def test_one_that_was_cancelled_tells_by_whom():
    assert "cancelled at 2026-01-31 11:00:00Z (ann)" in told(job(JobState.CANCELLED, reason="ann"))


@pytest.mark.parametrize("state", [JobState.COMPLETED, JobState.DISCARDED, JobState.CANCELLED])
@pytest.mark.parametrize("endpoint", [REMOVED, None])
def test_nothing_is_sent_again_to_an_endpoint_that_was_removed(state: JobState, endpoint: Endpoint | None):
    line = told(job(state), endpoint)
    assert line.endswith("its endpoint was removed, so it cannot be sent again")


def test_an_endpoint_that_is_disabled_is_enabled_first():
    assert f"after `tidings endpoints enable {ENDPOINT_ID}`" in told(job(JobState.DISCARDED), DISABLED)


def test_the_budget_is_that_of_the_endpoints_policy():
    assert budget(job(JobState.RETRYABLE), ENDPOINT, STANDARD) == "2 made, 1 of 18 spent (policy standard)"
    assert budget(job(JobState.RETRYABLE), None, None) == "2 made"
    assert budget(job(JobState.RETRYABLE), REMOVED, None) == "2 made"


def test_the_age_of_one_that_was_put_back_counts_from_then():
    line = told(job(JobState.PENDING, created_at=NOW - timedelta(days=90)))
    assert line.endswith("given up at 2026-02-13 12:00:00Z at the latest")


def test_the_age_at_which_it_is_given_up_is_the_lesser_of_the_policys_and_the_platforms():
    waits = job(JobState.RETRYABLE, run_at=NOW + timedelta(minutes=5))
    hasty, patient = (replace(STANDARD, max_age=timedelta(days=days)) for days in (2, 30))
    assert told(waits, policy=hasty).endswith("given up at 2026-02-01 12:00:00Z at the latest")
    assert told(waits, policy=patient).endswith("given up at 2026-02-13 12:00:00Z at the latest")


def tried(*statuses: int | None) -> list[Attempt]:
    """Attempts that were answered so; None = our own trouble."""
    return [
        Attempt(
            number=number,
            started_at=NOW,
            took_ms=1,
            outcome="ours" if status is None else "retryable",
            report=Report(code="internal_error" if status is None else f"http_{status}", status=status),
            next_at=None,
        )
        for number, status in enumerate(statuses, start=1)
    ]


@pytest.mark.parametrize(
    ("statuses", "row"),
    [((404,), 1), ((404, 401), 2), ((404, None, 401), 2), ((404, 401, None), 2), ((404, 500, 401), 1), ((404, 500), 0)],
)
def test_answers_that_a_deploy_may_explain_have_a_budget_of_their_own(statuses: tuple[int | None, ...], row: int):
    waits = job(JobState.RETRYABLE, attempt=len(statuses), spent=len(statuses))
    line, then = (
        budget(waits, ENDPOINT, STANDARD, tried(*statuses)),
        next_step(waits, ENDPOINT, STANDARD, tried(*statuses), now=NOW, max_age=MAX_AGE),
    )
    assert (f"in a row: {row} of 6" in line) == bool(row)
    assert ("given up after" in then) == bool(row)
    if row:
        assert f"given up after {6 - row} more attempts in a row with such an answer, or at 2026-02-13" in then


def test_one_that_was_retried_by_hand_starts_anew():
    assert "in a row" not in budget(job(JobState.PENDING, spent=0), ENDPOINT, STANDARD, tried(404, 404))
    line = budget(job(JobState.PENDING, spent=1), ENDPOINT, STANDARD, tried(404, 404))
    assert line.endswith("http_404 in a row: 1 of 6")


def test_where_a_policy_has_no_use_for_the_short_ladder_none_is_told_of():
    full = replace(STANDARD, client_errors=ClientErrors.FULL)
    waits = job(JobState.RETRYABLE, attempt=2, spent=2)
    assert budget(waits, ENDPOINT, full, tried(404, 404)) == "2 made, 2 of 18 spent (policy standard)"
