"""Look around for `delivery.doctor`: at the server, the way to it, and what hangs on both."""

from __future__ import annotations

import asyncio
import logging
import resource
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from delivery.adapters.postgres.database import Database
from delivery.adapters.postgres.days import DAY, shelves
from delivery.adapters.postgres.faults import mapped
from delivery.adapters.postgres.pools import severed_after
from delivery.adapters.postgres.statements import statement
from delivery.adapters.postgres.status import PostgresStatus
from delivery.doctor import Room, Surroundings
from delivery.errors import ConfigurationError, TidingsError

log = logging.getLogger("tidings.doctor")

#: What it is listened on and rung with once.
CHANNEL = "tidings_doctor"
HEARD_WITHIN_S = 5.0
#: Endpoints whose names are looked up at most.
MOST_NAMES = 5
#: Connections that a process holds besides its pools: two listeners, and one to spare.
BESIDES = 3


class PostgresExaminer:
    """`delivery.doctor.Examiner`."""

    def __init__(
        self,
        database: Database,
        status: PostgresStatus,
        *,
        count_keys: Callable[[], Awaitable[Mapping[str, int]]],
        resolve: Callable[[str, str], Awaitable[str | None]] | None,
    ) -> None:
        """`count_keys` counts what missing keys seal, or raises ConfigurationError; `resolve` says of a host and an
        owner why it has no address; None = names are not looked up here."""
        self._database, self._status = database, status
        self._count_keys, self._resolve = count_keys, resolve

    async def look(self) -> Surroundings:
        """Look at everything once."""
        row = (await self._fetch("read_surroundings"))[0]
        presence, skew = await self._status.presence()
        missing: Mapping[str, int] = {}
        trouble = None
        try:
            missing = await self._count_keys()
        except ConfigurationError as error:
            trouble = str(error)
        return Surroundings(
            server=f"PostgreSQL {row['version'].split()[0]}",
            settings=row["settings"],
            room=self._room(row),
            skew=skew,
            is_pooled=self._database.is_pooled,
            heard_after=None if self._database.is_pooled else await self._hear(),
            days_ahead=await self._days_ahead(presence["at"]),
            missing_keys=missing,
            keys=trouble,
            names=await self._names(),
            workers=presence["workers"],
            relays=presence["relays"],
            files=_files(),
        )

    def _room(self, row: dict[str, Any]) -> Room:
        left = {whose: row[f"{whose}_left"] for whose in ("server", "database", "role")}
        known = {whose: max(number, 0) for whose, number in left.items() if number is not None}
        least = min(known, key=lambda whose: known[whose])
        needed = self._database.durable.max_size + self._database.quick.max_size + BESIDES
        return Room(left=known[least], needed=needed, whose=least)

    async def _hear(self) -> timedelta | None:
        """Ring, and listen for it on another connection."""
        try:
            with mapped():
                async with await self._database.connect() as connection:
                    with severed_after(connection, HEARD_WITHIN_S):
                        await connection.execute(f"LISTEN {CHANNEL}".encode())
                    began = time.monotonic()
                    await self._fetch("notify", channel=CHANNEL, payload="")
                    async for _ in connection.notifies(timeout=HEARD_WITHIN_S, stop_after=1):
                        return timedelta(seconds=time.monotonic() - began)
        except TidingsError as error:
            log.warning("nothing can be heard: %s", error)
        return None

    async def _days_ahead(self, now: datetime) -> int:
        today, standing = now.astimezone(UTC).date(), await shelves(self._database)
        ahead = -1
        while all(today + (ahead + 1) * DAY in shelf.days for shelf in standing):
            ahead += 1
        return ahead

    async def _names(self) -> dict[str, str | None]:
        resolve = self._resolve
        if resolve is None:
            return {}
        hosts: dict[str, str] = {}
        others: dict[str, str] = {}  # of owners who have one among the hosts
        for row in await self._fetch("list_hosts", limit=200):
            host = urlsplit(row["url"]).hostname
            if host is not None and any(letter.isalpha() for letter in host) and ":" not in host:
                (others if row["owner_id"] in hosts.values() else hosts).setdefault(host, row["owner_id"])
        chosen = list((hosts | others).items())[:MOST_NAMES]
        answers = await asyncio.gather(*(resolve(host, owner_id) for host, owner_id in chosen))
        return {host: answer for (host, _), answer in zip(chosen, answers, strict=True)}

    async def _fetch(self, name: str, **parameters: Any) -> list[dict[str, Any]]:
        return await self._database.fetch(statement(name), parameters)


def _files() -> int:
    """Return how many files a process of ours may open: it raises its own limit as far as it may."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 2**31 - 1 if hard == resource.RLIM_INFINITY else hard
