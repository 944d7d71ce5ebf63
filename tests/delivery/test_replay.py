"""Replay on a real database: finished deliveries go back, each once, in batches that may be cut short."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from delivery import replay
from delivery.compiler import endpoint_lane
from delivery.errors import InvalidInput
from delivery.jobs import JobState
from delivery.replay import BATCH, DeliveryFilter, checked
from tests.delivery.past import Past


@pytest.mark.parametrize("state", ["pending", "running", "retryable"])
def test_what_is_not_finished_cannot_be_replayed(state: str) -> None:
    with pytest.raises(InvalidInput, match=state):
        checked(DeliveryFilter(states=(JobState.COMPLETED, JobState(state))))


def test_without_a_state_the_discarded_ones_are_meant_and_all_else_stands() -> None:
    given = DeliveryFilter(
        owner_id="acme",
        endpoint_id=uuid4(),
        event_type="order.paid",
        since=datetime(2026, 1, 1, tzinfo=UTC),
        until=datetime(2026, 2, 1, tzinfo=UTC),
        error="http_503",
    )
    found = checked(given)
    assert found.states == (JobState.DISCARDED,)
    for name in ("owner_id", "endpoint_id", "event_type", "since", "until", "error"):
        assert getattr(found, name) == getattr(given, name)
    named = DeliveryFilter(states=(JobState.COMPLETED, JobState.CANCELLED))
    assert checked(named) is named


async def test_a_large_replay_goes_in_batches_oldest_first_and_a_repeat_moves_nothing(past: Past) -> None:
    ids = await past.deliveries(2 * BATCH + 7)
    assert await replay.count(past.jobs, DeliveryFilter()) == len(ids)
    assert await past.replay() == [BATCH, BATCH, 7]
    assert past.waiting() == set(ids)
    assert await past.replay() == []
    assert await replay.count(past.jobs, DeliveryFilter()) == 0


async def test_a_replay_cut_short_is_finished_by_the_next(past: Past) -> None:
    ids = await past.deliveries(BATCH + 7)
    steps = replay.replay(past.jobs, DeliveryFilter())
    assert await anext(steps) == BATCH
    await steps.aclose()
    assert past.waiting() == set(ids[:BATCH])
    assert await past.replay() == [7]


async def test_a_replayed_delivery_has_a_new_budget_and_its_attempts_are_numbered_on(past: Past) -> None:
    [job_id] = await past.deliveries(1)
    await past.replay()
    row = await past.jobs.get(job_id)
    assert (row.state, row.attempt, row.spent, row.reason) == (JobState.PENDING, 4, 0, None)


async def test_only_what_the_filter_names_moves(past: Past) -> None:
    this = {"endpoint_id": uuid4(), "type": "order.sent", "code": "http_503"}
    wanted = await past.deliveries(2, **this)
    waiting = await past.deliveries(1, "pending", **this)
    await past.deliveries(1, **this | {"type": "order.paid"})
    await past.deliveries(1, **this | {"code": "http_500"})
    await past.deliveries(1, **this | {"endpoint_id": uuid4()})
    await past.deliveries(1, **this | {"endpoint_id": uuid4()}, owner_id="other")
    await past.deliveries(1, "completed", **this)
    which = {"endpoint_id": this["endpoint_id"], "event_type": "order.sent", "error": "http_503"}
    assert await past.replay(owner_id="other", **which) == []
    assert await past.replay(owner_id="acme", **which) == [2]
    assert past.waiting() == {*wanted, *waiting}


@pytest.mark.parametrize("state", ["completed", "cancelled"])
async def test_completed_and_cancelled_ones_move_where_they_are_named(past: Past, state: str) -> None:
    ids = await past.deliveries(2, state, reason=None, code=None)
    assert await past.replay() == []
    assert await past.replay(states=(JobState(state),)) == [2]
    assert past.waiting() == set(ids)


async def test_a_time_span_holds_from_its_start_and_up_to_its_end(past: Past) -> None:
    ids = await past.deliveries(1)
    [created] = past.sql.execute("SELECT created_at FROM tidings.job_done").fetchone() or ()
    tick = timedelta(microseconds=1)
    assert await past.replay(until=created) == []
    assert await past.replay(since=created + tick) == []
    assert await past.replay(since=created, until=created + tick) == [1]
    assert past.waiting() == set(ids)


async def test_a_reason_is_found_as_well_as_a_code(past: Past) -> None:
    await past.deliveries(1, reason="expired", code="http_500")
    assert await past.replay(error="exhausted") == []
    assert await past.replay(error="expired") == [1]


async def test_an_endpoint_that_never_had_a_delivery_has_nothing_to_replay(past: Past) -> None:
    await past.deliveries(1)
    assert await past.replay(endpoint_id=uuid4()) == []
    assert await replay.count(past.jobs, DeliveryFilter(endpoint_id=uuid4())) == 0


async def test_deliveries_to_an_endpoint_that_is_gone_stay_as_they_ended(past: Past) -> None:
    gone, standing = uuid4(), uuid4()
    await past.deliveries(2, "completed", endpoint_id=gone)
    kept = await past.deliveries(1, "completed", endpoint_id=standing)
    past.sql.execute("UPDATE tidings.lane SET is_closed = true WHERE key = %s", (endpoint_lane(gone),))
    which = DeliveryFilter(states=(JobState.COMPLETED,))
    assert await replay.count(past.jobs, which) == 1
    assert await past.replay(states=which.states) == [1]
    assert past.waiting() == set(kept)
