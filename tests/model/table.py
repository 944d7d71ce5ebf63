"""The table that the protocol is played at: what is committed, what is seen, and how a step is taken."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from .invariants import INVARIANTS, Look
from .lines import Call, Outcome, Store
from .state import READ, Claim, Job, Seen, Shard, State, seen

HOUR, MARGIN = timedelta(hours=1), timedelta(minutes=1)


class Table:
    """The state, and the invariants after each step."""

    def __init__(self, store: Store, shards: tuple[int, int], lanes: tuple[int, int]) -> None:
        store.clear()
        self.store, self.shards, self.lanes = store, shards, lanes
        self.told = State(shards={shard: Shard() for shard in shards})
        self.claims: list[Claim] = []
        self.tokens = 0
        self.put_back: set[int] = set()
        self.before = self.look()
        self.sound = False  #: nothing has failed so far

    def look(self) -> Seen:
        [row] = self.store.aside.execute(READ, {"margin": MARGIN, "shards": list(self.shards)}).fetchall()
        return seen(row)

    def holds(self) -> None:
        self.sound = False
        look = Look(self.look(), self.before, self.told, self.put_back)
        for rule_ in INVARIANTS:
            rule_(look)
        self.before, self.put_back, self.sound = look.now, set(), True

    def start(self, call: Call, *, hold: bool, stalls: bool = False) -> None:
        """Run a call, where a line is idle; one waits for a thing at most, so that their order is certain."""
        self.sound = False
        thing = call.touches
        if any(line.idle for line in self.store.lines) and (thing is None or self.store.waiter(thing) is None):
            self.store.start(call, hold=hold, stalls=stalls)

    def change(self, job_id: int, changed: Callable[[Job], Job]) -> Outcome:
        """Say what a statement does to one job, as it is now, once it is committed."""
        job = changed(self.told.jobs[job_id])

        def commit() -> None:
            self.told.jobs[job_id] = job

        return Outcome(frozenset([("job", job_id)]), commit)

    def end(self, nth: int, *, commit: bool) -> None:
        """Commit what is under way; or cut its connection."""
        held = [line for line in self.store.lines if line.outcome]
        self.sound = False
        if held:
            self.store.end(held[nth % len(held)], commit=commit)
