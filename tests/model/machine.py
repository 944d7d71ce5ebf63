"""The protocol as a state machine: workers, people and time, each step on whichever connection is idle.

Time is moved by hand: a lease lapses when a rule says so. A transaction may stay open after its statement, so that
others meet what it holds; a claim may stall after its snapshot was taken. What a step must do is judged when its
statement ends, against what is committed by then.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from delivery.adapters.postgres.lanes import FLOOR
from delivery.adapters.postgres.settler import Result, _columns
from delivery.adapters.postgres.tries import Flight, refusal
from delivery.jobs import FINAL_STATES, Job as HandedJob, JobKind

from .invariants import INVARIANTS, Look, first_job
from .lines import Call, Line, Outcome, Rows, Store
from .state import FORCED, PLAIN, READ, Claim, Job, Seen, Shard, State, seen

HOUR, MARGIN = timedelta(hours=1), timedelta(minutes=1)
WORKERS = 3
QUEUES = ("first", "second")
ANY_FINAL = [state.value for state in FINAL_STATES]
LAPSE_JOB = "UPDATE tidings.job SET lease_until = now() - interval '1 second' WHERE id = %s"
SET_SHARD = "UPDATE tidings.shard SET until = now() + %s WHERE id = %s"
OUTCOMES: dict[str, dict[str, Any]] = {
    "completed": {"state": "completed", "outcome": "completed"},
    "failed": {"state": "retryable", "outcome": "failed", "charges": True},
    "failed for long": {"state": "retryable", "outcome": "failed", "charges": True, "delay_s": 3600.0},
    "snoozed": {"state": "retryable", "outcome": "snoozed"},
    "discarded": {"state": "discarded", "outcome": "discarded", "charges": True, "reason": "exhausted"},
    "cancelled": {"state": "cancelled", "outcome": "cancelled", "reason": "the handler"},
    "released": {"state": "pending"},
}


async def _never(_: HandedJob) -> None:
    raise AssertionError("no handler runs here")


KINDS = {name: JobKind(name=name, handler=_never) for name in ("plain", "brief")}

nth, holds, worker = st.integers(0, 9), st.booleans(), st.integers(1, WORKERS)
key = st.sampled_from([None, None, ("key", 1), ("identity", 1), ("identity", 2)])


class Protocol(RuleBasedStateMachine):
    """Everything that may happen to a job, in any order."""

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

    @initialize(first=worker, second=worker)
    def own(self, first: int, second: int) -> None:
        for who, queue in zip((first, second), (0, 1), strict=True):
            self._grab(who, queue, hold=False)

    @invariant()
    def holds(self) -> None:
        self.sound = False
        look = Look(self.look(), self.before, self.told, self.put_back)
        for rule_ in INVARIANTS:
            rule_(look)
        self.before, self.put_back, self.sound = look.now, set(), True

    def teardown(self) -> None:
        if self.sound:
            self._finish()
        self.store.clear()

    # Steps ------------------------------------------------------------------------------------------------------

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

    @precondition(has_idle)
    @rule(lane=st.integers(0, 1), kind=st.sampled_from(sorted(KINDS)), key=key, hold=holds)
    def enqueue(self, lane: int, kind: str, key: tuple[str, int] | None, hold: bool) -> None:
        if key is not None and not self.is_free(key):
            return
        name, keys = "enqueue_jobs", {}
        if key is not None and key[0] == "key":
            name, keys = "enqueue_by_key", {"digests": [bytes([key[1]])]}
        elif key is not None:
            name, keys = "enqueue_by_identity", {"firsts": [UUID(int=key[1])], "seconds": [UUID(int=0)]}
        columns = {"kinds": [kind], "lanes": [self.lanes[lane] * 8 + PLAIN], "args": [json.dumps({})]}
        columns |= {"priorities": [0], "run_ats": [None], "max_attempts": [9]}
        slot = self.lanes[lane] * 8 + PLAIN

        def run(line: Line) -> Rows:
            rows = [row | {"new": True} for row in line.rows(name, columns | keys)]
            return rows or [row | {"new": False} for row in line.rows(name.replace("enqueue", "find"), columns | keys)]

        def judge(rows: Rows) -> Outcome:
            [row] = rows
            stands = self.told.keys.get(key) if key is not None else None
            if stands is not None:
                assert (row["new"], row["id"]) == (False, stands), "a unique job was added twice, or lost its id"
                return Outcome()
            assert row["new"], "a job that does not stand was not added"

            def commit() -> None:
                self.told.jobs[row["id"]] = Job(id=row["id"], kind=kind, slot=slot)
                if key is not None:
                    self.told.keys[key] = row["id"]

            return Outcome(frozenset() if key is None else frozenset([key]), commit)

        self.start(Call(run, key, judge), hold)

    @precondition(has_idle)
    @rule(worker=worker, slots=st.integers(1, 3), hold=holds)
    def claim(self, worker: int, slots: int, hold: bool) -> None:
        self._claim(worker, slots, hold)

    @precondition(lambda self: self.is_free("gate"))
    @rule(worker=worker, hold=holds)
    def claim_and_stall(self, worker: int, hold: bool) -> None:
        """Take the snapshot of a claim now, and its rows later."""
        self.store.close_gate()
        self._claim(worker, 9, hold, stalls=True)
        if self.store.waiter("gate") is None:  # it owns no shard, and so did not come to its rows
            self.store.open_gate()

    @precondition(lambda self: self.store.waiter("gate") is not None)
    @rule()
    def go_on(self) -> None:
        self.sound = False
        self.store.open_gate()
        line = self.store.waiter("gate")
        assert line is not None
        self.store.go_on(line)

    def _claim(self, worker: int, slots: int, hold: bool, *, stalls: bool = False) -> None:
        self.tokens += 1
        token = self.tokens
        asks = [(lane * 8 + kind, shard) for lane, shard in zip(self.lanes, self.shards, strict=True) for kind in (0, 4)]
        parameters = {
            "lanes": [slot for slot, _ in asks],
            "shards": [shard for _, shard in asks],
            "slots": [slots] * len(asks),
            "floors": [FLOOR] * len(asks),
            "worker": worker,
            "margin": MARGIN,
            "lease": token,
            "lease_for": HOUR,
        }

        def judge(rows: Rows) -> Outcome:
            claimed = [self._judge_claimed(row, token) for row in rows]
            for slot, shard in asks:
                taken = sum(job.slot == slot for job in claimed)
                owned = self.told.shards[shard].owner == worker and self.told.shards[shard].lease == "fresh"
                due = [job for job in self.told.jobs.values() if job.slot == slot and job.is_free and job.due]
                free = [job for job in due if self.store.holder(("job", job.id)) is None]
                assert stalls or owned or not taken, "a claim from a shard that its worker does not own"
                assert stalls or taken == min(slots, len(free) * owned), "a claim left jobs that were free"

            def told() -> None:
                self.claims += [
                    Claim(row["id"], token, refusal(Flight(row, token, 0.0, 0.0), KINDS[row["kind"]])) for row in rows
                ]

            def commit() -> None:
                self.told.jobs |= {job.id: job for job in claimed}
                told()

            return Outcome(frozenset(("job", job.id) for job in claimed), commit, told)

        self.start(
            Call(lambda line: line.rows("claim_jobs", parameters, stall=stalls), "gate" if stalls else None, judge),
            hold,
            stalls=stalls,
        )

    def _judge_claimed(self, row: dict[str, Any], token: int) -> Job:
        job = self.told.jobs[row["id"]]
        assert job.is_free, f"job {job.id} was claimed, and another's claim stood"
        assert job.due, f"job {job.id} was claimed before it was due"
        assert self.store.holder(("job", job.id)) is None
        after = job.claimed(token)
        for name in ("attempt", "spent", "lost", "cancelled_by"):
            assert row[name] == getattr(after, name), f"the worker was told another {name}"
        return after

    @precondition(lambda self: self.claims and self.has_idle())
    @rule(nth=nth, what=st.sampled_from(sorted(OUTCOMES)), hold=holds)
    def settle(self, nth: int, what: str, hold: bool) -> None:
        claim = self.claims[-1 - nth % len(self.claims)]
        result = claim.refused or Result(id=claim.job_id, lease=claim.token, **OUTCOMES[what])
        if self.is_free(("job", claim.job_id)):
            self._settle(claim, result, hold)

    def _settle(self, claim: Claim, result: Result, hold: bool) -> None:
        def judge(rows: Rows) -> Outcome:
            counts = self.told.jobs[claim.job_id].token == claim.token
            assert counts or not rows, "a result counted whose claim no longer stands"
            assert rows or not counts, "a result was dropped whose claim stands"
            return self.change(claim.job_id, lambda job: job.settled(result)) if counts else Outcome()

        columns = _columns([result])
        self.start(Call(lambda line: line.rows("settle_jobs", columns), ("job", claim.job_id), judge), hold)

    @precondition(lambda self: self.claims and self.has_idle())
    @rule(nth=nth, hold=holds)
    def renew(self, nth: int, hold: bool) -> None:
        claim = self.claims[-1 - nth % len(self.claims)]
        if not self.is_free(("job", claim.job_id)):
            return

        def judge(rows: Rows) -> Outcome:
            job = self.told.jobs[claim.job_id]
            stands = job.token == claim.token
            assert [row["cancelled_by"] for row in rows] == [job.cancelled_by] * stands, "a lease was renewed wrongly"
            return self.change(job.id, lambda job: job.renewed()) if stands else Outcome()

        columns = {"ids": [claim.job_id], "leases": [claim.token], "lease_for": HOUR}
        self.start(Call(lambda line: line.rows("renew_leases", columns), ("job", claim.job_id), judge), hold)

    @rule(nth=nth)
    def lapse(self, nth: int) -> None:
        """The worker that runs a job is silent for longer than its lease."""
        running = {job.id: job for job in self.told.jobs.values() if job.token is not None}
        job = first_job(running, nth)
        if job is not None and self.store.holder(("job", job.id)) is None:
            self.store.aside.execute(LAPSE_JOB, [job.id])
            self.told.jobs[job.id] = job.silent()

    @precondition(lambda self: self.told.jobs and self.has_idle())
    @rule(nth=nth, by=st.sampled_from(["ann", "bob"]), hold=holds)
    def cancel(self, nth: int, by: str, hold: bool) -> None:
        found = first_job(self.told.jobs, nth)
        if found is None or not self.is_free(("job", found.id)):
            return
        parameters = {"ids": [found.id], "reason": by}

        def run(line: Line) -> Rows:
            line.rows("lock_jobs", parameters)
            return line.rows("cancel_running", parameters) + line.rows("cancel_waiting", parameters)

        def judge(rows: Rows) -> Outcome:
            job = self.told.jobs[found.id]
            assert [row["id"] for row in rows] == [job.id] * (not job.is_final), "a cancel did not reach a live job"
            return Outcome() if job.is_final else self.change(job.id, lambda job: job.cancelled(by))

        self.start(Call(run, ("job", found.id), judge), hold)

    @precondition(lambda self: self.told.jobs and self.has_idle())
    @rule(nth=nth, states=st.sampled_from([ANY_FINAL, ["discarded"]]), hold=holds)
    def retry(self, nth: int, states: list[str], hold: bool) -> None:
        """A person retries one job, or replays what was discarded."""
        found = first_job(self.told.jobs, nth)
        if found is None or not self.is_free(("job", found.id)):
            return
        one, was_final = states == ANY_FINAL, found.is_final or states != ANY_FINAL

        def run(line: Line) -> Rows:
            if was_final:
                return line.rows("retry_finished", {"ids": [found.id], "states": states, "forced": one})
            return line.rows("retry_live", {"id": found.id})

        def judge(rows: Rows) -> Outcome:
            job = self.told.jobs[found.id]
            can = job.state in states if was_final else not job.is_final and job.state != "running"
            assert len(rows) == can, f"a job that was {job.state} was put back, or not"
            if not can:
                return Outcome()
            outcome = self.change(job.id, lambda job: job.put_back(forced=one) if was_final else job.made_due())

            def commit() -> None:
                outcome.commit()
                self.put_back.add(job.id)

            return Outcome(outcome.locks, commit)

        self.start(Call(run, ("job", found.id), judge), hold)

    @precondition(has_idle)
    @rule(hold=holds)
    def expire(self, hold: bool) -> None:
        """Discard what is too old and does not run, of one kind."""
        parameters = {"after_id": 0, "limit": 100, "kinds": ["brief"], "until": ["infinity"], "lease_for": HOUR}

        def judge(rows: Rows) -> Outcome:
            old = [job for job in self.told.jobs.values() if job.kind == "brief" and job.is_free]
            gone = [job.expired() for job in old if self.store.holder(("job", job.id)) is None]
            assert [row["gone"] for row in rows] == [len(gone)], "a job expired that was not free, or stayed"
            return Outcome(
                frozenset(("job", job.id) for job in gone),
                lambda: self.told.jobs.update({job.id: job for job in gone}),
            )

        self.start(Call(lambda line: line.rows("expire_jobs", parameters), None, judge), hold)

    # Shards -----------------------------------------------------------------------------------------------------

    @precondition(has_idle)
    @rule(worker=worker, queue=st.integers(0, 1), hold=holds)
    def grab(self, worker: int, queue: int, hold: bool) -> None:
        self._grab(worker, queue, hold)

    def _grab(self, worker: int, queue: int, hold: bool) -> None:
        shard = self.shards[queue]
        parameters = {"worker": worker, "lease_for": HOUR, "queues": [QUEUES[queue]], "want": 64}

        def judge(rows: Rows) -> Outcome:
            free = self.told.shards[shard].lease == "lapsed" and self.store.holder(("shard", shard)) is None
            assert [row["id"] for row in rows] == [shard] * free, "a shard was taken that was not free, or not taken"
            return self._own(shard, worker) if free else Outcome()

        self.start(Call(lambda line: line.rows("grab_shards", parameters), None, judge), hold)

    def _own(self, shard: int, worker: int, lease: str = "fresh") -> Outcome:
        return Outcome(
            frozenset([("shard", shard)]), lambda: self.told.shards.update({shard: Shard(worker, lease)})
        )

    @precondition(has_idle)
    @rule(worker=worker, queue=st.integers(0, 1), gives_back=st.booleans(), hold=holds)
    def keep(self, worker: int, queue: int, gives_back: bool, hold: bool) -> None:
        """Renew the lease of a shard, or give it back."""
        shard = self.shards[queue]
        if not self.is_free(("shard", shard)):
            return
        parameters = {"worker": worker, "shards": [shard], "lease_for": HOUR}

        def run(line: Line) -> Rows:
            if not gives_back:
                return line.rows("renew_shards", parameters)
            return [{"count": line.connection.execute(line.texts("release_shards"), parameters).rowcount}]

        def judge(rows: Rows) -> Outcome:
            told = self.told.shards[shard]
            if gives_back:
                return self._own(shard, worker, "lapsed") if told.owner == worker else Outcome()
            can = told.owner == worker and told.lease != "lapsed"
            assert len(rows) == can, "a shard was renewed by another, or after its lease"
            return self._own(shard, worker) if can else Outcome()

        self.start(Call(run, ("shard", shard), judge), hold)

    @rule(queue=st.integers(0, 1), lease=st.sampled_from(["waning", "lapsed"]))
    def age(self, queue: int, lease: str) -> None:
        """The owner of a shard is silent for almost as long as its lease, or for longer."""
        shard = self.shards[queue]
        if self.told.shards[shard].lease != "lapsed" and self.store.holder(("shard", shard)) is None:
            left = MARGIN / 2 if lease == "waning" else -MARGIN
            self.store.aside.execute(SET_SHARD, [left, shard])
            self.told.shards[shard] = Shard(self.told.shards[shard].owner, lease)
