"""Deliveries that are discarded: noted where somebody wants to know, and told of once."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from delivery.adapters.postgres.database import Database
from delivery.adapters.postgres.discards import MOST_NAMED, Notices, note_discards, tell_discards
from delivery.adapters.postgres.statements import statement
from delivery.adapters.postgres.upkeep import expire
from delivery.errors import SchemaPending
from subscriptions.match import Pattern, matches
from tests.delivery.adapters.postgres.ledger import DAY, NOON, PATIENT, Ledger

FORTNIGHT = {"webhook.deliver": timedelta(days=14)}
TYPE = "tidings.delivery.discarded"
Row = tuple[Any, ...]


@pytest.fixture
async def database(dsn: str) -> AsyncIterator[Database]:
    opened = Database(dsn, size=4, deadlines=PATIENT)
    await opened.open()
    yield opened
    await opened.close()


@pytest.fixture
def ledger(connection: psycopg.Connection[Any]) -> Ledger:
    return Ledger(connection)


def endpoint(ledger: Ledger, owner_id: str = "o") -> UUID:
    made = uuid4()
    ledger.execute(
        "INSERT INTO tidings.endpoint (id, owner_id, url, policy, job_limit, timeout_ms, created_at, updated_at)"
        " VALUES (%(id)s, %(owner)s, 'http://127.0.0.1/', 'standard', 10, 1000, now(), now())",
        id=made,
        owner=owner_id,
    )
    return made


def subscribe(ledger: Ledger, *patterns: str, owner_id: str | None = "o") -> None:
    ledger.execute(
        "INSERT INTO tidings.subscription (id, owner_id, name, patterns, handler, created_at)"
        " VALUES (gen_random_uuid(), %(owner)s, gen_random_uuid()::text, %(patterns)s, 'handler.x', now())",
        owner=owner_id,
        patterns=list(patterns),
    )


async def discard(
    database: Database, ledger: Ledger, event_id: UUID, endpoint_id: UUID | str, *, kind: str = "webhook.deliver"
) -> int:
    """Discard a delivery, and note it in the same transaction."""
    job_id = ledger.job(NOON, event=event_id, kind=kind)
    async with database.transaction(quick=True) as tx:
        await discard_in(tx, job_id, event_id, endpoint_id)
        await note_discards(tx, [job_id])
    return job_id


async def discard_in(tx: Any, job_id: int, event_id: UUID, endpoint_id: UUID | str, state: str = "discarded") -> None:
    await tx.execute(
        "WITH gone AS (DELETE FROM tidings.job WHERE id = %(id)s RETURNING *) INSERT INTO tidings.job_done"
        " (id, kind, lane, args, state, priority, run_at, attempt, spent, max_attempts, queued_at, created_at, reason,"
        " code) SELECT id, kind, lane, jsonb_build_object('event_id', %(event)s::text, 'endpoint_id', %(to)s::text),"
        " %(state)s, priority, run_at, 1, 1, max_attempts, queued_at, created_at, 'http_400', 'http_400' FROM gone",
        {"id": job_id, "event": str(event_id), "to": str(endpoint_id), "state": state},
    )


def noted(ledger: Ledger) -> list[Row]:
    return ledger.execute(
        "SELECT job_id, event_id, endpoint_id, event_type, reason, code FROM tidings.discard_notice ORDER BY job_id"
    )


def told(ledger: Ledger) -> list[dict[str, Any]]:
    """Return the data of what was recorded, with owner and subject; each waits in the outbox."""
    rows = ledger.execute(
        "SELECT owner_id, subject, data::text FROM tidings.event JOIN tidings.outbox ON event_id = id"
        " WHERE type = %(type)s ORDER BY id",
        type=TYPE,
    )
    return [{"owner": owner, "subject": subject} | json.loads(data) for owner, subject, data in rows]


async def test_a_note_is_taken_where_the_owner_subscribes(database: Database, ledger: Ledger):
    subscribe(ledger, "a.b", TYPE)
    event, to = ledger.event(NOON), endpoint(ledger)
    job_id = await discard(database, ledger, event, to)
    assert noted(ledger) == [(job_id, event, to, "a.b", "http_400", "http_400")]


async def test_none_is_taken_where_only_another_owner_subscribes(database: Database, ledger: Ledger):
    subscribe(ledger, TYPE, owner_id="another")
    assert await Notices(database).are_wanted()
    await discard(database, ledger, ledger.event(NOON), endpoint(ledger))
    assert noted(ledger) == []


async def test_a_handler_of_every_owner_is_told_of_all(database: Database, ledger: Ledger):
    subscribe(ledger, "tidings.*", owner_id=None)
    await discard(database, ledger, ledger.event(NOON), endpoint(ledger))
    assert len(noted(ledger)) == 1


async def test_none_is_taken_of_what_the_platform_tells_of_itself(database: Database, ledger: Ledger):
    subscribe(ledger, "tidings.*")
    event = ledger.event(NOON)
    ledger.execute("UPDATE tidings.event SET type = %(type)s WHERE id = %(id)s", type=TYPE, id=event)
    await discard(database, ledger, event, endpoint(ledger))
    assert noted(ledger) == []


async def test_none_is_taken_of_what_is_no_longer_there(database: Database, ledger: Ledger):
    subscribe(ledger, TYPE)
    await discard(database, ledger, uuid4(), endpoint(ledger))
    await discard(database, ledger, ledger.event(NOON), uuid4())
    assert noted(ledger) == []


PATTERNS = (
    *("tidings", "tidings.*", "tidings.*.*", "tidings.*.*.*", "tidings.delivery", "tidings.delivery.*"),
    *(
        "tidings.*.discarded",
        TYPE,
        f"{TYPE}.*",
        "*",
        "*.*",
        "*.*.*",
        "*.delivery.discarded",
        "tidings.endpoint.*",
        "a.b",
    ),
)


@pytest.mark.parametrize("pattern", PATTERNS)
async def test_whoever_is_sent_it_is_asked_for(database: Database, ledger: Ledger, pattern: str):
    subscribe(ledger, pattern)
    ledger.execute("SET enable_seqscan = off")
    wanted = matches(Pattern.parse(pattern), TYPE)
    assert await Notices(database).are_wanted() is wanted
    await discard(database, ledger, ledger.event(NOON), endpoint(ledger))
    assert len(noted(ledger)) == int(wanted)


def test_asking_finds_subscribers_by_their_index(ledger: Ledger):
    ledger.execute(
        "INSERT INTO tidings.subscription (id, owner_id, name, patterns, handler, created_at) SELECT"
        " gen_random_uuid(), 'o', n::text, '{a.b}', 'handler.x', now() FROM generate_series(1, 20000) AS n"
    )
    ledger.execute("ANALYZE tidings.subscription")
    explain = b"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + statement("find_discard_subscription")
    [[[explained]]] = ledger.connection.execute(explain).fetchall()
    assert explained["Plan"]["Shared Hit Blocks"] + explained["Plan"]["Shared Read Blocks"] < 10


async def test_nobody_is_asked_anew_for_each_delivery(database: Database, ledger: Ledger):
    notices, anew = Notices(database, asked_for_s=3600), Notices(database, asked_for_s=0)
    assert (await notices.are_wanted(), await anew.are_wanted()) == (False, False)
    subscribe(ledger, TYPE)
    assert (await notices.are_wanted(), await anew.are_wanted()) == (False, True)


async def test_each_endpoint_is_told_of_by_one_event_once(database: Database, ledger: Ledger):
    subscribe(ledger, TYPE)
    subscribe(ledger, TYPE, owner_id="p")
    event, many, one = ledger.event(NOON), endpoint(ledger), endpoint(ledger, "p")
    jobs = [await discard(database, ledger, event, many) for _ in range(MOST_NAMED + 2)]
    last = await discard(database, ledger, event, one)
    assert await tell_discards(database) == "told of 13 deliveries by 2 events"
    found = {each["endpoint_id"]: each for each in told(ledger)}
    assert (found[str(many)]["number"], found[str(one)]["number"]) == (MOST_NAMED + 2, 1)
    assert [each["delivery_id"] for each in found[str(many)]["deliveries"]] == jobs[:1:-1]
    assert found[str(one)] == {
        "owner": "p",
        "subject": str(one),
        "endpoint_id": str(one),
        "number": 1,
        "first_at": found[str(one)]["last_at"],
        "last_at": found[str(one)]["last_at"],
        "deliveries": [
            {
                "delivery_id": last,
                "event_id": str(event),
                "type": "a.b",
                "reason": "http_400",
                "code": "http_400",
            }
        ],
    }
    assert await tell_discards(database) == "nothing to tell"
    assert len(told(ledger)) == 2


async def test_what_is_not_told_of_stays_noted(database: Database, ledger: Ledger):
    subscribe(ledger, TYPE)
    await discard(database, ledger, ledger.event(NOON), endpoint(ledger))
    ledger.execute("ALTER TABLE tidings.outbox RENAME TO away")
    with pytest.raises(SchemaPending):
        await tell_discards(database)
    ledger.execute("ALTER TABLE tidings.away RENAME TO outbox")
    assert (len(noted(ledger)), told(ledger)) == (1, [])
    assert await tell_discards(database) == "told of 1 deliveries by 1 events"


async def test_a_delivery_that_expires_is_noted_as_well(database: Database, ledger: Ledger):
    subscribe(ledger, TYPE)
    old, event = NOON - 15 * DAY, ledger.event(NOON)
    job_id = ledger.job(old, event=event)
    to = endpoint(ledger)
    ledger.execute(
        "UPDATE tidings.job SET args = args || jsonb_build_object('endpoint_id', %(to)s::text) WHERE id = %(id)s",
        to=str(to),
        id=job_id,
    )
    cancelled, odd = ledger.job(old, event=event), ledger.job(old, event=event)
    ledger.execute("UPDATE tidings.job SET cancelled_by = 'ann' WHERE id = %(id)s", id=cancelled)
    ledger.execute("""UPDATE tidings.job SET args = '{"event_id": "no uuid"}' WHERE id = %(id)s""", id=odd)
    ledger.job(old, event=event, kind="handler.x")
    assert await expire(database, FORTNIGHT, others=14 * DAY, now=NOON) == {"jobs expired": 4}
    assert noted(ledger) == [(job_id, event, to, "a.b", "expired", None)]


async def test_what_the_transaction_itself_did_not_discard_is_not_noted(database: Database, ledger: Ledger):
    subscribe(ledger, TYPE)
    event, to = ledger.event(NOON), endpoint(ledger)
    waits, before, completed = (ledger.job(NOON, event=ledger.event(NOON)) for _ in range(3))
    async with database.transaction(quick=True) as tx:
        await discard_in(tx, before, event, to)
    async with database.transaction(quick=True) as tx:
        await discard_in(tx, completed, event, to, "completed")
        await note_discards(tx, [waits, before, completed])
    assert noted(ledger) == []


async def test_a_job_of_another_kind_or_made_by_hand_is_not_noted(database: Database, ledger: Ledger):
    subscribe(ledger, TYPE)
    await discard(database, ledger, ledger.event(NOON), endpoint(ledger), kind="handler.x")
    await discard(database, ledger, ledger.event(NOON), "no endpoint's id")
    assert noted(ledger) == []
