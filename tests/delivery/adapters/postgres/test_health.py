"""Endpoints that fail for long: warned of, disabled, and what is told of it, in one transaction with what it tells."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest

from delivery import App, Settings, open_app
from delivery.adapters.postgres.database import Database
from delivery.adapters.postgres.health import PostgresHealth, judge_endpoints, probe_endpoints
from delivery.adapters.postgres.partitions import database_now
from delivery.errors import TidingsError
from delivery.health import BY, HealthRules
from delivery.sealing import KeyEncryptionKey
from subscriptions.model import Endpoint, EndpointChanges, EndpointState
from tests.conformance.patience import eventually
from tests.journeys.receivers import OK, Request, receiving

OWNER = "acme"
DAY = timedelta(days=1)
RULES = HealthRules()


@dataclass
class Clinic:
    """One endpoint that fails, and whoever judges it."""

    app: App
    database: Database
    sql: psycopg.Connection[Any]
    endpoint: Endpoint
    health: PostgresHealth

    async def fail(self, times: int = 20) -> None:
        """Let tries fail."""
        for _ in range(times):
            await self.health.failed(self.endpoint.id, "http_500")

    async def judge(self, after: timedelta, rules: HealthRules = RULES, **most: int) -> list[str]:
        """Judge as if the streak had begun so long ago; the last failure is of now."""
        self.sql.execute("UPDATE tidings.endpoint_health SET failing_since = failed_at - %s::interval", [after])
        now = await database_now(self.database)
        return await judge_endpoints(self.database, rules, self.app._parts._give_up, now=now, **most)

    def told(self) -> list[tuple[str, dict[str, Any]]]:
        """Return what the platform told of itself, oldest first."""
        rows = self.sql.execute(
            "SELECT e.type, e.subject, e.owner_id, e.data FROM tidings.event e"
            " JOIN tidings.outbox o ON o.event_id = e.id ORDER BY e.id"
        ).fetchall()
        assert all((subject, owner) == (str(self.endpoint.id), OWNER) for _, subject, owner, _ in rows)
        return [(name, data) for name, _, _, data in rows]

    async def state(self) -> Endpoint:
        """Return the endpoint as it is now."""
        return await self.app.endpoints.get(OWNER, self.endpoint.id)


@pytest.fixture
async def clinic(dsn: str, connection: psycopg.Connection[Any]) -> AsyncIterator[Clinic]:
    settings = Settings(database_url=dsn, keys=KeyEncryptionKey.generate().reveal(), allow="127.0.0.0/8")
    async with open_app(settings) as app:
        endpoint, _ = await app.endpoints.add(OWNER, "http://127.0.0.1:9/hook?token=secret", by="test")
        database = Database(dsn, size=4)
        await database.open()
        yield Clinic(app, database, connection, endpoint, PostgresHealth(database, write_every_s=0))
        await database.close()


async def test_it_is_warned_of_three_times_and_then_disabled(clinic: Clinic) -> None:
    await clinic.fail()
    said = [await clinic.judge(days * DAY) for days in (3, 3.6, 3.7, 5, 6.5, 6.6)]
    assert [len(lines) for lines in said] == [0, 1, 0, 1, 1, 0]
    told = clinic.told()
    assert [(name, data["percent"]) for name, data in told] == [("tidings.endpoint.failing", p) for p in (50, 70, 90)]
    assert told[0][1]["failures"] == 20
    assert told[0][1]["code"] == "http_500"
    since, end = (datetime.fromisoformat(told[0][1][name]) for name in ("failing_since", "disabled_at"))
    assert end - since == 7 * DAY
    [line] = await clinic.judge(7.1 * DAY)
    assert "disabled" in line
    endpoint = await clinic.state()
    assert (endpoint.state, endpoint.state_by) == (EndpointState.DISABLED, BY)
    assert "for 7.1 days, 20 tries without a success, the last one http_500" in str(endpoint.state_reason)
    name, data = clinic.told()[-1]
    assert name == "tidings.endpoint.disabled"
    assert (data["by"], data["failures"], data["reason"]) == (BY, 20, endpoint.state_reason)
    assert await clinic.judge(8 * DAY) == []


async def test_nothing_secret_is_told(clinic: Clinic) -> None:
    await clinic.fail()
    await clinic.judge(4 * DAY)
    await clinic.app.endpoints.disable(OWNER, clinic.endpoint.id, by="ann", reason="too many complaints")
    assert "secret" not in json.dumps(clinic.told())


async def test_its_deliveries_are_parked_while_it_is_disabled_and_it_starts_anew_when_enabled(clinic: Clinic) -> None:
    await clinic.fail()
    for days in (6.5, 7.1):
        await clinic.judge(days * DAY)
    lane = "SELECT is_on FROM tidings.lane WHERE key = %s"
    assert clinic.sql.execute(lane, [f"endpoint:{clinic.endpoint.id}"]).fetchall() == [(False,)]
    before = await clinic.app.endpoints.health(OWNER, clinic.endpoint.id)
    assert before is not None
    assert before.probe_at is not None
    await clinic.fail()  # of tries that were under way
    assert await clinic.app.endpoints.health(OWNER, clinic.endpoint.id) == before
    await clinic.app.endpoints.enable(OWNER, clinic.endpoint.id, by="ann")
    assert clinic.sql.execute(lane, [f"endpoint:{clinic.endpoint.id}"]).fetchall() == [(True,)]
    name, data = clinic.told()[-1]
    assert (name, data["by"]) == ("tidings.endpoint.enabled", "ann")
    await clinic.fail(1)
    streak = await clinic.app.endpoints.health(OWNER, clinic.endpoint.id)
    assert streak is not None
    assert (streak.failures, streak.warned) == (1, 0)


async def test_a_recovery_is_told_where_the_failure_was(clinic: Clinic) -> None:
    await clinic.fail()
    await clinic.health.recovered(clinic.endpoint.id)
    assert clinic.told() == []
    await clinic.fail()
    await clinic.judge(4 * DAY)
    await clinic.health.recovered(clinic.endpoint.id)
    await clinic.health.recovered(clinic.endpoint.id)
    assert [name for name, _ in clinic.told()] == ["tidings.endpoint.failing", "tidings.endpoint.recovered"]
    assert await clinic.app.endpoints.health(OWNER, clinic.endpoint.id) is None


@pytest.mark.parametrize("rules", [HealthRules(failures=21), HealthRules(lately=timedelta(0)), HealthRules(limit=None)])
async def test_who_does_not_fail_enough_is_let_alone(clinic: Clinic, rules: HealthRules) -> None:
    await clinic.fail()
    assert await clinic.judge(30 * DAY, rules) == []
    assert clinic.told() == []


async def test_who_was_warned_of_is_not_warned_of_again(clinic: Clinic) -> None:
    await clinic.fail()
    await clinic.judge(DAY)
    clinic.sql.execute("UPDATE tidings.endpoint_health SET failing_since = failed_at - interval '4 days'")
    now = await database_now(clinic.database)
    said = [await judge_endpoints(clinic.database, RULES, clinic.app._parts._give_up, now=now) for _ in range(2)]
    assert [len(lines) for lines in said] == [1, 0]
    assert len(clinic.told()) == 1


async def test_more_endpoints_than_one_look_judges_are_each_warned(clinic: Clinic) -> None:
    other, _ = await clinic.app.endpoints.add(OWNER, "http://127.0.0.1:9/other", by="test")
    await clinic.fail()
    for _ in range(20):
        await clinic.health.failed(other.id, "http_500")
    said = [await clinic.judge(4 * DAY, most=1) for _ in range(3)]
    assert [len(lines) for lines in said] == [1, 1, 0]


async def test_who_recovers_as_it_is_judged_stays_enabled(clinic: Clinic) -> None:
    await clinic.fail()
    await clinic.judge(6.5 * DAY)
    give_up = clinic.app._parts._give_up

    async def late(*args: Any) -> bool:
        await clinic.health.recovered(clinic.endpoint.id)
        await clinic.fail()  # another streak, of just now
        return await give_up(*args)

    clinic.sql.execute("UPDATE tidings.endpoint_health SET failing_since = failed_at - interval '8 days'")
    now = await database_now(clinic.database)
    assert await judge_endpoints(clinic.database, RULES, late, now=now) == []
    assert (await clinic.state()).state is EndpointState.ENABLED


async def test_an_endpoint_that_is_removed_as_it_is_judged_is_no_trouble(clinic: Clinic) -> None:
    await clinic.fail()
    await clinic.judge(6.5 * DAY)
    give_up = clinic.app._parts._give_up

    async def late(*args: Any) -> bool:
        await clinic.app.endpoints.remove(OWNER, clinic.endpoint.id, by="ann")
        return await give_up(*args)

    clinic.sql.execute("UPDATE tidings.endpoint_health SET failing_since = failed_at - interval '8 days'")
    now = await database_now(clinic.database)
    assert await judge_endpoints(clinic.database, RULES, late, now=now) == []
    assert clinic.sql.execute("SELECT FROM tidings.endpoint_health").fetchall() == []


async def disabled(clinic: Clinic) -> None:
    """Let it fail until the platform disables it."""
    await clinic.fail()
    for days in (6.5, 7.1):
        await clinic.judge(days * DAY)
    assert (await clinic.state()).state is EndpointState.DISABLED


async def test_it_is_probed_ever_more_rarely_until_it_accepts(clinic: Clinic) -> None:
    await disabled(clinic)
    asked: list[UUID] = []

    async def refused(owner_id: str, endpoint_id: UUID) -> bool:
        asked.append(endpoint_id)
        return False

    now = await database_now(clinic.database)
    minute = timedelta(minutes=1)
    times = (9, 11, 29, 32, 50, 73, 74)
    said = [await probe_endpoints(clinic.database, RULES, refused, now=now + at * minute) for at in times]
    assert [len(lines) for lines in said] == [0, 1, 0, 1, 0, 1, 0]
    assert asked == [clinic.endpoint.id] * 3
    assert "in vain, the next time at " in said[1][0]


async def test_who_a_person_disabled_is_not_probed(clinic: Clinic) -> None:
    await clinic.fail()
    await clinic.app.endpoints.disable(OWNER, clinic.endpoint.id, by="ann", reason="moves house")
    assert await clinic.app.endpoints.health(OWNER, clinic.endpoint.id) is None
    assert await probe_endpoints(clinic.database, RULES, never, now=await database_now(clinic.database) + DAY) == []


async def test_who_a_person_disables_after_the_platform_did_is_not_probed_any_more(clinic: Clinic) -> None:
    await disabled(clinic)
    await clinic.app.endpoints.disable(OWNER, clinic.endpoint.id, by="ann", reason="for good")
    assert await clinic.app.endpoints.health(OWNER, clinic.endpoint.id) is None, "a probe is announced that never comes"
    assert await probe_endpoints(clinic.database, RULES, never, now=await database_now(clinic.database) + DAY) == []


async def test_a_try_that_was_under_way_and_is_accepted_hastens_the_probe(clinic: Clinic) -> None:
    await disabled(clinic)
    await clinic.health.recovered(clinic.endpoint.id)
    assert (await clinic.state()).state is EndpointState.DISABLED
    asked = []

    async def accepted(owner_id: str, endpoint_id: UUID) -> bool:
        asked.append(endpoint_id)
        return True

    [line] = await probe_endpoints(clinic.database, RULES, accepted, now=await database_now(clinic.database))
    assert "accepted a probe" in line
    assert asked == [clinic.endpoint.id]


async def test_a_probe_that_breaks_is_in_vain_and_no_other_s_trouble(clinic: Clinic) -> None:
    await disabled(clinic)

    async def broken(*_: object) -> bool:
        raise RuntimeError("a bug")

    later = await database_now(clinic.database) + DAY
    [line] = await probe_endpoints(clinic.database, RULES, broken, now=later)
    assert "in vain" in line


async def test_a_probe_that_cannot_be_sent_is_in_vain(clinic: Clinic) -> None:
    await disabled(clinic)
    clinic.sql.execute("DELETE FROM tidings.endpoint_key")
    later = await database_now(clinic.database) + DAY
    [line] = await probe_endpoints(clinic.database, RULES, clinic.app._parts._probe, now=later)
    assert "in vain" in line
    assert (await clinic.state()).state is EndpointState.DISABLED


async def test_a_person_who_disables_it_while_it_is_probed_has_the_last_word(clinic: Clinic) -> None:
    async def accept_late(_: Request) -> bytes:
        await clinic.app.endpoints.disable(OWNER, clinic.endpoint.id, by="ann", reason="for good")
        return OK

    async with receiving() as receiver:
        receiver.answer(accept_late)
        moved = EndpointChanges(url=receiver.url("/hook"))
        await clinic.app.endpoints.update(OWNER, clinic.endpoint.id, moved, by="ann")
        await disabled(clinic)
        later = await database_now(clinic.database) + DAY
        assert await probe_endpoints(clinic.database, RULES, clinic.app._parts._probe, now=later) == []
        assert len(receiver.got("/hook")) == 1
    assert (await clinic.state()).state is EndpointState.DISABLED


async def test_a_probe_that_a_clock_put_off_for_too_long_is_made(clinic: Clinic) -> None:
    await disabled(clinic)
    clinic.sql.execute("UPDATE tidings.endpoint_health SET probe_at = now() + interval '1 year'")  # it was ahead once

    async def accepted(*_: object) -> bool:
        return True

    now = await database_now(clinic.database)
    assert len(await probe_endpoints(clinic.database, RULES, accepted, now=now)) == 1


async def test_no_more_is_remembered_than_fits_where_nothing_can_be_written(clinic: Clinic) -> None:
    health = PostgresHealth(clinic.database, write_every_s=0, most=3)
    clinic.sql.execute("ALTER TABLE tidings.endpoint_health RENAME TO away")
    for number in range(10):
        with pytest.raises(TidingsError):
            await health.failed(UUID(int=number), "http_500")
    assert len(health._unwritten) <= 3


async def test_what_was_not_written_of_a_streak_is_no_part_of_the_next_one(clinic: Clinic) -> None:
    one, another = (PostgresHealth(clinic.database, write_every_s=3600) for _ in range(2))
    for _ in range(30):
        await one.failed(clinic.endpoint.id, "http_500")
    await another.recovered(clinic.endpoint.id)  # in another process
    one._write_every_s = 0
    await one.failed(clinic.endpoint.id, "http_500")
    streak = await clinic.app.endpoints.health(OWNER, clinic.endpoint.id)
    assert streak is not None
    assert streak.failures == 1


async def test_no_more_endpoints_are_remembered_than_fit(clinic: Clinic) -> None:
    health = PostgresHealth(clinic.database, write_every_s=3600, most=3)
    for _ in range(2):
        for number in range(10):
            await health.failed(UUID(int=number), "http_500")
    assert len(health._written_at) <= 3
    assert len(health._unwritten) <= 3


async def never(*_: object) -> bool:
    raise AssertionError("it is probed")


async def test_it_runs_as_a_periodic_of_the_platform(clinic: Clinic) -> None:
    await clinic.fail()
    await clinic.judge(6.5 * DAY)
    clinic.sql.execute("UPDATE tidings.endpoint_health SET failing_since = failed_at - interval '8 days'")
    async with asyncio.TaskGroup() as tasks:
        working = tasks.create_task(clinic.app.work(relay=False))
        await clinic.app.jobs.run_periodic("tidings.failing_endpoints")

        async def disabled() -> bool:
            return (await clinic.state()).state is EndpointState.DISABLED

        await eventually(disabled)
        working.cancel()
