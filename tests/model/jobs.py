"""Steps that concern jobs: what each is, and what it must do to what is committed."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

from delivery.adapters.postgres.lanes import FLOOR
from delivery.adapters.postgres.settler import Result, _columns
from delivery.adapters.postgres.tries import Flight, refusal
from delivery.jobs import FINAL_STATES, JobKind
from delivery.jobs import Job as HandedJob

from .lines import Call, Line, Outcome, Rows
from .owners import Owners
from .state import PLAIN, Claim, Job
from .table import HOUR, MARGIN

ANY_FINAL = [state.value for state in FINAL_STATES]
LAPSE_JOB = "UPDATE tidings.job SET lease_until = now() - interval '1 second' WHERE id = %s"
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


class Jobs(Owners):
    """Jobs that are enqueued, claimed, settled, and stepped in on."""

    def enqueue(self, lane: int, kind: str, key: tuple[str, int] | None, *, hold: bool) -> None:
        if key is not None:
            kind = ("brief", "plain")[key[1] - 1]  # of which the identity is, too
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

        self.start(Call(run, key, judge), hold=hold)

    def claim(self, worker: int, slots: int, *, hold: bool, stalls: bool = False) -> None:
        self.tokens += 1
        token = self.tokens
        asks = [
            (lane * 8 + kind, shard) for lane, shard in zip(self.lanes, self.shards, strict=True) for kind in (0, 4)
        ]
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
                    Claim(row["id"], token, refusal(Flight(row, row["lane"] >> 3, token, 0.0, 0.0), KINDS[row["kind"]]))
                    for row in rows
                ]

            def commit() -> None:
                self.told.jobs |= {job.id: job for job in claimed}
                told()

            gate = ["gate"] if stalls else []  # held until the transaction ends
            return Outcome(frozenset([*(("job", job.id) for job in claimed), *gate]), commit, told)

        self.start(
            Call(lambda line: line.rows("claim_jobs", parameters, stall=stalls), "gate" if stalls else None, judge),
            hold=hold,
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

    def lapse(self, job: Job) -> None:
        """The worker that runs a job is silent for longer than its lease."""
        job = self.told.jobs[job.id]
        if job.token is not None and self.store.holder(("job", job.id)) is None:
            self.store.aside.execute(LAPSE_JOB, [job.id])
            self.told.jobs[job.id] = job.silent()

    def answer(self, claim: Claim, what: str, *, hold: bool) -> None:
        """Settle a claim, as its worker would: what it must refuse to run, it has not run."""
        said = claim.refused or Result(id=claim.job_id, lease=claim.token, **OUTCOMES[what])
        self.settle(claim, said, hold=hold)

    def settle(self, claim: Claim, result: Result, *, hold: bool) -> None:
        def judge(rows: Rows) -> Outcome:
            counts = self.told.jobs[claim.job_id].token == claim.token
            if counts and self.store.holder(("job", claim.job_id)) is not None:
                assert [row["held"] for row in rows] == [claim.token], "a result whose job another holds was dropped"
                return Outcome()  # the worker keeps it, and offers it again
            assert all(row["held"] is None for row in rows), "a result was put off that nobody kept waiting"
            assert counts or not rows, "a result counted whose claim no longer stands"
            assert rows or not counts, "a result was dropped whose claim stands"
            return self.change(claim.job_id, lambda job: job.settled(result)) if counts else Outcome()

        columns = _columns([result])
        call = Call(lambda line: line.rows("settle_jobs", columns), ("job", claim.job_id), judge, waits=False)
        self.start(call, hold=hold)

    def renew(self, claim: Claim, *, hold: bool) -> None:
        def judge(rows: Rows) -> Outcome:
            job = self.told.jobs[claim.job_id]
            stands = job.token == claim.token and not job.lapsed
            assert [row["cancelled_by"] for row in rows] == [job.cancelled_by] * stands, "a lease was renewed wrongly"
            if stands and self.store.holder(("job", job.id)) is not None:
                assert not rows[0]["renewed"], "a lease was renewed of a job that another holds"
                return Outcome()
            assert all(row["renewed"] for row in rows), "a lease was not renewed that nobody kept from it"
            return self.change(job.id, lambda job: job.renewed()) if stands else Outcome()

        columns = {"ids": [claim.job_id], "leases": [claim.token], "lease_for": HOUR}
        call = Call(lambda line: line.rows("renew_leases", columns), ("job", claim.job_id), judge, waits=False)
        self.start(call, hold=hold)

    def cancel(self, found: Job, by: str, *, hold: bool) -> None:
        parameters = {"ids": [found.id], "reason": by}

        def run(line: Line) -> Rows:
            line.rows("lock_jobs", parameters)
            return line.rows("cancel_running", parameters) + line.rows("cancel_waiting", parameters)

        def judge(rows: Rows) -> Outcome:
            job = self.told.jobs[found.id]
            assert [row["id"] for row in rows] == [job.id] * (not job.is_final), "a cancel did not reach a live job"
            return Outcome() if job.is_final else self.change(job.id, lambda job: job.cancelled(by))

        self.start(Call(run, ("job", found.id), judge), hold=hold)

    def retry(self, found: Job, states: list[str], *, hold: bool) -> None:
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

        self.start(Call(run, ("job", found.id), judge), hold=hold)

    def expire(self, *, hold: bool) -> None:
        """Discard what is too old and does not run, of one kind."""
        parameters = {"after_id": 0, "limit": 100, "kinds": ["brief"], "until": ["infinity"], "lease_for": HOUR}
        parameters |= {"others_until": None, "lanes": [], "lanes_until": []}

        def judge(rows: Rows) -> Outcome:
            old = [job for job in self.told.jobs.values() if job.kind == "brief" and job.is_free]
            gone = [job.expired() for job in old if self.store.holder(("job", job.id)) is None]
            assert [row["gone"] for row in rows] == [len(gone)], "a job expired that was not free, or stayed"
            return Outcome(
                frozenset(("job", job.id) for job in gone),
                lambda: self.told.jobs.update({job.id: job for job in gone}),
            )

        self.start(Call(lambda line: line.rows("expire_jobs", parameters), None, judge), hold=hold)

    def claim_and_stall(self, worker: int, *, hold: bool) -> None:
        """Take the snapshot of a claim now, and its rows later."""
        if self.store.waiter("gate") or self.store.holder("gate") or not any(line.idle for line in self.store.lines):
            return
        self.store.close_gate()
        self.claim(worker, 9, hold=hold, stalls=True)
        if self.store.waiter("gate") is None:  # it owns no shard, and so did not come to its rows
            self.store.open_gate()

    def go_on(self) -> None:
        """Let the claim that stalls take its rows."""
        line = self.store.waiter("gate")
        if line is not None:
            self.sound = False
            self.store.open_gate()
            self.store.go_on(line)

    def queue(self, job: Job) -> int:
        """Return the number of the queue that a job is in."""
        return self.lanes.index(job.slot >> 3)

    def owner(self, queue: int) -> int:
        """Return the worker whose turn a queue is, or was last."""
        return self.told.shards[self.shards[queue]].owner

    def newest(self, job: Job, *, behind: int = 0) -> Claim | None:
        """Return the last claim on a job that its worker heard of, or one so many before it."""
        claims = [claim for claim in self.claims if claim.job_id == job.id]
        return claims[-1 - behind] if len(claims) > behind else None

    def finish(self) -> None:
        """Let every worker die, and one that is new end every job: nothing is stuck."""
        self.go_on()
        while any(line.outcome for line in self.store.lines):
            self.end(0, commit=True)
        for queue in (0, 1):
            self.age(queue, "lapsed")
            self.holds()
            self.grab(9, queue, hold=False)
        for _ in range(3):
            for job in [job for job in self.told.jobs.values() if not job.is_final]:
                self.lapse(job)
                if not job.due:
                    self.retry(job, ANY_FINAL, hold=False)
            known = len(self.claims)
            self.claim(9, 99, hold=False)
            for claim in self.claims[known:]:
                self.answer(claim, "completed", hold=False)
        self.holds()
        left = [job for job in self.told.jobs.values() if not job.is_final]
        assert not left, f"{left} can never end"
