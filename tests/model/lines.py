"""Connections that one thread plays against each other: a statement is started, waits, goes on, is committed."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Self

import psycopg
from psycopg.rows import dict_row

from delivery.adapters.postgres.statements import statement

#: How many transactions may be under way at once.
LINES = 4
PATIENCE_S = 60.0
#: For another's transaction or at the gate; for a whole table, at most until a vacuum is through with it.
_WAITS = "SELECT FROM pg_locks WHERE pid = %s AND NOT granted AND locktype <> 'relation'"
_TABLES = ("job", "job_done", "attempt", "job_key", "job_identity", "worker", "waiter")
_EMPTY = "; ".join(f"DELETE FROM tidings.{table}" for table in _TABLES)
#: What a claim waits at that is to stall between its snapshot and its rows.
_GATE = 4711

Rows = list[dict[str, Any]]
#: What a fault changes in a statement: name -> (text that is there, text in its place).
Fault = Mapping[str, tuple[str, str]]


class Call:
    """One step of the product: what it runs in one transaction, and which things it may have to wait for."""

    def __init__(
        self, run: Callable[[Line], Rows], touches: object, judge: Callable[[Rows], Outcome], *, waits: bool = True
    ) -> None:
        """`judge` is called when the statement has ended, and before its commit; `waits` says whether it ever may."""
        self.run, self.touches, self.judge, self.waits = run, touches, judge, waits


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a call will have done once it is committed."""

    locks: frozenset[object] = frozenset()
    commit: Callable[[], None] = lambda: None
    rollback: Callable[[], None] = lambda: None


@dataclass(eq=False)
class Line:
    """One connection, and the transaction that is under way on it."""

    connection: psycopg.Connection[dict[str, Any]]
    texts: Callable[[str], bytes]
    outcome: Outcome | None = None  #: of a statement that has ended, in a transaction that has not
    waiting: Future[Rows] | None = None
    call: Call | None = None
    holds: bool = False  #: the transaction stays open when the statement has ended

    @property
    def idle(self) -> bool:
        return self.outcome is None and self.waiting is None

    def rows(self, name: str, parameters: Mapping[str, Any], stall: bool = False) -> Rows:
        """Run one statement of the product."""
        text = self.texts(name)
        if stall:
            at = b"FROM unnest("
            assert at in text
            text = text.replace(at, b"FROM (SELECT pg_advisory_xact_lock_shared(4711)) AS gate, unnest(", 1)
        return self.connection.execute(text, parameters).fetchall()


@dataclass
class Store:
    """One database, and the lines to it."""

    dsn: str
    fault: Fault = field(default_factory=dict)

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            connect = psycopg.Connection[dict[str, Any]].connect
            self.lines = [
                Line(stack.enter_context(connect(self.dsn, row_factory=dict_row)), self.text) for _ in range(LINES)
            ]
            for line in self.lines:
                line.connection.execute("SET lock_timeout = '15s'")
                line.connection.commit()
            self.aside = stack.enter_context(connect(self.dsn, row_factory=dict_row, autocommit=True))
            self.aside.execute("SET lock_timeout = '15s'")
            self._threads = stack.enter_context(ThreadPoolExecutor(LINES))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        with self._stack:  # closed also where something cannot be undone
            self.clear()

    def text(self, name: str) -> bytes:
        """Return a statement as the product has it, but for the fault that was seeded."""
        text = statement(name)
        if name in self.fault:
            there, instead = (part.encode() for part in self.fault[name])
            assert there in text, f"{name} has no {there!r}: seed the fault elsewhere"
            text = text.replace(there, instead)
        return text

    def clear(self) -> None:
        """Undo what is under way, and empty the database."""
        self.aside.execute("SELECT pg_advisory_unlock_all()")
        for line in self.lines:
            if line.waiting is None:
                line.connection.rollback()
        for line in self.lines:
            if line.waiting is not None:
                line.connection.cancel_safe()
                line.waiting.exception(PATIENCE_S)
                line.connection.rollback()
            line.outcome = line.waiting = line.call = None
        self.aside.execute(_EMPTY)
        self.aside.execute("UPDATE tidings.shard SET owner = 0, until = '-infinity'")
        self.aside.execute("SELECT setval(pg_get_serial_sequence('tidings.job', 'id'), 1, false)")

    # The gate -------------------------------------------------------------------------------------------------

    def close_gate(self) -> None:
        self.aside.execute("SELECT pg_advisory_lock(%s)", [_GATE])

    def open_gate(self) -> None:
        self.aside.execute("SELECT pg_advisory_unlock(%s)", [_GATE])

    # Calls ----------------------------------------------------------------------------------------------------

    def holder(self, thing: object) -> Line | None:
        """Return the line whose open transaction holds a thing."""
        return next((line for line in self.lines if line.outcome and thing in line.outcome.locks), None)

    def waiter(self, thing: object) -> Line | None:
        """Return the line that waits for a thing."""
        return next((line for line in self.lines if line.waiting and line.call and line.call.touches == thing), None)

    def start(self, call: Call, *, hold: bool, stalls: bool = False) -> None:
        """Run a call on an idle line: to its end, or until it waits for what another holds."""
        line = next(line for line in self.lines if line.idle)
        line.call, line.holds = call, hold
        if not stalls and self.holder(call.touches) is None:
            self._ended(line, call.run(line))
            return
        line.waiting = self._threads.submit(call.run, line)
        if not self._waits(line, line.waiting):
            self.go_on(line, waited=False)
        else:
            assert call.waits or stalls, "a statement waited for another's lock"

    def _waits(self, line: Line, future: Future[Rows]) -> bool:
        """Say whether a statement waits, once it does or has ended."""
        deadline = time.monotonic() + PATIENCE_S
        while not future.done():
            if self.aside.execute(_WAITS, [line.connection.info.backend_pid]).fetchall():
                return True
            assert time.monotonic() < deadline, "a statement neither ended nor waited"
        return False

    def go_on(self, line: Line, *, waited: bool = True) -> None:
        """Wait for the end of a statement that nothing keeps waiting any more."""
        assert line.waiting is not None
        future, line.waiting = line.waiting, None
        self._ended(line, future.result(PATIENCE_S), waited=waited)

    def _ended(self, line: Line, rows: Rows, *, waited: bool = False) -> None:
        assert line.call is not None
        line.outcome = line.call.judge(rows)
        if waited and not line.outcome.locks:
            line.holds = False  # it may have locked the row that it did not change: PostgreSQL alone knows
        if not line.holds:
            self.end(line, commit=True)

    def end(self, line: Line, *, commit: bool) -> None:
        """End an open transaction, and let those go on who waited for it."""
        outcome, line.outcome = line.outcome, None
        assert outcome is not None
        if commit:
            line.connection.commit()
            outcome.commit()
        else:
            line.connection.rollback()
            outcome.rollback()
        for thing in outcome.locks:
            waiter = self.waiter(thing)
            if waiter is not None:
                self.go_on(waiter)
