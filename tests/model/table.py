"""The table that the protocol is played at: what is committed, what is seen, and how a step is taken."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant

from .invariants import INVARIANTS, Look
from .lines import Call, Outcome, Store
from .state import READ, Claim, Job, Seen, Shard, State, seen

HOUR, MARGIN = timedelta(hours=1), timedelta(minutes=1)

nth, holds, worker = st.integers(0, 9), st.booleans(), st.integers(1, 3)


class Table(RuleBasedStateMachine):
    """No rules yet: the state, and the invariants after each step."""

    def __init__(self, store: Store, shards: tuple[int, int], lanes: tuple[int, int]) -> None:
        super().__init__()
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

    @invariant()
    def holds(self) -> None:
        self.sound = False
        look = Look(self.look(), self.before, self.told, self.put_back)
        for rule_ in INVARIANTS:
            rule_(look)
        self.before, self.put_back, self.sound = look.now, set(), True

    def has_idle(self) -> bool:
        return any(line.idle for line in self.store.lines)

    def is_free(self, thing: object) -> bool:
        """Say whether a call may touch a thing: one waits at most, so that their order is certain."""
        return self.has_idle() and self.store.waiter(thing) is None

    def start(self, call: Call, hold: bool, **more: bool) -> None:
        self.sound = False
        self.store.start(call, hold=hold, **more)

    def change(self, job_id: int, changed: Callable[[Job], Job]) -> Outcome:
        """Say what a statement does to one job, as it is now, once it is committed."""
        job = changed(self.told.jobs[job_id])

        def commit() -> None:
            self.told.jobs[job_id] = job

        return Outcome(frozenset([("job", job_id)]), commit)

    def choose(self, nth: int, *, running: bool = False) -> Job | None:
        """Choose a job by number, whatever the number."""
        jobs = [job for _, job in sorted(self.told.jobs.items()) if job.token is not None or not running]
        return jobs[nth % len(jobs)] if jobs else None
