"""The handler of deliveries on a real database: what it makes of each answer, and of each thing that is missing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from uuid import UUID, uuid4

import psycopg
import pytest

from delivery import App, Settings, open_app, recorder
from delivery.adapters.postgres.database import Database
from delivery.adapters.postgres.parcels import PostgresDeliveries
from delivery.attempts import Report
from delivery.channels import Fault, FaultCode, Message, PermanentError, Reply, RetryableError
from delivery.compiler import endpoint_lane
from delivery.errors import Unavailable
from delivery.jobs import Cancel, Discard, Job, Retry, Snooze
from delivery.sealing import KeyEncryptionKey, KeyRing
from delivery.worker import DeliverWorker
from signing import SigningSecret, WebhookVerifier
from subscriptions.model import Endpoint, Exposure
from subscriptions.store import StoredKey

from .tries import first_try

OWNER, TYPE = "acme", "order.paid"
SENT = Reply(status=200, headers=((b"Server", b"x\xff"),), body=b"ok")
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@dataclass
class Said:
    """A channel of our own (the port allows it): gives the answer, or raises it, and keeps what it was handed."""

    answer: Reply | Fault | RetryableError | PermanentError = SENT
    messages: list[Message] = field(default_factory=list)

    async def send(self, message: Message, /) -> Reply | Fault:
        self.messages.append(message)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    async def aclose(self) -> None:
        return None


@dataclass
class Bench:
    """A worker over one endpoint and one event."""

    app: App
    database: Database
    ring: KeyRing
    endpoint: Endpoint
    secret: SigningSecret
    event_id: UUID
    channel: Said = field(default_factory=Said)
    disabled: list[tuple[UUID, str]] = field(default_factory=list)
    paused: list[tuple[str, timedelta]] = field(default_factory=list)
    trouble: Exception | None = None  #: what disabling and pausing raise
    stuck: bool = False  #: disabling and pausing wait for a lock that nobody gives back

    async def __call__(self, answer: Reply | Fault | RetryableError | PermanentError = SENT, **job: object) -> Report:
        """Make one attempt."""
        self.channel.answer = answer
        worker = DeliverWorker(
            PostgresDeliveries(self.database, self._open_headers),
            self.channel,
            self._open_key,
            disable=self._disable,
            pause=self._pause,
            health=self.app._parts.health,
            user_agent="Tidings/test",
            jitter=lambda: 0.0,
            aftermath=timedelta(seconds=0.2 if self.stuck else 30),
        )
        return await worker(self.job(**job))

    def job(self, **changes: object) -> Job:
        """The job of this delivery."""
        job = first_try(self.event_id, self.endpoint.id, TYPE)
        return replace(job, **changes)  # type: ignore[arg-type] # fields of a job

    def _open_key(self, key: StoredKey, endpoint: Endpoint) -> SigningSecret:
        place = {"owner_id": endpoint.owner_id, "endpoint_id": endpoint.id, "key_id": key.id}
        return SigningSecret.parse(self.ring.open(key.sealed, purpose="signing", **place).decode())

    def _open_headers(self, sealed: bytes, owner_id: str, endpoint_id: UUID) -> bytes:
        place = {"owner_id": owner_id, "endpoint_id": endpoint_id, "key_id": endpoint_id}
        return self.ring.open(sealed, purpose="credentials", **place)

    async def _disable(self, endpoint: Endpoint, code: str) -> None:
        self.disabled.append((endpoint.id, code))
        await self._meet_trouble()

    async def _meet_trouble(self) -> None:
        if self.stuck:
            await asyncio.Event().wait()
        if self.trouble:
            raise self.trouble

    async def _pause(self, lane: str, pause: timedelta) -> None:
        self.paused.append((lane, pause))
        await self._meet_trouble()


@pytest.fixture
async def bench(dsn: str) -> AsyncIterator[Bench]:
    key = KeyEncryptionKey.generate()
    settings = Settings(database_url=dsn, keys=key.reveal(), allow="127.0.0.0/8")
    async with open_app(settings) as app:
        await app.event_types.declare(TYPE, by="test", exposure=Exposure.WEBHOOK)
        endpoint, secret = await app.endpoints.add(
            OWNER, "http://127.0.0.1:9/hook", by="test", policy="demo", headers=(("x-token", "t0ken"),)
        )
        async with app.transaction() as tx:
            event_id = await recorder().with_(tx).record(OWNER, TYPE, None, {"n": 1}, traceparent=TRACE)
        database = Database(dsn, size=4)
        await database.open()
        yield Bench(app, database, KeyRing([key]), endpoint, secret, event_id)
        await database.close()


async def test_an_accepted_delivery_is_reported_as_it_was_answered(bench: Bench) -> None:
    report = await bench()
    assert (report.outcome, report.code, report.rule, report.status) == ("delivered", "http_200", "2xx", 200)
    assert report.head == b"HTTP/1.1 200\r\nServer: x\xff\r\n"
    assert (report.body, report.detail) == (b"ok", None)


async def test_the_message_is_signed_now_and_carries_the_trace_and_the_owner_s_headers(bench: Bench) -> None:
    await bench()
    [message] = bench.channel.messages
    headers = dict(message.headers)
    verified = WebhookVerifier(bench.secret).verify(message.body, headers)
    assert verified.id == str(bench.event_id)
    assert headers["traceparent"] == TRACE
    assert headers["x-token"] == "t0ken"
    assert headers["user-agent"] == "Tidings/test"
    assert (message.owner_id, message.url, message.timeout) == (OWNER, bench.endpoint.url, timedelta(seconds=10))


@pytest.mark.parametrize(
    ("reply", "detail"),
    [
        (Reply(status=302, headers=((b"Location", b"/there"),)), "redirects to /there, which is not followed"),
        (Reply(status=304), None),
        (Reply(status=400, body_note="truncated"), "truncated"),
    ],
)
async def test_a_permanent_answer_discards_and_says_why(bench: Bench, reply: Reply, detail: str | None) -> None:
    with pytest.raises(Discard) as caught:
        await bench(reply)
    assert caught.value.reason == f"http_{reply.status}"
    assert caught.value.report is not None
    assert (caught.value.report.outcome, caught.value.report.detail) == ("permanent", detail)
    assert caught.value.report.body is None


async def test_a_head_is_kept_up_to_a_limit(bench: Bench) -> None:
    report = await bench(Reply(status=200, headers=((b"x", b"y" * 20_000),)))
    assert len(report.head or b"") == 16_384


async def test_a_failure_is_tried_again_by_the_endpoint_s_policy(bench: Bench) -> None:
    with pytest.raises(Retry) as caught:
        await bench(Fault(code=FaultCode.TIMEOUT, detail="no answer"), spent=1)
    assert caught.value.delay == timedelta(seconds=0.5)
    assert caught.value.report == Report(
        outcome="retryable", code="timeout", rule="timeout", detail="no answer", hung=True
    )


@pytest.mark.parametrize(
    ("answer", "detail"),
    [
        (Reply(status=500), "demo: all 4 attempts failed"),
        (Fault(code=FaultCode.TIMEOUT, detail="no answer"), "no answer; demo: all 4 attempts failed"),
    ],
)
async def test_the_last_failure_discards_as_exhausted(bench: Bench, answer: Reply | Fault, detail: str) -> None:
    with pytest.raises(Discard) as caught:
        await bench(answer, spent=3)
    assert caught.value.reason == "exhausted"
    assert caught.value.report is not None
    assert (caught.value.report.outcome, caught.value.report.detail) == ("retryable", detail)


async def test_a_third_404_in_a_row_discards(bench: Bench) -> None:
    with pytest.raises(Retry) as caught:
        await bench(Reply(status=404), memo={"short": 1})
    assert caught.value.memo == {"short": 2}
    with pytest.raises(Discard) as given_up:
        await bench(Reply(status=404), memo={"short": 2})
    assert given_up.value.reason == "exhausted"


async def test_not_now_pauses_the_lane_and_spends_nothing(bench: Bench) -> None:
    with pytest.raises(Snooze) as caught:
        await bench(Reply(status=429, headers=((b"retry-after", b"1"),)))
    assert caught.value.delay == timedelta(seconds=1)
    assert caught.value.memo == {"snoozes": 1}
    assert bench.paused == [(endpoint_lane(bench.endpoint.id), timedelta(seconds=1))]


async def test_not_now_is_kept_where_the_lane_cannot_be_paused(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    bench.trouble = Unavailable("away")
    with pytest.raises(Snooze) as caught:
        await bench(Reply(status=429))
    assert caught.value.delay == timedelta(seconds=0.2)
    assert "could not be paused: away" in caplog.text


async def test_a_kept_connection_that_was_closed_is_tried_at_once_and_once(bench: Bench) -> None:
    fault = Fault(code=FaultCode.CONNECTION_REUSED_CLOSED)
    with pytest.raises(Snooze) as caught:
        await bench(fault)
    assert (caught.value.delay, caught.value.memo) == (timedelta(0), {"again": 1})
    with pytest.raises(Retry) as failed:
        await bench(fault, memo={"again": 1})
    assert failed.value.report is not None
    assert failed.value.report.code == "connection_reset"


@pytest.mark.parametrize("status", [200, 410, 500])
async def test_a_receiver_that_asks_for_no_more_disables_its_endpoint(bench: Bench, status: int) -> None:
    reply = Reply(status=status, headers=((b"Webhook-Delivery", b"disable"),))
    if status == 200:
        assert (await bench(reply)).outcome == "delivered"
    else:
        with pytest.raises(Discard):
            await bench(reply)
    assert bench.disabled == [(bench.endpoint.id, f"http_{status}")]


@pytest.mark.parametrize("reply", [Reply(status=410), PermanentError("gone", disable_endpoint=True)])
async def test_where_the_endpoint_cannot_be_disabled_now_the_delivery_is_tried_again(
    bench: Bench, reply: Reply | PermanentError
) -> None:
    bench.trouble = Unavailable("away")
    with pytest.raises(Snooze) as caught:
        await bench(reply)
    assert caught.value.report is not None
    assert (caught.value.report.outcome, caught.value.report.code) == ("ours", "internal_error")
    assert "away" in (caught.value.report.rule or "")


async def test_an_answer_is_kept_though_its_endpoint_cannot_be_disabled_in_time(bench: Bench) -> None:
    bench.stuck = True
    async with asyncio.timeout(30):
        with pytest.raises(Snooze) as caught:
            await bench(Reply(status=410))
    assert caught.value.report is not None
    assert (caught.value.report.status, caught.value.report.outcome) == (410, "ours")
    assert "in time" in (caught.value.report.rule or "")


async def test_an_answer_is_kept_though_its_lane_cannot_be_paused_in_time(bench: Bench) -> None:
    bench.stuck = True
    async with asyncio.timeout(30):
        with pytest.raises(Snooze) as caught:
            await bench(Reply(status=429, headers=((b"Retry-After", b"60"),)))
    assert caught.value.report is not None
    assert (caught.value.report.status, len(bench.paused)) == (429, 1)


async def test_a_channel_of_ones_own_may_raise(bench: Bench) -> None:
    with pytest.raises(Retry) as retried:
        await bench(RetryableError("queue_full"))
    assert retried.value.report is not None
    assert (retried.value.report.code, retried.value.report.detail) == ("queue_full", None)
    with pytest.raises(Snooze) as snoozed:
        await bench(RetryableError("queue_full", retry_after=timedelta(seconds=1.2)))
    assert snoozed.value.delay == timedelta(seconds=2)
    with pytest.raises(Discard, match="no_such_topic"):
        await bench(PermanentError("no_such_topic"))
    assert bench.disabled == []


async def test_nothing_is_sent_once_the_lease_is_over(bench: Bench) -> None:
    with pytest.raises(Snooze) as caught:
        await bench(holds_lease=lambda: False)
    assert caught.value.delay == timedelta(0)
    assert caught.value.report is not None
    assert caught.value.report.code == "lease_lost"
    assert bench.channel.messages == []


async def test_an_event_that_is_no_longer_kept_cancels(bench: Bench) -> None:
    with pytest.raises(Cancel, match="event_removed"):
        await bench(args=bench.job().args | {"event_id": str(uuid4())})
    assert bench.channel.messages == []


async def test_an_endpoint_of_another_owner_is_never_sent_to(bench: Bench) -> None:
    other, _ = await bench.app.endpoints.add("other", "http://127.0.0.1:9/other", by="test")
    with pytest.raises(Cancel):
        await bench(args=bench.job().args | {"endpoint_id": str(other.id)})
    assert bench.channel.messages == []


async def test_a_removed_endpoint_cancels(bench: Bench) -> None:
    await bench.app.endpoints.remove(OWNER, bench.endpoint.id, by="test")
    with pytest.raises(Cancel, match="endpoint_removed"):
        await bench()
    assert bench.channel.messages == []


async def test_a_disabled_endpoint_is_looked_at_again_later(bench: Bench) -> None:
    await bench.app.endpoints.disable(OWNER, bench.endpoint.id, by="test", reason="upkeep")
    with pytest.raises(Snooze) as caught:
        await bench(memo={"short": 1})
    assert caught.value.delay == timedelta(seconds=5)
    assert caught.value.report is not None
    assert (caught.value.report.outcome, caught.value.report.code) == ("ours", "endpoint_disabled")
    assert bench.channel.messages == []


async def test_what_became_internal_is_discarded_unsent(bench: Bench) -> None:
    await bench.app.event_types.declare(TYPE, by="test", exposure=Exposure.INTERNAL, change=True)
    with pytest.raises(Discard, match="not_exposed"):
        await bench()
    assert bench.channel.messages == []


async def test_a_database_that_is_away_is_our_trouble(bench: Bench) -> None:
    await bench.database.close()
    with pytest.raises(Snooze) as caught:
        await bench(memo={"ours": 3, "short": 1})
    assert caught.value.delay == timedelta(seconds=8)
    assert caught.value.memo == {"short": 1, "ours": 4}
    assert caught.value.report is not None
    assert (caught.value.report.outcome, caught.value.report.code) == ("ours", "internal_error")


def drop_headers(sql: psycopg.Connection[tuple[object, ...]]) -> None:
    sql.execute("UPDATE tidings.endpoint SET credentials = NULL")


@pytest.mark.parametrize("spoil", [lambda _: None, drop_headers], ids=["headers", "signing key"])
async def test_a_key_that_cannot_be_opened_is_our_trouble(
    bench: Bench, connection: psycopg.Connection[tuple[object, ...]], spoil: Callable[..., None]
) -> None:
    spoil(connection)
    bench.ring = KeyRing([KeyEncryptionKey.generate()])
    with pytest.raises(Snooze) as caught:
        await bench()
    assert caught.value.delay == timedelta(seconds=1)
    assert caught.value.report is not None
    assert (caught.value.report.outcome, caught.value.report.code) == ("ours", "unreadable_key")
    assert bench.secret.reveal() not in repr(caught.value.report)
    assert bench.channel.messages == []


async def test_an_endpoint_whose_keys_are_all_gone_is_our_trouble(
    bench: Bench, connection: psycopg.Connection[tuple[object, ...]]
) -> None:
    connection.execute("UPDATE tidings.endpoint_key SET expires_at = now()")
    with pytest.raises(Snooze) as caught:
        await bench()
    assert caught.value.report is not None
    assert (caught.value.report.outcome, caught.value.report.code) == ("ours", "unreadable_key")
    assert bench.channel.messages == []


async def test_an_endpoint_s_own_rules_decide_first(bench: Bench, connection: psycopg.Connection[object]) -> None:
    connection.execute(
        """UPDATE tidings.endpoint SET overrides = '{"http_404": "permanent", "http_200": "permanent"}'"""
    )
    with pytest.raises(Discard, match="http_404"):
        await bench(Reply(status=404))
    assert (await bench()).outcome == "delivered", "what was accepted must never be sent again"


async def test_one_line_is_logged_for_an_attempt_without_a_word_of_its_content(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="tidings.delivery")
    await bench(Reply(status=200, body=b"hello"))
    [record] = [each for each in caplog.records if each.name == "tidings.delivery"]
    line = record.getMessage()
    assert line.startswith(
        f"event={bench.event_id} endpoint={bench.endpoint.id} attempt=1 verdict=delivered code=http_200 ms="
    )
    for secret in ("t0ken", "hello", "/hook", bench.secret.reveal()):
        assert secret not in line
