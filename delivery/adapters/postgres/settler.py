"""Write results of tries, many in one statement, each only where its claim still stands."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from psycopg.rows import DictRow

from delivery.adapters.postgres.database import Database
from delivery.adapters.postgres.discards import Notices, note_discards
from delivery.adapters.postgres.statements import statement
from delivery.attempts import Report
from delivery.compiler import DELIVER
from delivery.errors import InvalidInput, Refused, TidingsError
from delivery.jobs import JsonObject
from delivery.metrics import JOBS, OTHER, SETTLE_S, SETTLED, STALE, Metrics
from delivery.values import valueclass

log = logging.getLogger("tidings.settle")

#: Results are written when this many wait, or after this long.
BATCH = 200
LINGER_S = 0.005
#: While this many wait, nothing more is claimed.
MOST_WAITING = 2_000
#: A result whose job another transaction holds is written again after this long, in seconds.
HELD_AGAIN_S = 0.25
#: Characters that are kept of a report's text.
MOST_KEPT = 4_000
#: Stands in a report whose own words the database refused.
UNKEPT = "the report could not be kept"
_NOTHING = Report()


@valueclass
class Result:
    """What came of one try."""

    id: int
    lease: int
    state: str  #: a final state, `retryable`, or `pending`: give back as if it had never been claimed
    delay_s: float = 0.0
    charges: bool = False
    memo: JsonObject | None = None
    reason: str | None = None
    took_ms: int = 0
    outcome: str | None = None  #: None = keep no attempt
    report: Report = _NOTHING
    kind: str = OTHER  #: of the job, where this process declares it


class Settler:
    """Collect results and write them. A write that fails is tried again until it succeeds.

    A result whose job is locked by somebody else waits beside the others, and is offered until its claim is over.
    """

    def __init__(
        self,
        database: Database,
        settled: Callable[[Sequence[DictRow]], None],
        metrics: Metrics | None = None,
    ) -> None:
        self._database, self._settled = database, settled
        self._metrics = metrics or Metrics()
        self._notices = Notices(database)
        self._waiting: list[Result] = []
        self._held = 0
        self._some = asyncio.Event()
        self._full = asyncio.Event()
        self._empty = asyncio.Event()
        self._empty.set()
        self.stale = 0  #: results that came after their claim had lapsed, and changed nothing

    def __len__(self) -> int:
        return len(self._waiting) + self._held

    def add(self, result: Result) -> None:
        """Take one result."""
        self._waiting.append(result)
        self._empty.clear()
        self._some.set()
        if len(self._waiting) >= BATCH:
            self._full.set()

    async def flushed(self) -> None:
        """Wait until everything is written."""
        await self._empty.wait()

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await self._some.wait()
            try:
                async with asyncio.timeout(LINGER_S):
                    await self._full.wait()
            except TimeoutError:
                pass  # fewer than a batch came in that time: write those
            batch, self._waiting = self._waiting[:BATCH], self._waiting[BATCH:]
            self._full.clear()
            await self._write(batch)
            if len(self._waiting) >= BATCH:
                self._full.set()
            if not self._waiting:
                self._some.clear()
                if not self._held:
                    self._empty.set()

    async def _write(self, batch: list[Result]) -> None:
        failures = 0
        rows: list[DictRow] | None = None
        began = time.monotonic()
        while rows is None:
            try:
                rows = await self._settle(batch)
            except Exception as error:
                if isinstance(error, InvalidInput | Refused) or not isinstance(error, TidingsError):
                    await self._write_apart(batch, error)
                    return
                if not failures:
                    log.warning("%d results cannot be written yet: %s", len(batch), error)
                failures += 1
                await asyncio.sleep(pause_s(failures))
                began = time.monotonic()
        if failures:
            log.info("results are written again")
        self._metrics.took(SETTLE_S, time.monotonic() - began)
        self.stale += len(batch) - len(rows)
        held = {(row["id"], row["held"]) for row in rows if row["held"] is not None}
        settled = [row for row in rows if row["held"] is None]
        self._count(batch, settled, stale=len(batch) - len(rows))
        self._settled(settled)
        if held:
            self._put_aside([result for result in batch if (result.id, result.lease) in held])

    async def _settle(self, batch: Sequence[Result]) -> list[DictRow]:
        """Write a batch; with it, where anybody wants to know, which deliveries are discarded."""
        discarded = [result.id for result in batch if result.state == "discarded" and result.kind == DELIVER]
        if not discarded or not await self._notices.are_wanted():
            return await self._database.fetch(statement("settle_jobs"), _columns(batch), quick=True)
        async with self._database.transaction(quick=True, deadline=self._database.deadlines.quick) as tx:
            rows = await (await tx.execute(statement("settle_jobs"), _columns(batch))).fetchall()
            await note_discards(tx, discarded)
            return rows

    def _count(self, batch: Sequence[Result], settled: Sequence[DictRow], *, stale: int) -> None:
        self._metrics.count(SETTLED, by=len(settled))
        self._metrics.count(STALE, by=stale)
        results = {result.id: result for result in batch}
        for row in settled:
            if row["due_in_s"] is None:
                result = results[row["id"]]
                # One that was to wait again has ended all the same: its cancelling was asked for.
                state = "cancelled" if result.state in ("retryable", "pending") else result.state
                self._metrics.count(JOBS, result.kind, state)

    def _put_aside(self, results: list[Result]) -> None:
        self._held += len(results)
        asyncio.get_running_loop().call_later(HELD_AGAIN_S, self._offer_again, results)

    def _offer_again(self, results: list[Result]) -> None:
        self._held -= len(results)
        for result in results:
            self.add(result)

    async def _write_apart(self, batch: list[Result], error: Exception) -> None:
        """Write what the database refused together one by one, and the one that it refuses without its report."""
        if len(batch) > 1:
            for result in batch:
                await self._write([result])
            return
        [result] = batch
        bare = replace(result, report=Report(code=result.report.code, detail=UNKEPT), memo=None)
        if result == bare:
            log.error("the result of job %d is refused, so it runs again when its lease ends: %s", result.id, error)
            return
        log.error("the report of job %d cannot be kept and is left out: %s", result.id, error)
        await self._write([bare])


def pause_s(failures: int) -> float:
    """Return how long to wait after so many failures in a row, however many they get to be."""
    return min(0.1 * 2.0 ** min(failures, 10), 5.0)


def _columns(batch: Sequence[Result]) -> dict[str, Any]:
    batch = sorted({(r.id, r.lease): r for r in reversed(batch)}.values(), key=lambda r: r.id)  # each claim once
    reports = [r.report for r in batch]
    return {
        "ids": [r.id for r in batch],
        "leases": [r.lease for r in batch],
        "states": [r.state for r in batch],
        "delays": [r.delay_s for r in batch],
        "charges": [r.charges for r in batch],
        "memos": [_memo(r) for r in batch],
        "reasons": [_kept(r.reason) for r in batch],
        "took": [r.took_ms for r in batch],
        "outcomes": [_kept(r.outcome) for r in batch],
        "codes": [_kept(report.code) for report in reports],
        "rules": [_kept(report.rule) for report in reports],
        "statuses": [report.status for report in reports],
        "heads": [report.head for report in reports],
        "bodies": [report.body for report in reports],
        "details": [_kept(report.detail) for report in reports],
    }


def _memo(result: Result) -> str | None:
    """Return a memo as JSON; one that is none is left out, and never costs the result."""
    try:
        return json.dumps(result.memo, allow_nan=False) if result.memo else None
    except (TypeError, ValueError, RecursionError) as error:
        log.error("the memo of job %d is no JSON and is left out: %s", result.id, error)
        return None


def _kept(text: str | None) -> str | None:
    """Return text as PostgreSQL can keep it: a result is never lost for a character in it."""
    if text is None or (type(text) is str and text.isascii() and text.isprintable() and len(text) <= MOST_KEPT):
        return text
    try:
        text = str(text)
    except Exception:
        log.exception("a report cannot be kept as it is")
        return UNKEPT
    return text.replace("\x00", "�").encode("utf-8", "replace").decode("utf-8")[:MOST_KEPT]
