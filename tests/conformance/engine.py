"""What a binding offers to the cases, and what the cases may ask of it."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Protocol

from delivery.jobs import JobFilter, JobId, JobKind, JobRow, JobState, Periodic, Runtime

from .line import Line
from .patience import eventually


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How quickly a runtime goes about its work, in seconds; what an engine has no word for it leaves out."""

    slots: int = 20  #: jobs at once
    lease: float = 20.0  #: how long a silent worker keeps a job; a machine may leave a process alone for seconds
    share_lease: float = 2.0  #: how long a silent worker keeps its share of the lanes, and the lead
    poll: float = 0.5  #: how often to look for work that nothing told of
    grace: float = 5.0
    connections: int = 10
    deadline: float = 25.0  #: how long a call may go unanswered by the store

    def text(self) -> str:
        """Write it down for another process."""
        return json.dumps({name: getattr(self, name) for name in self.__slots__})


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """How long what has ended is kept, in days; None = for good."""

    settled: float | None = 30.0  #: deliveries, and what of other kinds did not complete
    states: Mapping[JobState, float | None] = field(default_factory=dict)  #: where a state is kept for another time
    jobs: float | None = 1.0  #: completed jobs of other kinds than deliveries


STEADY = Pace()
#: Nothing is found by looking for it: only by being told.
TOLD = Pace(poll=60.0)
#: A worker that says nothing is dead within a second or so.
BRISK = Pace(lease=1.0, share_lease=1.0, poll=0.3)
#: Takes over from those as soon, and keeps what it runs though the machine leaves it alone for a while.
RESCUER = Pace(lease=8.0, share_lease=1.0, poll=0.3)


class Engine(Protocol):
    """One store, empty at first, on which any number of runtimes work."""

    #: what this engine cannot do -> why; a case says with `@pytest.mark.needs(word)` what it needs
    lacks: Mapping[str, str]

    async def runtime(
        self, *kinds: JobKind, periodics: tuple[Periodic, ...] = (), pace: Pace = STEADY, line: Line | None = None
    ) -> Runtime:
        """Return a runtime that does not work yet, as a producer has it; the engine ends it after the case."""

    async def running(
        self, *kinds: JobKind, periodics: tuple[Periodic, ...] = (), pace: Pace = STEADY, line: Line | None = None
    ) -> Runtime:
        """Return a runtime that was started."""

    async def line(self) -> Line:
        """Lay a line to the store that a runtime may be put on, and that can go silent."""

    def transaction(self, *, steady: bool = False) -> AbstractAsyncContextManager[Any]:
        """Open a caller's transaction: commits on leaving, rolls back on an exception.

        A `steady` one sees the store as it was when it first looked, which it has done.
        """

    async def process(self, *, pace: Pace = BRISK, periodics: bool = False) -> Process:
        """Start a worker in a process of its own (see `child.py` for the kinds it knows); ready when returned."""

    async def upkeep(self, *kinds: JobKind, keep: Keep, later: float) -> None:
        """Remove what is no longer kept and end what is too old of these kinds, as after so many days."""

    async def sever(self, *, ears_only: bool = False) -> None:
        """Cut the connections of every runtime to the store, or only those by which it is told of work."""

    async def babble(self) -> None:
        """Tell every runtime nonsense, by whatever they are told of work."""


class Process:
    """A worker process, which says on its standard output what happens in it."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.said: list[dict[str, Any]] = []
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            self.said.append(json.loads(line))

    def says(self, what: str, job_id: JobId | None = None) -> dict[str, Any] | None:
        """Return the first word of this kind, about this job where one is given."""
        for word in self.said:
            if word["what"] == what and job_id in (None, word.get("job")):
                return word
        return None

    async def said_that(self, what: str, job_id: JobId | None = None, within: float = 45.0) -> dict[str, Any]:
        """Wait for it to say something."""

        async def word() -> dict[str, Any] | None:
            if self.says(what, job_id) is None and self.has_ended:
                await self._reading  # its last words may not have been read yet
                assert self.says(what, job_id), f"ended with {self._process.returncode} before it said {what!r}"
            return self.says(what, job_id)

        found = await eventually(word, within)
        assert found is not None
        return found

    @property
    def has_ended(self) -> bool:
        """Say whether it is gone."""
        return self._process.returncode is not None

    def kill(self) -> None:
        """Kill it, as the kernel does: nothing in it gets a word in."""
        self._process.kill()

    def freeze(self) -> None:
        """Stop it in its tracks; its connections stay open."""
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on as if nothing had been."""
        self._process.send_signal(signal.SIGCONT)

    async def ended(self, within: float = 45.0) -> int:
        """Wait for its end, and for its last words; returns its exit code."""
        code = await asyncio.wait_for(self._process.wait(), within)
        await self._reading
        return code

    async def stop(self) -> None:
        """Ask it to stop in good order, and wait for that."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        await self.ended()

    async def end(self) -> None:
        """Make sure that it is gone."""
        with suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()
        await self._reading
        if self._process.stdin is not None:
            self._process.stdin.close()
            with suppress(OSError):
                await self._process.stdin.wait_closed()


def seconds(number: float) -> timedelta:
    """Say a duration."""
    return timedelta(seconds=number)


async def ended(runtime: Runtime, job_id: JobId, within: float = 30.0) -> JobRow:
    """Wait until a job is final, by looking; returns it."""

    async def final() -> JobRow | None:
        row = await runtime.get(job_id)
        return row if row.state.is_final else None

    row = await eventually(final, within)
    assert row is not None
    return row


async def all_ended(runtime: Runtime, kind: str, within: float = 45.0) -> list[JobRow]:
    """Wait until no job of a kind is live; returns them, oldest first."""

    async def rows() -> list[JobRow] | None:
        found = await runtime.list(JobFilter(kind=kind), limit=10_000)
        return list(found) if found and all(row.state.is_final for row in found) else None

    found = await eventually(rows, within)
    assert found is not None
    return found[::-1]
