"""The connection that listens, when nothing comes through it any more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pytest

from delivery.adapters.postgres.database import Database
from delivery.adapters.postgres.listener import ANSWER_WITHIN_S, CHECK_EVERY_S, Listener
from tests.conformance.line import Line
from tests.conformance.patience import eventually

Sql = psycopg.Connection[tuple[Any, ...]]
#: How long a connection that went silent may go unnoticed, in seconds, where the machine has nothing else to do.
SOON = 15.0


@dataclass
class Ears:
    """A listener at work, and what it heard."""

    listener: Listener
    heard: list[str] = field(default_factory=list)
    caught_up: int = 0  #: how often it looked for what it had missed


@asynccontextmanager
async def listening(dsn: str) -> AsyncIterator[Ears]:
    """Listen meanwhile."""
    database = Database(dsn)

    async def hear(_: str, payload: str) -> None:
        ears.heard.append(payload)

    async def catch_up() -> None:
        ears.caught_up += 1

    ears = Ears(Listener(database, ["news"], hear, catch_up))
    task = asyncio.create_task(ears.listener.run())
    try:
        await eventually(lambda: ears.caught_up)
        yield ears
    finally:
        task.cancel()
        await asyncio.wait([task], timeout=20)


@pytest.fixture
async def line(dsn: str) -> AsyncIterator[Line]:
    async with Line(dsn) as line:
        yield line


async def test_a_connection_that_goes_silent_is_found_and_made_anew_within_fifteen_seconds(
    line: Line, connection: Sql
) -> None:
    assert CHECK_EVERY_S + ANSWER_WITHIN_S < SOON
    async with listening(line.dsn) as ears:
        connection.execute("NOTIFY news, 'first'")
        await eventually(lambda: ears.heard == ["first"])
        await line.hush()
        connection.execute("NOTIFY news, 'lost'")
        await eventually(lambda: ears.caught_up >= 2, within=60)  # else never: nothing is closed
        connection.execute("NOTIFY news, 'third'")
        await eventually(lambda: ears.heard == ["first", "third"])
        await eventually(lambda: ears.listener.hears)


async def test_while_it_is_cut_off_it_hears_nothing_and_says_so(line: Line) -> None:
    async with listening(line.dsn) as ears:
        await eventually(lambda: ears.listener.hears)
        await line.__aexit__()
        await eventually(lambda: not ears.listener.hears)
