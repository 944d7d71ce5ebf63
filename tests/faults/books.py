"""Read the ledgers and the database into books that can be judged."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg
from psycopg.rows import dict_row

from . import ledger
from .checker import Acceptance, Books, JobLine, Try

_JOBS = """
SELECT id, args ->> 'event_id' AS event, args ->> 'endpoint_id' AS place, state, NULL AS reason
FROM tidings.job WHERE kind = %(kind)s
UNION ALL
SELECT id, args ->> 'event_id', args ->> 'endpoint_id', state, reason FROM tidings.job_done WHERE kind = %(kind)s
"""
_TRIES = """
SELECT job_id AS job, n, outcome, code, status,
       extract(epoch FROM started_at)::float8 + took_ms / 1000.0::float8 AS ended_at
FROM tidings.attempt
WHERE job_id IN (SELECT id FROM tidings.job WHERE kind = %(kind)s
                 UNION ALL SELECT id FROM tidings.job_done WHERE kind = %(kind)s)
"""
#: What is still under way; anything of it is lost once the platform had its time.
LEFT = """
SELECT (SELECT count(*) FROM tidings.outbox) + (SELECT count(*) FROM tidings.job WHERE kind = %(kind)s) AS n
"""


#: How long after a stall the receiver may still read what came meanwhile, in seconds.
READING_S = 1.0


class Reader:
    """Reads one database."""

    def __init__(self, dsn: str, kind: str) -> None:
        self._dsn, self._kind = dsn, kind

    async def rows(self, query: str) -> list[dict[str, Any]]:
        """Run one statement on a connection of its own: the last one may be gone."""
        async with await psycopg.AsyncConnection.connect(self._dsn, row_factory=dict_row) as connection:
            cursor = await connection.execute(query, {"kind": self._kind})
            return await cursor.fetchall()

    async def left(self) -> int | None:
        """Count what is under way; None while the database is not to be had."""
        try:
            [row] = await self.rows(LEFT)
        except psycopg.OperationalError:
            return None
        return int(row["n"])

    async def jobs(self) -> list[JobLine]:
        """Read every job, live and done."""
        return [JobLine(**row) for row in await self.rows(_JOBS)]

    async def tries(self) -> list[Try]:
        """Read every attempt."""
        return [Try(**row) for row in await self.rows(_TRIES)]


def fates(path: Path) -> dict[str, str]:
    """Read what became of each event, as far as its producer knows."""
    found: dict[str, str] = {}
    for line in ledger.read(path):
        for event in line.get("events", ()):
            found[event] = "unknown" if line["fate"] == "tried" else line["fate"]
    return found


def sent_since(at: float, stalls: Sequence[tuple[float, float]]) -> float:
    """Say since when it may have lain unread: its receiver reads what came in a stall after it, one by one."""
    for began, ended in sorted(stalls, reverse=True):
        if began < at <= ended + READING_S:
            at = began
    return at


async def read_deliveries(dsn: str, home: Path, places: dict[str, str], lease_s: float) -> Books:
    """Read the books of deliveries; `places` are the endpoints' ids by their paths."""
    reader = Reader(dsn, "webhook.deliver")
    received = list(ledger.read(home / "received"))
    read = {line["number"] for line in received if line.get("answer") == "read"}
    stalls = [(line["stalled_since"], line["at"]) for line in received if "stalled_since" in line]
    acceptances = [
        Acceptance(
            at=line["at"],
            event=line["event"],
            place=places[line["path"]],
            digest=line["digest"],
            sent_since=sent_since(line["at"], stalls),
            signed_at=line["signed_at"],
            was_read=line["number"] in read,
        )
        for line in received
        if line.get("accepted")
    ]
    [waiting] = await reader.rows("SELECT count(*) AS n FROM tidings.outbox")
    faults = list(ledger.read(home / "faults"))
    return Books(
        fates=fates(home / "produced"),
        changes={row["event"] for row in await reader.rows("SELECT event::text FROM public.change")},
        kept={row["id"] for row in await reader.rows("SELECT id::text FROM tidings.event")},
        places=sorted(places.values()),
        acceptances=acceptances,
        jobs=await reader.jobs(),
        tries=await reader.tries(),
        crashes=[(line["since"], line["at"] + lease_s) for line in faults if line["what"] == "server crash"],
        thaws=[line["at"] for line in faults if line["what"] == "thaw"],
        waiting=waiting["n"],
    )
