"""One event for a thousand endpoints is relayed in chunks, and a relay that dies in one costs that chunk alone."""

from __future__ import annotations

from datetime import UTC, datetime

import psycopg

from delivery.adapters.postgres.store import PostgresStore
from delivery.classifier import check_overrides
from delivery.ids import new_id
from delivery.sealing import KeyEncryptionKey, KeyRing
from subscriptions.registry import EndpointRegistry
from subscriptions.subscribing import SubscriptionRegistry

from .patience import eventually
from .platform import OWNER, TYPE, Platform
from .receivers import Receiver

ENDPOINTS, CHUNK = 1000, 100
LOCK = 4711

#: Counts each try to enqueue, and stops in the fifth chunk for as long as somebody holds the lock.
TRACE = f"""
CREATE TABLE public.fanned (second uuid);
CREATE FUNCTION public.trace() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO public.fanned VALUES (NEW.second);
  IF (SELECT count(*) FROM public.fanned) = 450 THEN
    PERFORM pg_advisory_xact_lock_shared({LOCK});
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER trace BEFORE INSERT ON tidings.job_identity FOR EACH ROW EXECUTE FUNCTION public.trace();
"""
_WAITS = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'advisory' AND datname = current_database()"


async def many_endpoints(platform: Platform, number: int) -> None:
    """Add endpoints with a subscription each, in one transaction."""
    ring = KeyRing([KeyEncryptionKey.parse(platform.keys)])

    def seal(secret: bytes, owner_id: str, endpoint_id: object, key_id: object) -> bytes:
        place = {"owner_id": owner_id, "endpoint_id": endpoint_id, "key_id": key_id}
        return ring.seal(secret, purpose="signing", **place)  # type: ignore[arg-type] # ids

    def no_headers(*_: object) -> bytes:
        raise AssertionError("these endpoints have none")

    rules = {"make_id": new_id, "now": lambda: datetime.now(UTC)}
    async with platform.app.transaction() as tx:
        store = PostgresStore(tx, no_headers, no_headers)
        endpoints = EndpointRegistry(store, seal=seal, check_overrides=check_overrides, check_tls=print, **rules)
        subscriptions = SubscriptionRegistry(store, **rules)
        for n in range(number):
            endpoint, _ = await endpoints.add_endpoint(OWNER, platform.receiver.url(f"/{n}"), by="test")
            await subscriptions.subscribe(OWNER, f"to {n}", [TYPE], endpoint.id, by="test", future=True)


async def test_a_relay_killed_within_a_big_fan_out_is_followed_by_one_that_goes_on_where_it_was(
    platform: Platform, receiver: Receiver
) -> None:
    await many_endpoints(platform, ENDPOINTS)
    await platform.connection.execute(TRACE)
    [event] = await platform.record()
    async with await psycopg.AsyncConnection.connect(platform.dsn, autocommit=True) as keeper:
        await keeper.execute("SELECT pg_advisory_lock(%s)", [LOCK])
        process = await platform.process(str(CHUNK))

        async def waits() -> bool:
            return await platform.number(_WAITS) == 1

        await eventually(waits)
        [row] = await platform.sql("SELECT after_target FROM tidings.outbox")
        assert row["after_target"] is not None
        assert await platform.number("SELECT count(*) FROM ours.job") == 4 * CHUNK
        await process.kill()
    second = await platform.process(str(CHUNK))
    await platform.relayed()
    second.terminate()
    await second.says("stopped")
    assert await platform.number("SELECT count(*) FROM ours.job") == ENDPOINTS
    assert await platform.number("SELECT count(*) FROM public.fanned") == ENDPOINTS, "a chunk that stood was made anew"

    await platform.process("worker")
    assert await platform.ended() == {"completed": ENDPOINTS}
    assert receiver.count == {(f"/{n}", str(event)): 1 for n in range(ENDPOINTS)}
