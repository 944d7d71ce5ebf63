"""From where a relay looks through the outbox: not over everything that was relayed before, yet nothing is missed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import UUID

import psycopg
import pytest

from delivery.adapters.postgres.database import Database
from delivery.adapters.postgres.outbox import Floor, PostgresOutbox

Sql = psycopg.Connection[tuple[object, ...]]

BEGINNING = UUID(int=0)
#: A look from the beginning that is followed by none for the length of a test.
DEAR_S = 3600.0


def id_at(ms: int) -> UUID:
    return UUID(int=ms << 80 | 7 << 76 | 1)


@pytest.fixture
async def database(dsn: str, connection: Sql) -> AsyncIterator[Database]:
    connection.execute("INSERT INTO tidings.event_type (type, exposure) VALUES ('order.paid', 'webhook')")
    opened = Database(dsn, size=4)
    await opened.open()
    yield opened
    await opened.close()


def record(connection: Sql, event_id: UUID) -> UUID:
    """Commit an event whose id was made at some earlier time."""
    connection.execute(
        "INSERT INTO tidings.event (id, owner_id, type, occurred_at, data)"
        " VALUES (%s, 'acme', 'order.paid', now(), '{}')",
        (event_id,),
    )
    connection.execute("INSERT INTO tidings.outbox (event_id) VALUES (%s)", (event_id,))
    return event_id


async def relayed(outbox: PostgresOutbox) -> list[UUID]:
    """Take a batch and be done with it."""
    async with outbox.claim(100) as batch:
        ids = [row.event.id for row in batch.rows]
        await batch.relayed(ids)
    return ids


def dear(outbox: PostgresOutbox) -> None:
    """Let a look from the beginning have taken very long."""
    outbox._floor.looked(BEGINNING, DEAR_S, None)


def test_looks_begin_at_the_beginning_while_that_is_cheap() -> None:
    floor = Floor(cheap_s=1.0)
    floor.looked(BEGINNING, 0.5, id_at(50_000))
    assert floor.begin() == BEGINNING


def test_looks_begin_below_what_was_last_relayed_once_it_is_dear() -> None:
    floor = Floor(cheap_s=1.0)
    floor.looked(BEGINNING, DEAR_S, id_at(50_000))
    assert BEGINNING < floor.begin() <= id_at(40_000)
    floor.looked(floor.begin(), DEAR_S, id_at(70_000))
    assert id_at(50_000) < floor.begin() <= id_at(60_000)


def test_a_look_from_the_beginning_comes_again_after_a_while() -> None:
    floor = Floor(cheap_s=0.0)
    floor.looked(BEGINNING, 1e-9, id_at(50_000))
    assert floor.begin() == BEGINNING


async def test_what_commits_late_is_found_by_the_next_look_from_the_beginning(
    database: Database, connection: Sql
) -> None:
    outbox = PostgresOutbox(database)
    assert await relayed(outbox) == []
    new = record(connection, id_at(100_000))
    assert await relayed(outbox) == [new]
    dear(outbox)
    a_little_late, very_late = record(connection, id_at(95_000)), record(connection, id_at(5_000))
    assert await relayed(outbox) == [a_little_late]
    assert await relayed(outbox) == []
    outbox._floor._whole_at = 0.0
    assert await relayed(outbox) == [very_late]


async def test_what_is_left_for_another_pass_is_found_by_the_next_look(database: Database, connection: Sql) -> None:
    outbox = PostgresOutbox(database)
    event, later = record(connection, id_at(5_000)), record(connection, id_at(100_000))
    dear(outbox)
    async with outbox.claim(100) as batch:
        assert [row.event.id for row in batch.rows] == [event, later]
        await batch.relayed([later])
        await batch.keep_place(event, "a target")
    assert await relayed(outbox) == [event]


async def test_a_batch_that_failed_is_found_by_the_next_look(database: Database, connection: Sql) -> None:
    outbox = PostgresOutbox(database)
    event, later = record(connection, id_at(5_000)), record(connection, id_at(100_000))
    dear(outbox)
    with pytest.raises(RuntimeError):
        async with outbox.claim(100):
            raise RuntimeError
    assert await relayed(outbox) == [event, later]


async def test_a_row_that_is_asked_for_is_claimed_wherever_looks_begin(database: Database, connection: Sql) -> None:
    outbox = PostgresOutbox(database)
    record(connection, id_at(100_000))
    await relayed(outbox)
    dear(outbox)
    event = record(connection, id_at(5_000))
    async with outbox.claim(1, only=event) as batch:
        assert [row.event.id for row in batch.rows] == [event]
