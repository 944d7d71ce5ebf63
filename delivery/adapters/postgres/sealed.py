"""What is sealed at rest, as it lies in the tables: signing keys and credentials of endpoints."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from delivery.adapters.postgres.database import Database
from delivery.adapters.postgres.statements import statement
from delivery.sealing import SealError, sealed_with
from delivery.vault import SealedValue


class PostgresSealed:
    """The PostgreSQL adapter of `delivery.vault.SealedStore`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def count(self) -> dict[str, int]:
        """Count the sealed values in use by the id of the key that they are sealed with."""
        found: dict[str, int] = {}
        for row in await self._database.fetch(statement("count_sealed"), {}):
            with suppress(SealError):  # whoever needs it says so
                found[sealed_with(bytes(row["sealed"]))] = row["n"]
        return found

    async def others(self, head: bytes, *, after: SealedValue | None, limit: int) -> Sequence[SealedValue]:
        """List values in use that do not begin with `head`, in an order that stands."""
        place = {"purpose": after.purpose if after else "", "key": after.key_id if after else None}
        rows = await self._database.fetch(statement("list_sealed"), place | {"head": head, "limit": limit})
        return [SealedValue(**row) for row in rows]

    async def replace(self, values: Sequence[tuple[SealedValue, bytes]]) -> int:
        """Put others in the place of values that still stand; returns how many did."""
        done = 0
        for purpose, name in (("signing", "reseal_keys"), ("credentials", "reseal_credentials")):
            chosen = [(value, sealed) for value, sealed in values if value.purpose == purpose]
            parameters = {
                "ids": [value.key_id for value, _ in chosen],
                "old": [value.sealed for value, _ in chosen],
                "new": [sealed for _, sealed in chosen],
            }
            done += len(await self._database.fetch(statement(name), parameters)) if chosen else 0
        return done
