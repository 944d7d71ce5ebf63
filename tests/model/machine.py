"""The protocol as a state machine: workers, people and time, each step on whichever connection is idle.

Time is moved by hand: a lease lapses when a step says so. A transaction may stay open after its statement, so that
others meet what it holds; a claim may stall after its snapshot was taken. What a step must do is judged when its
statement ends, against what is committed by then.
"""

from __future__ import annotations

from random import Random

from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from .jobs import ANY_FINAL, KINDS, OUTCOMES, Jobs
from .lines import Store
from .state import Claim, Job

#: What may be done to one job, by people, by time, and by the worker that claimed it last.
ON_JOBS = (
    *(
        "claim",
        "lapse",
        "renew",
        "expire",
        "cancel by ann",
        "cancel by bob",
        "retry",
        "replay",
        "answer late",
        "renew late",
    ),
    *OUTCOMES,
)
#: What is likely to be done to a job that waits, runs, is to stop, is left by its worker, is held by
#: another transaction, or has ended.
TO_WAITING = (*ON_JOBS, *["claim"] * 20)
TO_RUNNING = (*ON_JOBS, *ON_JOBS, *["lapse"] * 6, *["cancel by ann", "cancel by bob", "failed", "released"] * 2)
TO_STOPPING = (*ON_JOBS, *["lapse"] * 16)
TO_LEFT = (*ON_JOBS, *["claim", "renew", "expire", "cancel by ann", "cancel by bob"] * 4)
TO_HELD = (*ON_JOBS, *["cancel by ann", "cancel by bob", "failed"] * 3)
TO_ENDED = (*ON_JOBS, *["retry"] * 20, *["replay"] * 5)
#: What may be done besides.
BESIDES = (
    *("enqueue", "enqueue", "stall", "go on", "commit", "commit", "commit", "commit", "cut"),
    *("grab", "grab", "keep", "keep", "give back", "wane", "age", "age"),
)
KEYS = (None, ("key", 1), ("identity", 1), ("identity", 2))

nth, worker, key = st.integers(0, 5), st.integers(1, 3), st.sampled_from(KEYS)


class Protocol(RuleBasedStateMachine):
    """Everything that may happen to a few jobs, in any order."""

    def __init__(self, store: Store, shards: tuple[int, int], lanes: tuple[int, int]) -> None:
        super().__init__()
        self.table = Jobs(store, shards, lanes)
        self.steps = 0

    @initialize(first=worker, second=worker, one=key, other=key)
    def begin(self, first: int, second: int, one: tuple[str, int] | None, other: tuple[str, int] | None) -> None:
        for queue, kind, who, unique in ((0, "plain", first, one), (1, "brief", second, other)):
            self.table.grab(who, queue, hold=False)
            self.table.enqueue(queue, kind, unique, hold=False)

    @invariant()
    def holds(self) -> None:
        self.table.holds()

    @rule(act=st.sampled_from(ON_JOBS), nth=nth, hold=st.booleans())
    def step(self, act: str, nth: int, hold: bool) -> None:
        job = self.choose(nth)
        if job is not None:
            self.act(act, job, hold=hold)

    @rule(seed=st.integers(0, 2**32))
    def flurry(self, seed: int) -> None:
        """Many steps at once, most of them on one job: hypothesis alone comes to long stories too seldom."""
        dice = self.dice(seed)
        nth = dice.randrange(6)
        for _ in range(20):
            self.make_room(dice)
            hold, job = dice.random() < 0.2, self.choose(nth)
            if job is None or dice.random() < 0.3:
                self.besides(dice.choice(BESIDES), dice.randrange(6), dice.choice(KEYS), dice.randint(1, 3), hold=hold)
            else:
                self.act(self.likely(job, dice), job, hold=hold)
            self.holds()

    @rule(nth=nth, before=st.sampled_from(ON_JOBS), seed=st.integers(0, 2**32))
    def meet(self, nth: int, before: str, seed: int) -> None:
        """Let one act on a job while another's transaction, which has changed it, is not committed yet."""
        store, dice = self.table.store, self.dice(seed)
        self.make_room(dice, most=0)
        job = self.choose(nth)
        if job is None or store.holder(("job", job.id)) or sum(line.idle for line in store.lines) < 2:
            return
        self.act(before, job, hold=False)
        self.holds()
        self.act(self.likely(job, dice), self.job(job), hold=True)
        line = store.holder(("job", job.id))
        self.act(other := dice.choice(TO_HELD), self.job(job), hold=False)
        note(f"  {other} {job.id}")
        if line is not None:
            store.end(line, commit=dice.random() < 0.8)

    @rule(nth=nth, before=st.sampled_from(ON_JOBS), seed=st.integers(0, 2**32))
    def overtake(self, nth: int, before: str, seed: int) -> None:
        """Let things happen to a job between the snapshot of a claim and its rows."""
        dice = self.dice(seed)
        self.make_room(dice, most=0)
        job = self.choose(nth)
        if job is None:
            return
        self.act(before, job, hold=False)
        self.holds()
        self.table.claim_and_stall(self.table.owner(self.table.queue(job)), hold=False)
        for _ in range(dice.randint(1, 3)):
            self.act(self.likely(job, dice), self.job(job), hold=False)
            self.holds()
        self.table.go_on()

    @rule(act=st.sampled_from(BESIDES), nth=nth, key=key, worker=worker, hold=st.booleans())
    def besides(self, act: str, nth: int, key: tuple[str, int] | None, worker: int, hold: bool) -> None:
        table = self.table
        match act:
            case "enqueue":
                table.enqueue(nth % 2, sorted(KINDS)[nth // 3], key, hold=hold)
            case "stall":
                table.claim_and_stall(worker, hold=hold)
            case "go on":
                table.go_on()
            case "commit" | "cut":
                table.end(nth, commit=act == "commit")
            case "grab":
                table.grab(worker, nth % 2, hold=hold)
            case "keep" | "give back":
                table.keep(
                    worker if nth > 2 else table.owner(nth % 2), nth % 2, gives_back=act == "give back", hold=hold
                )
            case _:
                table.age(nth % 2, "waning" if act == "wane" else "lapsed")

    def likely(self, job: Job, dice: Random) -> str:
        """Choose what to do to a job."""
        job = self.job(job)
        running = TO_LEFT if job.lapsed else TO_STOPPING if job.cancelled_by else TO_RUNNING
        live = TO_WAITING if job.token is None else running
        act = dice.choice(TO_ENDED if job.is_final else live)
        note(f"  {act} {job.id}")
        return act

    def dice(self, seed: int) -> Random:
        """Return dice that fall otherwise at each step of one game."""
        self.steps += 1
        return Random(f"{seed} {self.steps}")

    def make_room(self, dice: Random, most: int = 1) -> None:
        """End transactions, so that no more than so many are open, and others have something to do."""
        while (held := sum(line.outcome is not None for line in self.table.store.lines)) > most:
            self.table.end(dice.randrange(held), commit=dice.random() < 0.8)
            self.holds()

    def choose(self, nth: int) -> Job | None:
        """Choose a job by number, whatever the number."""
        jobs = self.table.told.jobs
        return jobs[sorted(jobs)[nth % len(jobs)]] if jobs else None

    def job(self, job: Job) -> Job:
        """Return a job as it is by now."""
        return self.table.told.jobs[job.id]

    def act(self, act: str, job: Job, *, hold: bool) -> None:
        table = self.table
        match act:
            case "claim":
                queue = table.queue(job)
                table.grab(1 + job.attempt % 3, queue, hold=False)  # where nobody owns it
                table.claim(table.owner(queue), 1 + job.attempt % 3, hold=hold)
            case "lapse":
                table.lapse(job)
            case "cancel by ann" | "cancel by bob":
                table.cancel(job, act.removeprefix("cancel by "), hold=hold)
            case "retry" | "replay":
                table.retry(job, ANY_FINAL if act == "retry" else ["discarded"], hold=hold)
            case "expire":
                table.expire(hold=hold)
            case "answer late" | "renew late":
                late = table.newest(job, behind=1 + job.attempt % 2)
                self._as_holder("renew" if act == "renew late" else "failed", late, hold=hold)
            case _:
                self._as_holder(act, table.newest(job), hold=hold)

    def _as_holder(self, act: str, claim: Claim | None, *, hold: bool) -> None:
        if claim is not None and act == "renew":
            self.table.renew(claim, hold=hold)
        elif claim is not None:
            self.table.answer(claim, act, hold=hold)

    def teardown(self) -> None:
        if self.table.sound:
            self.table.finish()
        self.table.store.clear()
