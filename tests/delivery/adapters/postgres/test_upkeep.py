from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from delivery.adapters.postgres.database import Database
from delivery.adapters.postgres.partitions import make_partitions
from delivery.adapters.postgres.runtime import PostgresRuntime
from delivery.adapters.postgres.upkeep import UpkeepSettings, cleanup, expire, upkeep
from delivery.compiler import deliver_kind, handler_kind
from delivery.jobs import FINAL_STATES, EnqueueOptions, Job, JobState
from tests.delivery.adapters.postgres.ledger import DAY, NOON, PARENTS, PATIENT, Killed, Ledger, Mortal

OLD, RECENT = NOON - 40 * DAY, NOON - 5 * DAY
HOUR = timedelta(hours=1)
MONTH = UpkeepSettings(retention=timedelta(days=30))
NEVER = UpkeepSettings(retention=None)
FORTNIGHT = {"webhook.deliver": timedelta(days=14)}


@pytest.fixture
def ledger(connection: psycopg.Connection[Any]) -> Ledger:
    return Ledger(connection)


@pytest.fixture
async def database(dsn: str) -> AsyncIterator[Mortal]:
    opened = Mortal(dsn, deadlines=PATIENT)
    await opened.open()
    yield opened
    await opened.close()


@pytest.fixture(params=["in partitions", "in the default partition"])
async def placed(request: pytest.FixtureRequest, database: Mortal) -> None:
    """Let old rows lie in partitions of their days, or in the DEFAULT one."""
    if request.param == "in partitions":
        for first in (OLD, NOON - 7 * DAY):
            await make_partitions(database, None, now=first)


@pytest.mark.usefixtures("placed")
class TestRetention:
    async def test_old_deliveries_go_with_their_attempts_identities_event_and_key(
        self, database: Database, ledger: Ledger
    ):
        ledger.done(OLD, event=ledger.event(OLD, key="k"))
        ledger.done(OLD, event=ledger.event(OLD), state="discarded")
        ledger.event(OLD)  # nobody subscribed
        await cleanup(database, MONTH, now=NOON)
        assert ledger.counts() == dict.fromkeys(PARENTS, 0)
        assert ledger.count("event_key") == 0

    async def test_partitions_of_old_days_are_dropped(self, database: Database, ledger: Ledger):
        ledger.done(OLD, event=ledger.event(OLD))
        await cleanup(database, MONTH, now=NOON)
        assert min((part[-8:] for table in PARENTS for part in ledger.parts(table)), default="9") >= (
            f"{NOON - 30 * DAY:%Y%m%d}"
        )

    async def test_recent_deliveries_stay_with_all_that_hangs_on_them(self, database: Database, ledger: Ledger):
        ledger.done(RECENT, event=ledger.event(RECENT, key="k"))
        before = ledger.counts()
        await cleanup(database, MONTH, now=NOON)
        assert ledger.counts() == before
        assert ledger.count("event_key") == 1

    @pytest.mark.parametrize("state", ["completed", "discarded", "cancelled"])
    async def test_an_old_event_stays_while_a_delivery_of_it_is_kept(
        self, database: Database, ledger: Ledger, state: str
    ):
        event = ledger.event(OLD, key="k")
        job = ledger.done(RECENT, tried_at=OLD, event=event, state=state)
        gone = ledger.done(OLD, event=event)
        await cleanup(database, MONTH, now=NOON)
        assert ledger.has_event(event)
        assert ledger.count("event_key") == 1
        assert all(ledger.has(table, job) for table in ("job_done", "job_identity", "attempt"))
        assert not any(ledger.has(table, gone) for table in ("job_done", "job_identity", "attempt"))
        await cleanup(database, MONTH, now=NOON + 27 * DAY)
        assert not ledger.has_event(event)
        assert ledger.counts() == dict.fromkeys(PARENTS, 0)

    async def test_an_old_event_stays_while_a_delivery_of_it_is_not_settled(self, database: Database, ledger: Ledger):
        event = ledger.event(OLD)
        job = ledger.job(OLD, event=event)
        await cleanup(database, MONTH, now=NOON)
        assert ledger.has_event(event)
        assert ledger.has("job", job)
        assert ledger.has("job_identity", job)

    async def test_an_old_event_stays_until_it_is_relayed(self, database: Database, ledger: Ledger):
        event = ledger.event(OLD, waits=True)
        await cleanup(database, MONTH, now=NOON)
        assert ledger.has_event(event)

    async def test_never_removes_no_delivery(self, database: Database, ledger: Ledger):
        job = ledger.done(OLD, event=ledger.event(OLD, key="k"))
        before = ledger.counts()
        await cleanup(database, NEVER, now=NOON)
        assert ledger.counts() == before
        assert ledger.has("job_done", job)

    @pytest.mark.parametrize("settings", [MONTH, NEVER])
    async def test_completed_jobs_of_other_kinds_go_after_a_day(
        self, database: Database, ledger: Ledger, settings: UpkeepSettings
    ):
        event = ledger.event(NOON - 25 * HOUR)
        old = ledger.done(NOON - 25 * HOUR, kind="handler.x", event=event)
        ledger.unique(old)
        young = ledger.done(NOON - 23 * HOUR, kind="report", event=event)
        ledger.unique(young)
        failed = ledger.done(NOON - 25 * HOUR, kind="report", state="discarded")
        delivery = ledger.done(NOON - 25 * HOUR, event=event)
        await cleanup(database, settings, now=NOON)
        assert not any(ledger.has(table, old) for table in ("job_done", "attempt", "job_key", "job_identity"))
        assert all(ledger.has(table, young) for table in ("job_done", "attempt", "job_key", "job_identity"))
        assert ledger.has("job_done", failed)
        assert all(ledger.has(table, delivery) for table in ("job_done", "attempt", "job_identity"))
        assert ledger.has_event(event)

    @pytest.mark.parametrize("longer", FINAL_STATES)
    @pytest.mark.parametrize("span", [None, 60 * DAY])
    async def test_a_state_may_be_kept_longer_with_all_that_hangs_on_it(
        self, database: Database, ledger: Ledger, longer: JobState, span: timedelta | None
    ):
        jobs = {state: ledger.done(OLD, event=ledger.event(OLD), state=state) for state in FINAL_STATES}
        settings = UpkeepSettings(retention=30 * DAY, states={longer: span})
        for _ in range(2):
            await make_partitions(database, settings.shortest, now=NOON)
            await cleanup(database, settings, now=NOON)
            assert [state for state, job in jobs.items() if ledger.has("job_done", job)] == [longer]
            assert all(ledger.has(table, jobs[longer]) for table in ("attempt", "job_identity"))
            assert ledger.count("event") >= 1
            assert min(part[-8:] for part in ledger.parts("job_done")) >= f"{NOON - 30 * DAY:%Y%m%d}"
        if span is not None:
            await cleanup(database, settings, now=NOON + 22 * DAY)
            assert ledger.counts() == dict.fromkeys(PARENTS, 0)

    @pytest.mark.parametrize("shorter", FINAL_STATES)
    async def test_a_state_may_be_kept_for_a_shorter_time(self, database: Database, ledger: Ledger, shorter: JobState):
        jobs = {state: ledger.done(RECENT, event=ledger.event(RECENT), state=state) for state in FINAL_STATES}
        settings = UpkeepSettings(retention=30 * DAY, states={shorter: 3 * DAY})
        await cleanup(database, settings, now=NOON)
        assert [state for state, job in jobs.items() if not ledger.has("job_done", job)] == [shorter]
        assert ledger.count("event") == 3
        await cleanup(database, settings, now=NOON + 40 * DAY)
        assert ledger.counts() == dict.fromkeys(PARENTS, 0)

    async def test_a_day_with_much_to_keep_stays_without_what_is_over(self, database: Database, ledger: Ledger):
        ledger.fill(OLD, 2_001)
        gone = [ledger.done(OLD, event=ledger.event(OLD), state=state) for state in ("discarded", "cancelled")]
        await cleanup(database, UpkeepSettings(retention=30 * DAY, states={JobState.COMPLETED: None}), now=NOON)
        assert not any(ledger.has("job_done", job) for job in gone)
        assert ledger.count("job_done") == 2_001

    async def test_completed_jobs_of_other_kinds_may_be_kept_longer_than_deliveries(
        self, database: Database, ledger: Ledger
    ):
        job = ledger.done(OLD, kind="report")
        delivery = ledger.done(OLD, event=ledger.event(OLD))
        await cleanup(database, UpkeepSettings(retention=30 * DAY, jobs=None), now=NOON)
        assert (ledger.has("job_done", job), ledger.has("job_done", delivery)) == (True, False)
        await cleanup(database, UpkeepSettings(retention=30 * DAY, jobs=45 * DAY), now=NOON + 10 * DAY)
        assert not ledger.has("job_done", job)

    async def test_keys_of_jobs_that_failed_go_with_them(self, database: Database, ledger: Ledger):
        old = ledger.done(OLD, kind="report", state="discarded")
        ledger.unique(old)
        waits = ledger.job(OLD, kind="report")
        ledger.unique(waits)
        await cleanup(database, MONTH, now=NOON)
        assert not ledger.has("job_key", old)
        assert ledger.has("job_key", waits)

    async def test_a_batch_at_a_time_removes_all(self, database: Database, ledger: Ledger):
        ledger.fill(OLD, 7_001)
        kept = ledger.job(OLD, event=ledger.event(OLD))
        tally = await cleanup(database, MONTH, now=NOON)
        assert ledger.counts() == {"event": 1, "job_identity": 1, "job_done": 0, "attempt": 0}
        assert ledger.has("job_identity", kept)
        assert tally["events"] == 7_001

    async def test_twice_at_once_is_as_once(self, database: Database, ledger: Ledger):
        ledger.fill(OLD, 3_000)
        kept = ledger.done(RECENT, tried_at=OLD, event=ledger.event(OLD))
        await asyncio.gather(*(cleanup(database, MONTH, now=NOON) for _ in range(3)))
        await cleanup(database, MONTH, now=NOON)
        assert ledger.counts() == dict.fromkeys(PARENTS, 1)
        assert ledger.has("job_done", kept)

    async def test_a_kill_at_any_statement_leaves_what_must_be_kept(self, database: Mortal, ledger: Ledger):
        ledger.done(OLD, event=ledger.event(OLD, key="gone"))
        kept = ledger.done(RECENT, tried_at=OLD, event=ledger.event(OLD, key="kept"))
        for deadly in range(1, 1000):
            database.dies_at = deadly
            try:
                await cleanup(database, MONTH, now=NOON)
            except Killed:
                assert all(ledger.has(table, kept) for table in ("job_done", "job_identity", "attempt"))
                assert ledger.one("SELECT count(*) FROM tidings.event e JOIN tidings.event_key k ON event_id = id") == (
                    ledger.count("event")
                )
                assert not ledger.loose_ends()
            else:
                break
        assert ledger.counts() == dict.fromkeys(PARENTS, 1)


async def test_replays_that_ended_long_ago_are_forgotten(database: Database, ledger: Ledger):
    for state, ended_at in (("completed", OLD), ("cancelled", OLD), ("completed", RECENT), ("paused", None)):
        ledger.execute(
            "INSERT INTO tidings.replay (source, filter, state, started_by, started_at, ended_at, total, last_id)"
            " VALUES ('deliveries', '{}', %(state)s, 'ann', %(old)s, %(ended)s, 0, 0)",
            state=state,
            old=OLD,
            ended=ended_at,
        )
    assert (await cleanup(database, NEVER, now=NOON))["replays"] == 0
    assert (await cleanup(database, MONTH, now=NOON))["replays"] == 2
    assert ledger.execute("SELECT state FROM tidings.replay ORDER BY id") == [("completed",), ("paused",)]


async def test_waiters_and_workers_whose_time_is_over_are_forgotten(database: Database, ledger: Ledger):
    for table in ("waiter", "worker"):
        insert = psycopg.sql.SQL("INSERT INTO {} VALUES (1, %(before)s), (2, %(after)s)")
        ledger.execute(insert.format(psycopg.sql.Identifier("tidings", table)), before=NOON - HOUR, after=NOON + HOUR)
    await cleanup(database, MONTH, now=NOON)
    assert (ledger.count("waiter"), ledger.count("worker")) == (1, 1)


@pytest.mark.parametrize("how", ["is_on = false", "paused_until = 'infinity'", "is_on = true"])
async def test_a_delivery_that_waited_too_long_expires_wherever_it_waits(database: Database, ledger: Ledger, how: str):
    old = ledger.job(NOON - 15 * DAY, event=ledger.event(NOON))
    young = ledger.job(NOON - 13 * DAY, event=ledger.event(NOON))
    ledger.execute(f"UPDATE tidings.lane SET {how}")
    assert await expire(database, FORTNIGHT, now=NOON) == {"jobs expired": 1}
    assert ledger.execute("SELECT id, state, reason FROM tidings.job_done") == [(old, "discarded", "expired")]
    assert ledger.has("job", young)
    assert ledger.has("job_identity", old)


@pytest.mark.parametrize("how", ["is_on = false", "paused_until = 'infinity'", "is_on = true"])
async def test_a_delivery_that_is_older_than_its_policy_allows_expires_wherever_it_waits(
    database: Database, ledger: Ledger, how: str
):
    hasty, plain, gone = (ledger.endpoint(policy) for policy in ("hasty", "plain", "hasty"))
    ledger.execute(
        "INSERT INTO tidings.policy (name, ladder_ms, max_attempts, timeout_ms, max_age_ms, client_errors)"
        " VALUES ('hasty', '{}', 1, 1000, 3600000, 'short'), ('plain', '{}', 1, 1000, NULL, 'short')"
    )
    ledger.execute("UPDATE tidings.endpoint SET state = 'removed' WHERE id = %(id)s", id=gone)
    old = ledger.job(NOON - 2 * HOUR, lane=f"endpoint:{hasty}")
    young = ledger.job(NOON - HOUR / 2, lane=f"endpoint:{hasty}")
    others = [ledger.job(NOON - 2 * HOUR, lane=lane) for lane in (f"endpoint:{plain}", f"endpoint:{gone}", "default")]
    ledger.execute(f"UPDATE tidings.lane SET {how}")
    assert await expire(database, FORTNIGHT, now=NOON) == {"jobs expired": 1}
    assert ledger.execute("SELECT id, state, reason FROM tidings.job_done") == [(old, "discarded", "expired")]
    assert all(ledger.has("job", job) for job in (young, *others))


async def test_a_policy_lets_no_delivery_get_older_than_the_platform_does(database: Database, ledger: Ledger):
    endpoint = ledger.endpoint("patient")
    ledger.execute(
        "INSERT INTO tidings.policy (name, ladder_ms, max_attempts, timeout_ms, max_age_ms, client_errors)"
        " VALUES ('patient', '{}', 1, 1000, 2592000000, 'short')"
    )
    ledger.job(NOON - 15 * DAY, lane=f"endpoint:{endpoint}")
    assert await expire(database, FORTNIGHT, now=NOON) == {"jobs expired": 1}


async def test_a_delivery_that_was_put_back_has_its_age_from_then(database: Database, ledger: Ledger):
    job = ledger.job(NOON - 15 * DAY)
    ledger.execute("UPDATE tidings.job SET queued_at = %(at)s", at=NOON - DAY)
    await expire(database, FORTNIGHT, now=NOON)
    assert ledger.has("job", job)


async def test_a_job_of_a_kind_without_a_limit_never_expires(database: Database, ledger: Ledger):
    job = ledger.job(NOON - 500 * DAY, kind="report")
    await expire(database, FORTNIGHT, now=NOON)
    assert not await expire(database, {}, now=NOON)
    assert ledger.has("job", job)


async def test_jobs_of_a_kind_that_nobody_runs_expire_too(database: Database, ledger: Ledger):
    """They are never claimed, and nobody is there to say how old they may get."""
    young = ledger.job(NOON - 13 * DAY, kind="handler.gone")
    old = ledger.job(NOON - 15 * DAY, kind="handler.gone")
    patient = ledger.job(NOON - 15 * DAY, kind="handler.known")
    ageless = ledger.job(NOON - 15 * DAY, kind="ageless")
    gone = ledger.job(NOON - 15 * DAY, kind="report")
    limits = {"handler.known": 30 * DAY, "ageless": None}
    assert await expire(database, limits, others=14 * DAY, now=NOON) == {"jobs expired": 2}
    found = ledger.execute("SELECT id, state, reason FROM tidings.job_done ORDER BY id")
    assert found == [(old, "discarded", "expired"), (gone, "discarded", "expired")]
    assert all(ledger.has("job", job) for job in (young, patient, ageless))
    assert not await expire(database, limits, now=NOON)


async def test_a_running_delivery_does_not_expire_until_its_lease_has_run_out(database: Database, ledger: Ledger):
    now = datetime.now(UTC)
    runs = ledger.job(NOON - 15 * DAY, lease_until=now + HOUR)
    lapsed = ledger.job(NOON - 15 * DAY, lease_until=now - HOUR)
    await expire(database, FORTNIGHT, now=NOON)
    assert ledger.has("job", runs)
    assert ledger.execute("SELECT id, reason FROM tidings.job_done") == [(lapsed, "expired")]
    assert ledger.execute("SELECT job_id, n, outcome FROM tidings.attempt") == [(lapsed, 1, "lost")]


async def test_a_delivery_whose_cancelling_was_asked_for_ends_as_cancelled(database: Database, ledger: Ledger):
    ledger.job(NOON - 15 * DAY, lease_until=datetime.now(UTC) - HOUR)
    ledger.execute("UPDATE tidings.job SET cancelled_by = 'ann'")
    await expire(database, FORTNIGHT, now=NOON)
    assert ledger.execute("SELECT state, reason FROM tidings.job_done") == [("cancelled", "ann")]


async def test_many_expire_in_batches_and_twice_at_once_each_once(database: Database, ledger: Ledger):
    ledger.job(NOON - 15 * DAY)
    copy = "INSERT INTO tidings.job (kind, lane, args, max_attempts, queued_at, created_at) SELECT kind, lane, args,"
    ledger.execute(f"{copy} max_attempts, queued_at, created_at FROM tidings.job, generate_series(1, 5000)")
    ledger.execute(f"{copy} 18, now(), now() FROM tidings.job LIMIT 10")
    await asyncio.gather(*(expire(database, FORTNIGHT) for _ in range(3)))
    await expire(database, FORTNIGHT)
    assert (ledger.count("job"), ledger.count("job_done")) == (10, 5001)


async def test_jobs_that_somebody_holds_are_passed_over(database: Database, ledger: Ledger):
    held, free = ledger.job(NOON - 15 * DAY), ledger.job(NOON - 15 * DAY)
    with psycopg.connect(database.dsn) as other:
        other.execute("SELECT FROM tidings.job WHERE id = %s FOR UPDATE", (held,))
        assert await expire(database, FORTNIGHT, now=NOON) == {"jobs expired": 1}
    assert ledger.has("job", held)
    assert ledger.has("job_done", free)


async def test_the_runtime_keeps_itself_up(database: Database, ledger: Ledger):
    async def nothing(_job: Job) -> None:
        return None

    kinds = [deliver_kind(nothing), handler_kind("x", nothing)]
    more, periodics = upkeep(database, MONTH, kinds)
    async with PostgresRuntime(database, [*kinds, *more], periodics) as runtime:
        for periodic in periodics:
            row = await runtime.wait(await runtime.run_periodic(periodic.name), timedelta(seconds=60))
            assert row.state is JobState.COMPLETED
            [attempt] = await runtime.attempts(row.id)
            assert attempt.report.detail
        await runtime.enqueue("handler.x", {"event_id": "no id"}, EnqueueOptions())
    assert ledger.parts("event")


async def test_arguments_that_name_no_identity_stop_nothing(database: Database, ledger: Ledger):
    job = ledger.done(NOON - 25 * HOUR, kind="handler.x")
    ledger.execute("UPDATE tidings.job_done SET args = %(args)s", args='{"event_id": "no id"}')
    await cleanup(database, MONTH, now=NOON)
    assert not ledger.has("job_done", job)
