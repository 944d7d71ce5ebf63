"""What of a try tells how an endpoint does: kept by the worker, read back from the database."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass

import psycopg
import pytest

from delivery import App, Settings, open_app
from delivery.adapters.postgres.database import Database
from delivery.adapters.postgres.health import PostgresHealth
from delivery.adapters.postgres.parcels import PostgresDeliveries
from delivery.channels import Fault, FaultCode, Message, Reply
from delivery.errors import TidingsError, Unavailable
from delivery.health import Streak
from delivery.jobs import Discard, Retry, Snooze
from delivery.sealing import KeyEncryptionKey
from delivery.worker import DeliverWorker
from subscriptions.model import Endpoint, Exposure

from .tries import first_try

OWNER, TYPE = "acme", "order.paid"
FINE = Reply(status=200)
COUNTS = {
    "http_500": Reply(status=500),
    "http_404": Reply(status=404),
    "timeout": Fault(code=FaultCode.TIMEOUT),
    "connection_refused": Fault(code=FaultCode.CONNECTION_REFUSED),
}
SAYS_NOTHING = {
    "put off": Reply(status=429, headers=((b"retry-after", b"5"),)),
    "kept connection closed": Fault(code=FaultCode.CONNECTION_REUSED_CLOSED),
    "ours": Fault(code=FaultCode.INTERNAL_ERROR),
    "a name server that may be ours": Fault(code=FaultCode.DNS_TEMPORARY),
    "the operator's proxy": Fault(code=FaultCode.PROXY_REFUSED),
}


@dataclass
class Ward:
    """One endpoint, and a worker whose receiver answers as it is told."""

    app: App
    database: Database
    endpoint: Endpoint
    health: PostgresHealth

    async def try_once(self, answer: Reply | Fault, type: str = TYPE) -> None:
        """Make one attempt of a new delivery."""
        with psycopg.connect(self.database.dsn, autocommit=True) as connection:
            [event] = (
                connection.execute(
                    "INSERT INTO tidings.event (id, owner_id, type, occurred_at, data)"
                    " VALUES (tidings.new_id(), %s, %s, now(), '{}') RETURNING id",
                    [OWNER, type],
                ).fetchone()
                or ()
            )

        class Said:
            async def send(self, message: Message, /) -> Reply | Fault:
                return answer

            async def aclose(self) -> None:
                return None

        worker = DeliverWorker(
            PostgresDeliveries(self.database, self.app._parts.vault.open_credentials),
            Said(),
            self.app._parts.vault.open_key,
            disable=self._disable,
            pause=self._pause,
            health=self.health,
            user_agent="Tidings/test",
        )
        with suppress(Retry, Snooze, Discard):
            await worker(first_try(event, self.endpoint.id, type))

    async def streak(self) -> Streak | None:
        """Return the streak as a person sees it."""
        return await self.app.endpoints.health(OWNER, self.endpoint.id)

    async def _disable(self, *_: object) -> None:
        return None

    async def _pause(self, *_: object) -> None:
        return None


@pytest.fixture
async def ward(dsn: str) -> AsyncIterator[Ward]:
    settings = Settings(database_url=dsn, keys=KeyEncryptionKey.generate().reveal(), allow="127.0.0.0/8")
    async with open_app(settings) as app:
        await app.event_types.declare(TYPE, by="test", exposure=Exposure.WEBHOOK)
        endpoint, _ = await app.endpoints.add(OWNER, "http://127.0.0.1:9/hook", by="test")
        database = Database(dsn, size=4)
        await database.open()
        yield Ward(app, database, endpoint, PostgresHealth(database, write_every_s=0))
        await database.close()


@pytest.mark.parametrize("code", COUNTS)
async def test_a_failed_try_begins_a_streak_and_the_next_ones_lengthen_it(ward: Ward, code: str) -> None:
    await ward.try_once(COUNTS[code])
    first = await ward.streak()
    assert first is not None
    assert (first.failures, first.code) == (1, code)
    await ward.try_once(Reply(status=503))
    second = await ward.streak()
    assert second is not None
    assert (second.since, second.failures, second.code) == (first.since, 2, "http_503")
    assert second.failed_at > first.failed_at


@pytest.mark.parametrize("what", SAYS_NOTHING)
async def test_what_is_no_failure_of_the_endpoint_neither_begins_nor_ends_one(ward: Ward, what: str) -> None:
    await ward.try_once(SAYS_NOTHING[what])
    assert await ward.streak() is None
    await ward.try_once(Reply(status=500))
    before = await ward.streak()
    await ward.try_once(SAYS_NOTHING[what])
    assert await ward.streak() == before


async def test_a_success_ends_it(ward: Ward) -> None:
    await ward.try_once(Reply(status=500))
    await ward.try_once(FINE)
    assert await ward.streak() is None
    await ward.try_once(Reply(status=500))
    again = await ward.streak()
    assert again is not None
    assert again.failures == 1


async def test_deliveries_of_what_the_platform_tells_of_itself_say_nothing(ward: Ward) -> None:
    await ward.try_once(Reply(status=500), type="tidings.endpoint.failing")
    assert await ward.streak() is None


async def test_many_failures_at_once_are_written_together(ward: Ward) -> None:
    ward.health = PostgresHealth(ward.database, write_every_s=3600)
    for _ in range(5):
        await ward.try_once(Reply(status=500))
    streak = await ward.streak()
    assert streak is not None
    assert streak.failures == 1
    ward.health._write_every_s = 0
    await ward.try_once(Reply(status=500))
    streak = await ward.streak()
    assert streak is not None
    assert streak.failures == 6, "those between were forgotten"


async def test_what_could_not_be_written_is_counted_later(ward: Ward, connection: psycopg.Connection[object]) -> None:
    connection.execute("ALTER TABLE tidings.endpoint_health RENAME TO away")
    with pytest.raises(TidingsError):
        await ward.health.failed(ward.endpoint.id, "http_500")
    connection.execute("ALTER TABLE tidings.away RENAME TO endpoint_health")
    await ward.health.failed(ward.endpoint.id, "http_500")
    streak = await ward.streak()
    assert streak is not None
    assert streak.failures == 2


async def test_an_answer_is_kept_though_its_endpoint_s_health_cannot_be(
    ward: Ward, caplog: pytest.LogCaptureFixture
) -> None:
    class Away:
        async def read(self, *_: object) -> Streak | None:
            return None

        async def failed(self, *_: object) -> None:
            raise Unavailable("away")

        async def recovered(self, *_: object) -> None:
            raise Unavailable("away")

    ward.health = Away()  # type: ignore[assignment] # the port
    await ward.try_once(Reply(status=500))  # raises what a failed try does, and nothing else
    assert "its health could not be kept: away" in caplog.text
