"""What is looked for now and then, on a real database."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest

from delivery.adapters.postgres.database import Database
from delivery.adapters.postgres.reports import (
    MOST_TOLD,
    Voice,
    report_endpoints,
    report_leases,
    sweep_outbox,
)
from delivery.compiler import endpoint_lane
from tests.delivery.adapters.postgres.ledger import Ledger

SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
LEASE = 30 * SECOND
ENDPOINTS = [endpoint_lane(UUID(int=n)) for n in range(30)]


@pytest.fixture
def ledger(connection: psycopg.Connection[Any]) -> Ledger:
    return Ledger(connection)


@pytest.fixture
async def database(dsn: str) -> AsyncIterator[Database]:
    opened = Database(dsn)
    await opened.open()
    yield opened
    await opened.close()


@pytest.fixture
def now() -> datetime:
    return datetime.now(UTC)


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level("INFO", logger="tidings.reports")
    return caplog


def wait(ledger: Ledger, at: datetime, failures: int = 0) -> None:
    event = ledger.event(at)
    ledger.execute("INSERT INTO tidings.outbox (event_id, failures) VALUES (%(id)s, %(n)s)", id=event, n=failures)


class TestTheOutbox:
    @pytest.fixture
    def rung(self, connection: psycopg.Connection[Any]) -> Any:
        """Say whether a relay would have heard a ring since the last look."""
        connection.execute("LISTEN tidings_outbox")

        def heard() -> bool:
            connection.execute("NOTIFY tidings_outbox, 'last'")  # which comes after whatever rang before
            payloads = (notify.payload for notify in connection.notifies(timeout=30))
            return len(list(itertools.takewhile(lambda payload: payload != "last", payloads))) > 0

        return heard

    async def test_nothing_waits(self, database: Database, said: pytest.LogCaptureFixture):
        assert await sweep_outbox(database, Voice()) == "nothing waits"
        assert not said.records

    async def test_what_waits_for_long_is_rung_for(self, database: Database, ledger: Ledger, now: datetime, rung: Any):
        ledger.execute("ALTER TABLE tidings.outbox DISABLE TRIGGER ring")
        wait(ledger, now + 30 * SECOND)  # which is not long ago either by the time that it is looked at
        assert (await sweep_outbox(database, Voice())).startswith("waiting: 1, oldest for: ")
        assert not rung()
        wait(ledger, now - MINUTE)
        assert (await sweep_outbox(database, Voice())).endswith("poisoned: 0, rang")
        assert rung()

    async def test_what_the_relay_gave_up_is_not_rung_for(
        self, database: Database, ledger: Ledger, now: datetime, rung: Any
    ):
        ledger.execute("ALTER TABLE tidings.outbox DISABLE TRIGGER ring")
        wait(ledger, now - HOUR, failures=5)
        assert await sweep_outbox(database, Voice()) == "waiting: 0, poisoned: 1"
        assert not rung()

    async def test_the_log_tells_once_that_it_is_over_its_bounds_and_once_that_it_is_not(
        self, database: Database, ledger: Ledger, now: datetime, said: pytest.LogCaptureFixture
    ):
        voice = Voice()
        wait(ledger, now - 6 * MINUTE)
        await sweep_outbox(database, voice)
        await sweep_outbox(database, voice)
        assert [each.message for each in said.records] == [
            "outbox: waiting for the relay: 1 event, the oldest for 6 min"
        ]
        wait(ledger, now, failures=5)
        await sweep_outbox(database, voice)
        assert said.records[-1].message.endswith("given up by the relay: 1 event")
        ledger.execute("DELETE FROM tidings.outbox")
        await sweep_outbox(database, voice)
        await sweep_outbox(database, voice)
        assert [each.levelname for each in said.records] == ["WARNING", "WARNING", "INFO"]


class TestLeases:
    async def test_jobs_that_nobody_took_up_are_told_by_kind_and_lane_with_the_reason(
        self, database: Database, ledger: Ledger, now: datetime, said: pytest.LogCaptureFixture
    ):
        for lane in ("off", "off", "paused", "nobody's"):
            ledger.job(now, lane=lane, lease_until=now - MINUTE)
        ledger.job(now, lease_until=now - SECOND)  # may be taken up yet, for most of a lease
        ledger.job(now, lease_until=now + MINUTE)
        ledger.job(now)
        ledger.execute("UPDATE tidings.lane SET is_on = false WHERE key = 'off'")
        ledger.execute("UPDATE tidings.lane SET paused_until = 'infinity' WHERE key = 'paused'")
        voice = Voice()
        told = await report_leases(database, voice, lease=LEASE)
        assert told == (
            "2 webhook.deliver in off (its lane is off); 1 webhook.deliver in nobody's (no worker runs its queue);"
            " 1 webhook.deliver in paused (its lane is paused)"
        )
        assert [each.message for each in said.records] == [f"jobs whose lease ran out: {told}"]
        await report_leases(database, voice, lease=LEASE)
        assert len(said.records) == 1
        ledger.execute("DELETE FROM tidings.job WHERE lease_until = %(at)s", at=now - MINUTE)
        assert await report_leases(database, voice, lease=LEASE) == "nothing found"
        assert said.records[-1].message == "jobs whose lease ran out: all is well again"

    async def test_a_lease_that_ends_later_than_any_can_is_cut_and_a_lawful_one_is_not(
        self, database: Database, ledger: Ledger, now: datetime, said: pytest.LogCaptureFixture
    ):
        ahead = ledger.job(now, lease_until=now + 3 * HOUR)
        endless = ledger.job(now, lease_until=datetime.max.replace(tzinfo=UTC))
        lawful = ledger.job(now, lease_until=now + HOUR)
        assert await report_leases(database, Voice(), lease=LEASE) == "nothing found"
        left = dict(ledger.execute("SELECT id, lease_until - now() FROM tidings.job"))
        assert LEASE - MINUTE < left[ahead] <= LEASE
        assert left[endless] == left[ahead]
        assert left[lawful] > HOUR - MINUTE
        assert [each.message.partition(" ended")[0] for each in said.records] == ["2 leases of jobs"]

    async def test_no_more_than_some_are_told(self, database: Database, ledger: Ledger, now: datetime):
        for lane in ENDPOINTS:
            ledger.job(now, lane=lane, lease_until=now - HOUR)
        told = await report_leases(database, Voice(), lease=LEASE)
        assert told.count(";") == MOST_TOLD - 1
        assert told.endswith(", and maybe more")


class TestEndpoints:
    def fail(self, ledger: Ledger, job_id: int, at: datetime, code: str, outcome: str = "retryable") -> None:
        ledger.execute(
            "INSERT INTO tidings.attempt (job_id, n, started_at, took_ms, outcome, code)"
            " VALUES (%(id)s, 2, %(at)s, 5, %(outcome)s, %(code)s)",
            id=job_id,
            at=at,
            outcome=outcome,
            code=code,
        )

    async def test_endpoints_whose_deliveries_only_failed_are_told(
        self, database: Database, ledger: Ledger, now: datetime, said: pytest.LogCaptureFixture
    ):
        dead, refusing, flaky, old, ours, quiet = ENDPOINTS[:6]
        waits = ledger.job(now - HOUR, lane=dead)
        for code in ("timeout", "http_503", "timeout"):
            self.fail(ledger, waits, now - MINUTE, code)
        refused = ledger.done(now - MINUTE, lane=refusing, state="discarded")
        self.fail(ledger, refused, now - MINUTE, "http_400", "permanent")
        self.fail(ledger, ledger.job(now, lane=flaky), now - MINUTE, "timeout")
        ledger.done(now - 2 * MINUTE, lane=flaky)
        self.fail(ledger, ledger.job(now, lane=old), now - 2 * HOUR, "timeout")
        self.fail(ledger, ledger.job(now, lane=ours), now - MINUTE, "no_key", "ours")
        ledger.done(now - MINUTE, lane=quiet)
        self.fail(ledger, ledger.job(now, lane="reports", kind="report"), now - MINUTE, "failed")
        voice = Voice()
        told = await report_endpoints(database, voice)
        assert told == f"{dead}: 3 tries (timeout); {refusing}: 1 tries (http_400)"
        await report_endpoints(database, voice)
        assert [each.message for each in said.records] == [f"endpoints that only fail: {told}"]

    async def test_nothing_is_told_where_all_is_well(self, database: Database, ledger: Ledger, now: datetime):
        ledger.done(now - MINUTE, lane=ENDPOINTS[0])
        assert await report_endpoints(database, Voice()) == "nothing found"
