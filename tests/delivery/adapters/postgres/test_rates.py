"""The rate of a lane: spent by the claim, kept by the database's clock."""

from __future__ import annotations

import threading
import time
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from delivery.adapters.postgres.buckets import PostgresBuckets
from delivery.adapters.postgres.database import Database
from delivery.adapters.postgres.statements import statement
from delivery.compiler import endpoint_lane
from delivery.jobs import EnqueueOptions, NewJob
from subscriptions.model import EndpointChanges
from subscriptions.rates import NO_RATE, Rate
from tests.conformance.patience import eventually

from .office import Office
from .paced import Paced, exceeds
from .test_crew import working

MINUTE = timedelta(minutes=1)
#: A token in some hours: none comes while a test lasts.
SELDOM = 1e-4


@pytest.fixture
def office(dsn: str, connection: psycopg.Connection[Any]) -> Office:
    return Office(dsn, connection)


def bucket(connection: psycopg.Connection[Any], lane: str = "paced") -> Any:
    [row] = connection.execute(
        "SELECT tidings.tokens_now(tokens, filled_at, rate, burst) FROM tidings.lane WHERE key = %s", [lane]
    ).fetchall()
    return row[0]


def test_many_who_claim_one_lane_at_once_start_no_more_than_its_rate_allows(
    dsn: str, connection: psycopg.Connection[Any]
) -> None:
    """More than ever do: two, where a worker thaws after its shards went to another."""
    rate, burst = 100.0, 10
    paced = Paced(dsn, connection, rate, burst, jobs=200)
    until = time.monotonic() + 60

    def claim() -> None:
        with psycopg.connect(dsn, autocommit=True) as mine:
            while time.monotonic() < until and len(paced_jobs) < 100:
                paced_jobs.extend(paced.claim(mine)[0])

    paced_jobs: list[dict[str, Any]] = []
    threads = [threading.Thread(target=claim) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    times = paced.claimed_at()
    assert len(times) == len(paced_jobs) >= 100
    assert exceeds(times, rate, burst) is None


def test_a_judge_of_windows_sees_one_job_too_many(connection: psycopg.Connection[Any]) -> None:
    [(now,)] = connection.execute("SELECT now()").fetchall()
    second = timedelta(seconds=1)
    assert exceeds([now, now, now + second], 1.0, 2) is None
    assert exceeds([now, now, now + 0.99 * second], 1.0, 2) is not None


def test_a_claim_says_when_the_next_token_comes(dsn: str, connection: psycopg.Connection[Any]) -> None:
    paced = Paced(dsn, connection, rate=SELDOM, burst=3, jobs=5)
    jobs, told = paced.claim(connection)
    assert (len(jobs), told and told["granted"]) == (3, 3)
    assert told is not None
    assert told["wait_s"] == pytest.approx(1 / SELDOM)
    jobs, told = paced.claim(connection)
    assert told is not None
    assert (jobs, told["granted"]) == ([], 0)
    assert 0 < told["wait_s"] <= 1 / SELDOM


def test_tokens_that_come_more_often_than_every_20_ms_are_looked_for_together(
    dsn: str, connection: psycopg.Connection[Any]
) -> None:
    paced = Paced(dsn, connection, rate=1000.0, burst=100, jobs=200)
    _, told = paced.claim(connection)
    assert told is not None
    assert told["wait_s"] == pytest.approx(0.02)
    connection.execute("UPDATE tidings.lane SET burst = 1, tokens = 1, filled_at = now()")
    _, told = paced.claim(connection)
    assert told is not None
    assert told["wait_s"] == pytest.approx(0.001)  # more would never be in it


def test_a_claim_that_brings_less_than_there_are_tokens_spends_what_it_brings(
    dsn: str, connection: psycopg.Connection[Any]
) -> None:
    paced = Paced(dsn, connection, rate=SELDOM, burst=10, jobs=4)
    jobs, told = paced.claim(connection, slots=3)
    assert (len(jobs), told and told["granted"], told and told["wait_s"]) == (3, 3, 0)
    assert bucket(connection) == pytest.approx(7, abs=0.5)
    jobs, told = paced.claim(connection)
    assert (len(jobs), told and told["granted"]) == (1, 7)
    assert bucket(connection) == pytest.approx(6, abs=0.5)


def test_a_claim_that_is_rolled_back_spends_nothing(dsn: str, connection: psycopg.Connection[Any]) -> None:
    paced = Paced(dsn, connection, rate=SELDOM, burst=2, jobs=4)
    with psycopg.connect(dsn) as cut:
        assert len(paced.claim(cut)[0]) == 2
        cut.rollback()
    assert len(paced.claim(connection)[0]) == 2


def test_a_rate_that_is_gone_since_it_was_asked_for_holds_nothing_back(
    dsn: str, connection: psycopg.Connection[Any]
) -> None:
    paced = Paced(dsn, connection, rate=SELDOM, burst=1, jobs=5)
    connection.execute("UPDATE tidings.lane SET rate = NULL, burst = NULL")
    jobs, told = paced.claim(connection)
    assert (len(jobs), told and told["granted"], told and told["wait_s"]) == (5, 100, 0)


def test_a_lane_whose_row_somebody_holds_is_left_out_and_nobody_waits(
    dsn: str, connection: psycopg.Connection[Any]
) -> None:
    paced = Paced(dsn, connection, rate=100.0, burst=10, jobs=5)
    with psycopg.connect(dsn) as holder:
        holder.execute("UPDATE tidings.lane SET job_limit = 2")
        assert paced.claim(connection) == ([], None)
    assert len(paced.claim(connection)[0]) == 5


def test_a_bucket_that_was_filled_in_the_future_is_full(dsn: str, connection: psycopg.Connection[Any]) -> None:
    """The clock was ahead then; it would stay empty until that time comes."""
    paced = Paced(dsn, connection, rate=SELDOM, burst=2, jobs=5)
    connection.execute("UPDATE tidings.lane SET tokens = 0, filled_at = now() + interval '2 days'")
    assert len(paced.claim(connection)[0]) == 2
    assert paced.claim(connection)[0] == []


# An endpoint's rate -------------------------------------------------------------------------------------------------


async def test_an_endpoints_lane_gets_its_rate_and_loses_it(office: Office) -> None:
    async with office.desk() as desk:
        endpoint = await desk.add(rate=Rate(number=120, per=MINUTE, burst=7))
    assert endpoint.rate == Rate(number=120, per=MINUTE, burst=7)
    asked = "SELECT rate, burst FROM tidings.lane WHERE key = %s", endpoint_lane(endpoint.id)
    assert office.ask(*asked) == (2.0, 7)
    async with office.desk() as desk:
        assert await desk.store.endpoint("acme", endpoint.id) == endpoint
        changed = await desk.endpoints.update_endpoint("acme", endpoint.id, EndpointChanges(rate=NO_RATE), by="ann")
    assert changed.rate is None
    assert office.ask(*asked) == (None, None)
    assert office.ask("SELECT before->'rate'->>'burst' FROM tidings.change ORDER BY id DESC LIMIT 1") == "7"


async def test_another_rate_gives_no_tokens_away(office: Office) -> None:
    """Whoever changes it again and again gets no burst each time."""
    async with office.desk() as desk:
        endpoint = await desk.add(rate=Rate(number=1, per=MINUTE, burst=10))
    lane = endpoint_lane(endpoint.id)
    office.outside.execute("UPDATE tidings.lane SET tokens = 3, filled_at = now()")
    async with office.desk() as desk:
        more = EndpointChanges(rate=Rate(number=2, per=MINUTE, burst=1000))
        await desk.endpoints.update_endpoint("acme", endpoint.id, more, by="ann")
    assert bucket(office.outside, lane) == pytest.approx(3, abs=0.9)
    async with office.desk() as desk:
        less = EndpointChanges(rate=Rate(number=1, per=MINUTE, burst=2))
        await desk.endpoints.update_endpoint("acme", endpoint.id, less, by="ann")
    assert bucket(office.outside, lane) == 2


async def test_what_is_left_of_a_removed_endpoint_is_cancelled_at_no_rate(office: Office) -> None:
    async with office.desk() as desk:
        endpoint = await desk.add(rate=Rate(number=1, per=MINUTE))
    async with office.desk() as desk:
        await desk.endpoints.remove("acme", endpoint.id, by="ann")
    assert office.ask("SELECT rate FROM tidings.lane") is None


# Tokens for what does not wait in the queue -------------------------------------------------------------------------


@pytest.fixture
async def buckets(dsn: str) -> Any:
    database = Database(dsn)
    await database.open()
    yield PostgresBuckets(database)
    await database.close()


async def test_a_token_is_taken_ahead_of_its_time_and_what_waits_pays_for_it(
    buckets: PostgresBuckets, dsn: str, connection: psycopg.Connection[Any]
) -> None:
    paced = Paced(dsn, connection, rate=0.001, burst=1, jobs=5)
    most = timedelta(hours=1)
    waits = [(await buckets.take("paced", most)).total_seconds() for _ in range(4)]
    assert waits[0] == 0
    assert waits[1:] == pytest.approx([1000, 2000, 3000], abs=900)
    assert waits[1] < waits[2] < waits[3]
    _, told = paced.claim(connection)
    assert told is not None
    assert (told["granted"], told["wait_s"] > waits[3]) == (0, True)


async def test_none_is_taken_that_would_come_too_late(
    buckets: PostgresBuckets, dsn: str, connection: psycopg.Connection[Any]
) -> None:
    Paced(dsn, connection, rate=SELDOM, burst=1, jobs=0)
    most = timedelta(seconds=30)
    assert await buckets.take("paced", most) == timedelta(0)
    for _ in range(3):
        assert most < await buckets.take("paced", most) <= timedelta(seconds=1 / SELDOM)


async def test_a_lane_without_a_rate_and_one_that_is_not_there_need_no_token(
    buckets: PostgresBuckets, connection: psycopg.Connection[Any]
) -> None:
    connection.execute("INSERT INTO tidings.lane (key) VALUES ('free')")
    assert await buckets.take("free", MINUTE) == await buckets.take("nowhere", MINUTE) == timedelta(0)


# Workers --------------------------------------------------------------------------------------------------------------


async def test_an_empty_bucket_is_not_claimed_from_again_and_again(
    dsn: str, connection: psycopg.Connection[Any]
) -> None:
    ran: list[str] = []

    async def handler(job: Any) -> None:
        ran.append(job.kind)

    async with working(dsn, handler) as (runtime, database):
        await runtime.stop()
        await runtime.enqueue("work", {})
        connection.execute("UPDATE tidings.lane SET rate = %s, burst = 2 WHERE key = 'work'", [SELDOM])
        await runtime.enqueue_many([NewJob(kind="work", args={}) for _ in range(9)])
        await runtime.start()
        await eventually(lambda: len(ran) == 2)
        before = database.asked[statement("claim_paced")]
        for n in range(20):
            await runtime.enqueue("work", {}, EnqueueOptions(lane="free"))
            await runtime.enqueue("work", {})
            await eventually(lambda n=n: len(ran) >= 3 + n)
        assert database.asked[statement("claim_paced")] == before
