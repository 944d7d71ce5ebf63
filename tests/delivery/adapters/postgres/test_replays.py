"""Replays on a real database, batch by batch: what is taken, what is passed over, and that each is taken once."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from delivery.adapters.postgres.replays import PostgresReplays
from delivery.compiler import endpoint_lane
from delivery.errors import TidingsError
from delivery.jobs import JobState
from tests.conformance.patience import eventually
from tests.delivery.adapters.postgres.batches import Batches
from tests.delivery.adapters.postgres.ledger import Killed, Mortal

TICK = timedelta(microseconds=1)


async def test_a_batch_moves_as_many_as_it_may_and_the_replay_ends_when_none_are_left(batches: Batches) -> None:
    ids = await batches.past.deliveries(23)
    replay = await batches.start()
    steps = [await batches.step(replay) for _ in range(3)]
    assert [step.goes_on for step in steps] == [True, True, False]
    assert [step.replay and step.replay.tally.put_back for step in steps] == [10, 20, 23]
    assert batches.past.waiting() == set(ids)
    assert not (await batches.step(replay)).goes_on


async def test_who_started_it_and_why_is_kept(batches: Batches) -> None:
    await batches.past.deliveries(1)
    replay = await batches.start(pace=2.5)
    assert (replay.started_by, replay.reason, replay.pace, replay.total) == ("ann", "repaired", 2.5, 1)
    assert await batches.replays.get(None, replay.id) == replay
    kept = batches.past.sql.execute("SELECT what, subject, made_by, after FROM tidings.change").fetchall()
    assert kept == [("replay.started", f"replay:{replay.id}", "ann", {"reason": "repaired"})]


@pytest.mark.parametrize("by_endpoint", [False, True])
async def test_what_fails_again_meanwhile_is_not_taken_again(batches: Batches, by_endpoint: bool) -> None:
    endpoint = uuid4()
    ids = await batches.past.deliveries(25, endpoint_id=endpoint)
    replay = await batches.start(endpoint_id=endpoint if by_endpoint else None)
    while (await batches.step(replay)).goes_on:
        batches.past.finish(sorted(batches.past.waiting()))
    assert (await batches.replays.get(None, replay.id)).tally.put_back == 25
    assert len(batches.past.waiting()) == 5
    again = batches.past.sql.execute("SELECT count(*) FROM tidings.job_done").fetchone()
    assert again == (len(ids) - 5,)


async def test_what_ended_after_its_start_is_not_taken(batches: Batches) -> None:
    early = await batches.past.deliveries(3)
    waiting = await batches.past.deliveries(1, "pending")
    replay = await batches.start()
    batches.past.finish(waiting)
    await batches.past.deliveries(2)
    assert not (await batches.step(replay)).goes_on
    assert batches.past.waiting() == set(early)


async def test_a_batch_that_does_not_commit_leaves_nothing_and_is_made_again(batches: Batches) -> None:
    ids = await batches.past.deliveries(15)
    replay = await batches.start()
    batches.past.sql.execute(
        "CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no'; END $$;"
        "CREATE TRIGGER refuse BEFORE UPDATE ON tidings.replay FOR EACH ROW EXECUTE FUNCTION public.refuse()"
    )
    with pytest.raises(TidingsError):
        await batches.step(replay)
    assert batches.past.waiting() == set()
    assert (await batches.replays.get(None, replay.id)).tally.seen == 0
    batches.past.sql.execute("DROP FUNCTION public.refuse CASCADE")
    assert (await batches.step(replay)).goes_on
    assert not (await batches.step(replay)).goes_on
    assert batches.past.waiting() == set(ids)


async def test_killed_before_any_statement_it_goes_on_where_it_stood(batches: Batches, dsn: str) -> None:
    ids = await batches.past.deliveries(25)
    replay = await batches.start()
    mortal = Mortal(dsn)
    await mortal.open()
    dying = PostgresReplays(mortal, batches.past.jobs.with_, batch=10, look=25)
    deaths = 0
    for moved in (10, 20, 25):
        for dies_at in itertools.count(1):
            mortal.dies_at = dies_at
            try:
                await dying.step(replay.id, replay.run)
                break
            except Killed:
                deaths += 1
                assert len(batches.past.waiting()) == (moved - 1) // 10 * 10
        assert len(batches.past.waiting()) == moved
    await mortal.close()
    assert deaths >= 3 * 4
    assert batches.past.waiting() == set(ids)
    assert (await batches.replays.get(None, replay.id)).tally.put_back == 25


async def test_a_batch_that_was_made_shows_that_the_job_kills_no_worker(batches: Batches) -> None:
    await batches.past.deliveries(15)
    replay = await batches.start()
    batches.past.sql.execute("UPDATE tidings.job SET lost = 4 WHERE id = %s", (replay.job_id,))
    await batches.step(replay)
    lost = batches.past.sql.execute("SELECT lost FROM tidings.job WHERE id = %s", (replay.job_id,))
    assert lost.fetchall() == [(0,)]


async def test_two_workers_at_one_replay_take_each_delivery_once(batches: Batches) -> None:
    ids = await batches.past.deliveries(95)
    replay = await batches.start()

    async def work() -> None:
        while (await batches.step(replay)).goes_on:
            pass

    await asyncio.gather(work(), work(), work())
    assert batches.past.waiting() == set(ids)
    tally = (await batches.replays.get(None, replay.id)).tally
    assert (tally.put_back, tally.seen) == (95, 95)


async def test_a_batch_that_meets_a_pause_waits_for_it_and_does_nothing(batches: Batches, dsn: str) -> None:
    await batches.past.deliveries(15)
    replay = await batches.start()
    waits = "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    async with await psycopg.AsyncConnection.connect(dsn) as person:
        await person.execute("UPDATE tidings.replay SET state = 'paused', state_by = 'ann' WHERE id = %s", (replay.id,))
        step = asyncio.create_task(batches.step(replay))
        await eventually(lambda: batches.past.sql.execute(waits).fetchone() is not None)
    assert not (await asyncio.wait_for(step, 60)).goes_on
    assert batches.past.waiting() == set()


async def test_two_replays_of_the_same_deliveries_put_each_back_once(batches: Batches) -> None:
    ids = await batches.past.deliveries(30)
    first, second = await batches.start(), await batches.start()
    await batches.step(first)
    for replay in (second, first):
        while (await batches.step(replay)).goes_on:
            pass
    assert batches.past.waiting() == set(ids)
    ended = [(await batches.replays.get(None, each.id)).tally for each in (first, second)]
    assert [tally.put_back for tally in ended] == [10, 20]


async def test_one_that_somebody_retries_in_the_very_moment_is_passed_over(batches: Batches, dsn: str) -> None:
    first, *rest = await batches.past.deliveries(3)
    replay = await batches.start()
    async with batches.past.database.transaction() as holder:
        await holder.execute("DELETE FROM tidings.job_done WHERE id = %s", (first,))
        step = asyncio.ensure_future(batches.step(replay))
        await eventually(batches.past.somebody_waits)
    await step
    ended = (await batches.replays.get(None, replay.id)).tally
    assert (ended.put_back, dict(ended.skipped)) == (2, {"moved": 1})
    assert batches.past.waiting() == set(rest)


class Slow(PostgresReplays):
    """Replays between whose looking and putting back something else happens."""

    meanwhile: Callable[[], object]

    async def _put_back(self, *found: Any) -> Any:
        self.meanwhile()
        return await super()._put_back(*found)


async def test_one_that_was_retried_and_ended_again_meanwhile_is_passed_over(batches: Batches) -> None:
    ids = await batches.past.deliveries(3)
    ended = "UPDATE tidings.job_done SET finished_at = finished_at - make_interval(secs => %s) WHERE id = %s"
    batches.past.sql.execute(ended, [60, ids[0]])
    replay = await batches.start()
    slow = Slow(batches.past.database, batches.past.jobs.with_)
    slow.meanwhile = lambda: batches.past.sql.execute(ended, [30, ids[1]])
    step = await slow.step(replay.id, replay.run)
    assert step.replay is not None
    assert (step.replay.tally.put_back, dict(step.replay.tally.skipped)) == (2, {"moved": 1})
    assert batches.past.waiting() == {ids[0], ids[2]}


# Filters --------------------------------------------------------------------------------------------------------------


async def test_only_what_the_filter_names_is_taken(batches: Batches) -> None:
    this = {"endpoint_id": uuid4(), "type": "order.sent", "code": "http_503"}
    wanted = await batches.past.deliveries(12, **this)
    await batches.past.deliveries(1, **this | {"type": "order.paid"})
    await batches.past.deliveries(1, **this | {"code": "http_500"})
    await batches.past.deliveries(1, **this | {"endpoint_id": uuid4()})
    await batches.past.deliveries(30, "completed", **this)
    which = {"endpoint_id": this["endpoint_id"], "types": ("order.sent",), "error": "http_503"}
    assert (await batches.run(owner_id="other", **which)).tally.seen == 0
    assert (await batches.run(owner_id="acme", **which)).tally.put_back == 12
    assert batches.past.waiting() == set(wanted)


async def test_other_owners_deliveries_are_not_seen(batches: Batches) -> None:
    await batches.past.deliveries(40, owner_id="other")
    mine = await batches.past.deliveries(3)
    await batches.past.deliveries(40, owner_id="other")
    assert (await batches.run(owner_id="acme")).tally.seen == 3
    assert batches.past.waiting() == set(mine)
    assert (await batches.run()).tally.seen == 80


@pytest.mark.parametrize(
    ("pattern", "found"),
    [("order.*", 2), ("*.paid", 2), ("*", 3), ("order.paid", 1), ("order", 0), ("tidings.*", 1), ("order.*.x", 0)],
)
async def test_types_are_matched_as_subscriptions_match_them(batches: Batches, pattern: str, found: int) -> None:
    for name in ("order.paid", "order.sent", "invoice.paid", "tidings.endpoint.failing"):
        await batches.past.deliveries(1, type=name)
    assert (await batches.run(types=(pattern,))).tally.put_back == found


async def test_several_types_and_states_are_any_of_them(batches: Batches) -> None:
    for name in ("order.paid", "order.sent", "invoice.paid"):
        for state in ("completed", "discarded", "cancelled"):
            await batches.past.deliveries(1, state, type=name)
    states = (JobState.COMPLETED, JobState.CANCELLED)
    assert (await batches.run(types=("order.paid", "invoice.*"), states=states)).tally.put_back == 4
    assert (await batches.run(states=states)).tally.put_back == 2


async def test_a_reason_is_found_as_well_as_a_code(batches: Batches) -> None:
    await batches.past.deliveries(2, reason="expired", code="http_500")
    assert (await batches.run(error="exhausted")).tally.seen == 0
    assert (await batches.run(error="expired")).tally.put_back == 2


async def test_the_last_attempt_says_class_and_status(batches: Batches) -> None:
    refused, failed, silent = [await batches.past.deliveries(2) for _ in range(3)]
    batches.past.attempted(refused, "retryable", status=503, number=3)
    batches.past.attempted(refused, "permanent", status=400)
    batches.past.attempted(failed, "retryable", status=503)
    batches.past.attempted(silent, "retryable")
    assert (await batches.run(outcomes=("permanent",), statuses=(500, 599))).tally.seen == 0
    assert (await batches.run(statuses=(503, 503))).tally.put_back == 2
    assert batches.past.waiting() == set(failed)
    assert (await batches.run(outcomes=("permanent",))).tally.put_back == 2
    assert (await batches.run(outcomes=("retryable", "permanent"))).tally.put_back == 2
    assert batches.past.waiting() == {*refused, *failed, *silent}


async def test_a_time_span_holds_from_its_start_and_up_to_its_end(batches: Batches) -> None:
    await batches.past.deliveries(1)
    [created] = batches.past.sql.execute("SELECT created_at FROM tidings.job_done").fetchone() or ()
    assert (await batches.run(until=created)).tally.seen == 0
    assert (await batches.run(since=created + TICK)).tally.seen == 0
    assert (await batches.run(since=created, until=created + TICK)).tally.put_back == 1


@pytest.mark.parametrize("by_endpoint", [False, True])
async def test_undelivered_ones_are_those_that_no_attempt_ever_delivered(batches: Batches, by_endpoint: bool) -> None:
    endpoint = uuid4()
    again, never = [await batches.past.deliveries(number, endpoint_id=endpoint) for number in (23, 2)]
    which = {"endpoint_id": endpoint} if by_endpoint else {}
    batches.past.attempted(again, "delivered", status=200, number=2)
    batches.past.attempted([*again, *never], "retryable", status=500)
    ended = await batches.run(only_undelivered=True, **which)
    assert (ended.tally.put_back, dict(ended.tally.skipped)) == (2, {"delivered": 23})
    assert batches.past.waiting() == set(never)
    assert (await batches.run(**which)).tally.put_back == 23


@pytest.mark.parametrize(
    ("change", "why"),
    [("is_closed = true", "endpoint_removed"), ("is_on = false", "endpoint_disabled")],
)
async def test_endpoints_that_take_nothing_are_passed_over_and_told(batches: Batches, change: str, why: str) -> None:
    gone = uuid4()
    await batches.past.deliveries(12, endpoint_id=gone)
    kept = await batches.past.deliveries(2)
    batches.past.sql.execute(f"UPDATE tidings.lane SET {change} WHERE key = %s", (endpoint_lane(gone),))
    ended = await batches.run()
    assert (ended.tally.put_back, dict(ended.tally.skipped)) == (2, {why: 12})
    assert batches.past.waiting() == set(kept)


async def test_what_has_become_internal_is_passed_over_and_told(batches: Batches) -> None:
    await batches.past.deliveries(2, type="staff.hired")
    assert dict((await batches.run()).tally.skipped) == {"not_exposed": 2}


async def test_an_endpoint_without_deliveries_has_nothing_to_replay(batches: Batches) -> None:
    await batches.past.deliveries(1)
    assert (await batches.run(endpoint_id=uuid4())).tally.seen == 0
