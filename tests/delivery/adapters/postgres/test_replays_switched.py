"""Replays that are paused, resumed and cancelled, and their pace."""

from __future__ import annotations

from datetime import timedelta

import pytest

from delivery.errors import Conflict, NotFound
from delivery.replays import ReplayState
from tests.delivery.adapters.postgres.batches import Batches


async def test_a_paused_one_moves_nothing_until_it_is_resumed(batches: Batches) -> None:
    ids = await batches.past.deliveries(25)
    replay = await batches.start()
    await batches.step(replay)
    paused = await batches.replays.switch(None, replay.id, ReplayState.PAUSED, by="bob", reason="too fast")
    assert (paused.state, paused.state_by, paused.state_reason) == (ReplayState.PAUSED, "bob", "too fast")
    assert not (await batches.step(replay)).goes_on
    assert len(batches.past.waiting()) == 10
    assert await batches.replays.switch(None, replay.id, ReplayState.PAUSED, by="eve", reason=None) == paused
    resumed = await batches.replays.switch(None, replay.id, ReplayState.RUNNING, by="bob", reason=None)
    assert (resumed.run, resumed.job_id != replay.job_id) == (2, True)
    assert not (await batches.step(replay)).goes_on, "the run of before went on beside the new one"
    while (await batches.step(resumed)).goes_on:
        pass
    assert batches.past.waiting() == set(ids)


async def test_a_cancelled_one_ends_where_it_stands(batches: Batches) -> None:
    await batches.past.deliveries(25)
    replay = await batches.start()
    await batches.step(replay)
    cancelled = await batches.replays.switch(None, replay.id, ReplayState.CANCELLED, by="bob", reason=None)
    assert cancelled.ended_at is not None
    assert not (await batches.step(replay)).goes_on
    assert len(batches.past.waiting()) == 10
    assert await batches.replays.switch(None, replay.id, ReplayState.CANCELLED, by="eve", reason=None) == cancelled
    for state in (ReplayState.PAUSED, ReplayState.RUNNING):
        with pytest.raises(Conflict, match="is cancelled, for good"):
            await batches.replays.switch(None, replay.id, state, by="bob", reason=None)
    kept = batches.past.sql.execute("SELECT what, made_by FROM tidings.change ORDER BY id").fetchall()
    assert kept == [("replay.started", "ann"), ("replay.cancelled", "bob")]


async def test_one_whose_job_has_ended_is_stalled_and_can_be_resumed(batches: Batches) -> None:
    await batches.past.deliveries(1)
    replay = await batches.start()
    assert not replay.is_stalled
    assert (await batches.replays.switch(None, replay.id, ReplayState.RUNNING, by="bob", reason=None)).run == 1
    assert replay.job_id is not None
    await batches.past.jobs.cancel(replay.job_id, by="bob")
    assert (await batches.replays.get(None, replay.id)).is_stalled
    resumed = await batches.replays.switch(None, replay.id, ReplayState.RUNNING, by="bob", reason=None)
    assert (resumed.run, resumed.is_stalled) == (2, False)


async def test_another_owners_replay_is_not_found_and_not_touched(batches: Batches) -> None:
    await batches.past.deliveries(1)
    replay = await batches.start(owner_id="acme")
    for owner_id in ("other", None):
        found = await batches.replays.list(owner_id)
        assert [each.id for each in found] == ([] if owner_id else [replay.id])
    with pytest.raises(NotFound, match="owner 'other' has no replay"):
        await batches.replays.get("other", replay.id)
    with pytest.raises(NotFound):
        await batches.replays.switch("other", replay.id, ReplayState.CANCELLED, by="eve", reason=None)
    assert await batches.replays.get("acme", replay.id) == replay
    for unknown in (0, 99, 2**63):
        with pytest.raises(NotFound, match="there is no replay"):
            await batches.replays.get(None, unknown)
    assert (await batches.replays.step(99, 1)).replay is None


# Pace -----------------------------------------------------------------------------------------------------------------


async def test_at_a_pace_a_batch_is_a_seconds_worth_and_the_next_one_waits_for_its_time(batches: Batches) -> None:
    await batches.past.deliveries(30)
    replay = await batches.start(pace=4.0)
    assert (await batches.step(replay)).wait == timedelta(0)
    assert len(batches.past.waiting()) == 4
    batches.past.sql.execute("UPDATE tidings.replay SET pace = 0.001, next_at = now() + interval '900 s'")
    early = await batches.step(replay)
    assert early.goes_on
    assert timedelta(minutes=10) < early.wait <= timedelta(minutes=15)
    assert len(batches.past.waiting()) == 4


async def test_a_clock_that_was_ahead_holds_nothing_up(batches: Batches) -> None:
    await batches.past.deliveries(30)
    replay = await batches.start(pace=4.0)
    batches.past.sql.execute("UPDATE tidings.replay SET next_at = now() + interval '1 day'")
    assert (await batches.step(replay)).wait == timedelta(0)
    assert len(batches.past.waiting()) == 4
    query = "SELECT next_at < now() + interval '1 min' FROM tidings.replay"
    assert batches.past.sql.execute(query).fetchone() == (True,)


async def test_what_was_put_back_takes_its_time_and_lost_time_is_made_up_for_by_a_second(batches: Batches) -> None:
    await batches.past.deliveries(30)
    replay = await batches.start(pace=0.01)
    batches.past.sql.execute("UPDATE tidings.replay SET next_at = '2020-01-01'")
    await batches.step(replay)
    [ahead] = (
        batches.past.sql.execute(
            "SELECT next_at BETWEEN now() + interval '30 s' AND now() + interval '100 s' FROM tidings.replay"
        ).fetchone()
        or ()
    )
    assert ahead
    assert len(batches.past.waiting()) == 1
