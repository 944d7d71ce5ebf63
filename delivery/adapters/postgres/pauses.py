"""Keep what a person has paused, and have every worker hear of it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC
from typing import Any

from psycopg.rows import DictRow

from delivery.adapters.postgres.crew import LANES_CHANNEL
from delivery.adapters.postgres.database import Database
from delivery.adapters.postgres.rows import change_columns
from delivery.adapters.postgres.statements import statement
from delivery.adapters.postgres.territory import EVERY_LANE
from delivery.pauses import Pause, Paused, Scope
from subscriptions.store import Change


class PostgresPauses:
    """`delivery.pauses.Pauses`. A pause and what is kept of who made it are one transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def pause(self, what: Paused, *, by: str, reason: str | None) -> Pause:
        """Start no job of it from now on."""
        asked = {"scope": what.scope.value, "name": what.name, "by": by, "reason": reason}
        while True:
            paused = await self._change("add_pause", asked, what, by=by, reason=reason)
            standing = [each for each in await self.list() if each.what == what] if paused is None else [paused]
            if standing:  # else somebody resumed it in the very moment
                return standing[0]

    async def resume(self, what: Paused, *, by: str, reason: str | None) -> Pause | None:
        """Let its jobs go on."""
        asked = {"scope": what.scope.value, "name": what.name}
        return await self._change("remove_pause", asked, what, by=by, reason=reason)

    async def list(self) -> Sequence[Pause]:
        """List the pauses that stand."""
        return [_pause_of(row) for row in await self._database.fetch(statement("list_pauses"), {})]

    async def _change(
        self, name: str, asked: dict[str, Any], what: Paused, *, by: str, reason: str | None
    ) -> Pause | None:
        is_new = name == "add_pause"
        async with self._database.transaction() as tx:
            row = await (await tx.execute(statement(name), asked)).fetchone()
            if row is None:
                return None
            clock = await (await tx.execute(statement("read_time"), {})).fetchone()
            assert clock is not None  # noqa: S101 - a SELECT without FROM
            change = Change(
                owner_id=what.name if what.scope is Scope.OWNER else None,
                what="work.paused" if is_new else "work.resumed",
                of=f"pause of {what}",
                by=by,
                at=clock["now"],
                before={} if is_new else {"by": row["paused_by"], "reason": row["reason"]},
                after={"reason": reason},
            )
            await tx.execute(statement("record_change"), change_columns(change))
            await tx.execute(statement("notify"), {"channel": LANES_CHANNEL, "payload": EVERY_LANE})
            return _pause_of(row)


def _pause_of(row: DictRow) -> Pause:
    return Pause(
        what=Paused(scope=Scope(row["scope"]), name=row["name"]),
        by=row["paused_by"],
        reason=row["reason"],
        at=row["paused_at"].astimezone(UTC),
    )
