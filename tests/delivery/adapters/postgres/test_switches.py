from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest

from delivery.adapters.postgres.database import Database
from delivery.adapters.postgres.switches import SETTINGS_CHANNEL, PostgresSwitches
from delivery.errors import InvalidInput


@pytest.fixture
async def switches(dsn: str) -> AsyncIterator[PostgresSwitches]:
    database = Database(dsn)
    await database.open()
    yield PostgresSwitches(database)
    await database.close()


def rings(connection: psycopg.Connection[Any]) -> list[str]:
    """Return what rang until now."""
    connection.execute(f"NOTIFY {SETTINGS_CHANNEL}, 'last'")
    heard = []
    for notify in connection.notifies(timeout=60):
        if notify.payload == "last":
            return heard
        heard.append(notify.payload)
    raise AssertionError("nothing is heard")


async def test_a_switch_that_was_never_set_is_none(switches: PostgresSwitches):
    assert await switches.get("allow_local") is None


@pytest.mark.parametrize("value", [True, False, 0, "50% 'é' 🎉", [], {"b": [1.5, None], "a": {}}])
async def test_a_switch_keeps_any_json(switches: PostgresSwitches, value: Any):
    await switches.put("50% of 'it'", value, "ann")
    assert await switches.get("50% of 'it'") == value
    assert await switches.get("allow_local") is None


async def test_only_a_change_is_written_and_rung(switches: PostgresSwitches, connection: psycopg.Connection[Any]):
    connection.execute(f"LISTEN {SETTINGS_CHANNEL}")
    assert await switches.put("allow_local", {"a": 1, "b": 2}, "ann")
    assert not await switches.put("allow_local", {"b": 2, "a": 1}, "bob")
    assert rings(connection) == ["allow_local"]
    who = "SELECT changed_by FROM tidings.setting"
    assert connection.execute(who).fetchone() == ("ann",)
    assert await switches.put("allow_local", False, "bob")
    assert rings(connection) == ["allow_local"]
    assert connection.execute(who).fetchone() == ("bob",)


@pytest.mark.parametrize("text", ["a\x00", "\ud800"])
async def test_text_that_cannot_be_kept_is_refused_and_nothing_rings(
    switches: PostgresSwitches, connection: psycopg.Connection[Any], text: str
):
    connection.execute(f"LISTEN {SETTINGS_CHANNEL}")
    with pytest.raises(InvalidInput):
        await switches.put(text, True, "ann")
    with pytest.raises(InvalidInput):
        await switches.put("allow_local", True, text)
    with pytest.raises(InvalidInput):
        await switches.get(text)
    assert await switches.get("allow_local") is None
    assert rings(connection) == []
