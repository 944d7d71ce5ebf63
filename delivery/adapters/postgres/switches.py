"""Switches of the whole platform, such as `allow_local`: kept in the database, heard of by every process."""

from __future__ import annotations

import json
from typing import Any

from delivery.adapters.postgres.database import Database
from delivery.adapters.postgres.statements import statement

#: Rings with a switch's name when its value has changed.
SETTINGS_CHANNEL = "tidings_settings"


class PostgresSwitches:
    """Read and set switches, each call in a transaction of its own.

    Raises InvalidInput for a name or value that PostgreSQL cannot keep, Unavailable where it does not answer.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, name: str) -> Any:
        """Return the value, any JSON; None where it was never set."""
        rows = await self._database.fetch(statement("read_setting"), {"name": name})
        return rows[0]["value"] if rows else None

    async def put(self, name: str, value: Any, by: str) -> bool:
        """Set a value, any JSON, and ring; False, and nothing written or rung, where it stands already."""
        text = json.dumps(value, sort_keys=True, ensure_ascii=False)
        async with self._database.transaction() as tx:
            cursor = await tx.execute(statement("write_setting"), {"name": name, "value": text, "by": by})
            changed = await cursor.fetchone()
            if changed is not None:
                await tx.execute(statement("notify"), {"channel": SETTINGS_CHANNEL, "payload": name})
        return changed is not None
