"""The protocol as a state machine: workers, people and time, each step on whichever connection is idle.

Time is moved by hand: a lease lapses when a step says so. A transaction may stay open after its statement, so that
others meet what it holds; a claim may stall after its snapshot was taken. What a step must do is judged when its
statement ends, against what is committed by then.
"""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from .jobs import ANY_FINAL, OUTCOMES, Jobs
from .lines import Store
from .state import Claim, Job

nth, worker = st.integers(0, 5), st.integers(1, 3)
key = st.sampled_from([None, ("key", 1), ("identity", 1), ("identity", 2)])
#: What may be done to one job, besides all results of its newest claim.
ON_JOBS = (
    *("claim", "claim", "lapse", "lapse", "renew", "expire"),
    *("cancel by ann", "cancel by bob", "retry", "retry", "replay", "replay"),
    *OUTCOMES,
)
#: What may be done besides.
ELSEWHERE = ("enqueue", "enqueue", "late", "stall", "stall", "go on", "commit", "commit", "commit", "cut", "grab")
SHARDS = ("grab", "keep", "give back", "wane", "age")


class Protocol(RuleBasedStateMachine):
    """Everything that may happen to a few jobs, in any order."""

    def __init__(self, store: Store, shards: tuple[int, int], lanes: tuple[int, int]) -> None:
        super().__init__()
        self.table = Jobs(store, shards, lanes)

    @initialize(first=worker, second=worker, one=key, other=key)
    def begin(self, first: int, second: int, one: tuple[str, int] | None, other: tuple[str, int] | None) -> None:
        for queue, who, unique in ((0, first, one), (1, second, other)):
            self.table.grab(who, queue, hold=False)
            self.table.enqueue(queue, "plain", unique, hold=False)

    @invariant()
    def holds(self) -> None:
        self.table.holds()

    @rule(act=st.sampled_from(ON_JOBS), nth=nth, hold=st.booleans())
    def step(self, act: str, nth: int, hold: bool) -> None:
        job = self.choose(nth)
        if job is not None:
            self.act(act, job, hold=hold)

    @rule(nth=nth, one=st.sampled_from(ON_JOBS), other=st.sampled_from(ON_JOBS), commit=st.booleans())
    def meet(self, nth: int, one: str, other: str, commit: bool) -> None:
        """Let one act on a job, most often one that runs, while another's transaction on it is not committed yet."""
        if nth:
            self.step("claim", nth, False)
        job, store = self.choose(nth), self.table.store
        if job is None or store.holder(("job", job.id)) or sum(line.idle for line in store.lines) < 2:
            return
        self.act(one, job, hold=True)
        line = store.holder(("job", job.id))
        self.act(other, self.table.told.jobs[job.id], hold=False)
        if line is not None:
            store.end(line, commit=commit)

    @rule(nth=nth, meanwhile=st.lists(st.sampled_from(ON_JOBS), min_size=1, max_size=3))
    def overtake(self, nth: int, meanwhile: list[str]) -> None:
        """Let things happen to a job between the snapshot of a claim and its rows."""
        job = self.choose(nth)
        if job is not None:
            self.table.claim_and_stall(self.table.owner(job), hold=False)
            for act in meanwhile:
                self.act(act, self.table.told.jobs[job.id], hold=False)
            self.table.go_on()

    @rule(nth=nth, what=st.sampled_from(sorted(OUTCOMES)))
    def answer_late(self, nth: int, what: str) -> None:
        """A worker answers, though its claim may have lapsed, or been answered, long ago."""
        if self.table.claims:
            self.table.answer(self.table.claims[-1 - nth % len(self.table.claims)], what, hold=False)

    @rule(act=st.sampled_from(ELSEWHERE), nth=nth, key=key, worker=worker, hold=st.booleans())
    def elsewhere(self, act: str, nth: int, key: tuple[str, int] | None, worker: int, hold: bool) -> None:
        match act:
            case "enqueue":
                self.table.enqueue(nth % 2, ("plain", "brief")[nth // 3], key, hold=hold)
            case "stall":
                self.table.claim_and_stall(worker, hold=hold)
            case "go on":
                self.table.go_on()
            case _:
                self.table.end(nth, commit=act == "commit")

    @rule(act=st.sampled_from(SHARDS), queue=st.integers(0, 1), worker=worker, hold=st.booleans())
    def own(self, act: str, queue: int, worker: int, hold: bool) -> None:
        match act:
            case "grab":
                self.table.grab(worker, queue, hold=hold)
            case "keep" | "give back":
                self.table.keep(worker, queue, gives_back=act == "give back", hold=hold)
            case _:
                self.table.age(queue, "waning" if act == "wane" else "lapsed")

    def choose(self, nth: int) -> Job | None:
        """Choose a job by number, whatever the number."""
        jobs = self.table.told.jobs
        return jobs[sorted(jobs)[nth % len(jobs)]] if jobs else None

    def act(self, act: str, job: Job, *, hold: bool) -> None:
        table = self.table
        match act:
            case "claim":
                table.claim(table.owner(job), 9, hold=hold)
            case "lapse":
                table.lapse(job)
            case "cancel by ann" | "cancel by bob":
                table.cancel(job, act.removeprefix("cancel by "), hold=hold)
            case "retry" | "replay":
                table.retry(job, ANY_FINAL if act == "retry" else ["discarded"], hold=hold)
            case "expire":
                table.expire(hold=hold)
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
