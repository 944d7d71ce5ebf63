"""What the protocol is about, as tiny as it goes: jobs, claims and shards, and how each step changes them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from delivery.adapters.postgres.settler import Result

#: A lane's class for a person's retry, and the one of priority 0.
FORCED, PLAIN = 0, 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One job, as the tables have it."""

    id: int
    kind: str
    slot: int  #: lane * 8 + class
    state: str = "pending"
    token: int | None = None
    lapsed: bool = False  #: its lease has run out
    attempt: int = 0
    spent: int = 0
    lost: int = 0
    due: bool = True
    cancelled_by: str | None = None
    reason: str | None = None
    tries: tuple[tuple[int, str], ...] = ()

    @property
    def is_final(self) -> bool:
        return self.state in ("completed", "discarded", "cancelled")

    @property
    def is_free(self) -> bool:
        """Say whether no claim stands on it."""
        return not self.is_final and (self.token is None or self.lapsed)

    def claimed(self, token: int) -> Job:
        rescued = self.state == "running"
        return replace(
            self,
            state="running",
            token=token,
            lapsed=False,
            attempt=self.attempt + 1,
            lost=self.lost + rescued,
            tries=(*self.tries, (self.attempt, "lost")) if rescued else self.tries,
        )

    def settled(self, result: Result) -> Job:
        tried = result.outcome is not None
        job = replace(
            self,
            token=None,
            lapsed=False,
            attempt=self.attempt if tried else self.attempt - 1,
            spent=self.spent + result.charges,
            lost=0 if tried else self.lost,
            tries=(*self.tries, (self.attempt, str(result.outcome))) if tried else self.tries,
        )
        again = result.state in ("retryable", "pending")
        if again and self.cancelled_by is not None:
            return job.ended("cancelled", self.cancelled_by)
        if not again:
            return job.ended(result.state, result.reason)
        if result.state == "pending":
            return replace(job, state="pending" if self.attempt == 1 else "retryable")
        return replace(job, state="retryable", due=result.delay_s == 0, slot=self.slot & ~7 | PLAIN)

    def silent(self) -> Job:
        return replace(self, lapsed=True)

    def renewed(self) -> Job:
        return replace(self, lapsed=False)

    def cancelled(self, by: str) -> Job:
        """End it where it waits; where it runs, keep who asked first."""
        if self.state == "running" and not self.lapsed:
            return replace(self, cancelled_by=self.cancelled_by or by)
        return self.given_up().ended("cancelled", self.cancelled_by or by)

    def expired(self) -> Job:
        state = "discarded" if self.cancelled_by is None else "cancelled"
        return self.given_up().ended(state, self.cancelled_by or "expired")

    def given_up(self) -> Job:
        """Keep the try of a worker that is gone."""
        if self.state != "running":
            return self
        return replace(self, tries=(*self.tries, (self.attempt, "lost")), token=None, lapsed=False)

    def ended(self, state: str, reason: str | None) -> Job:
        return replace(self, state=state, reason=reason, cancelled_by=None, lost=0, due=True)

    def made_due(self) -> Job:
        return replace(self, due=True, slot=self.slot & ~7 | FORCED)

    def put_back(self, *, forced: bool) -> Job:
        fresh = Job(id=self.id, kind=self.kind, slot=self.slot & ~7 | (FORCED if forced else PLAIN))
        return replace(fresh, attempt=self.attempt, tries=self.tries)


@dataclass(frozen=True, slots=True)
class Claim:
    """What a worker holds, or believes to hold."""

    job_id: int
    token: int
    refused: Result | None  #: what the worker says without running the job


@dataclass(slots=True)
class Shard:
    """Who owns a shard; `waning` is a lease too near its end to claim under."""

    owner: int = 0
    lease: str = "lapsed"  #: fresh, waning or lapsed


@dataclass(slots=True)
class State:
    """All that is committed."""

    jobs: dict[int, Job] = field(default_factory=dict)
    keys: dict[tuple[str, int], int] = field(default_factory=dict)
    shards: dict[int, Shard] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Seen:
    """What the tables say, in one snapshot."""

    rows: list[Job]  #: of both tables, each row
    keys: list[tuple[tuple[str, int], int]]
    shards: dict[int, Shard]


READ = """
SELECT (SELECT coalesce(json_agg(j ORDER BY j.id), '[]') FROM (
    SELECT id, kind, lane AS slot, state, lease AS token, coalesce(lease_until <= now(), false) AS lapsed, attempt,
           spent, lost, run_at <= now() AS due, cancelled_by, NULL AS reason
    FROM tidings.job
    UNION ALL
    SELECT id, kind, lane, state, NULL, false, attempt, spent, 0, true, NULL, reason FROM tidings.job_done
  ) AS j) AS jobs,
  (SELECT coalesce(json_agg(json_build_array(job_id, n, outcome) ORDER BY n, outcome), '[]')
   FROM tidings.attempt) AS tries,
  (SELECT coalesce(json_agg(k), '[]') FROM (
    SELECT 'key' AS how, get_byte(digest, 0) AS key, job_id FROM tidings.job_key
    UNION ALL SELECT 'identity', right(first::text, 1)::int, job_id FROM tidings.job_identity
  ) AS k) AS keys,
  (SELECT json_agg(s) FROM (
    SELECT id, owner, CASE WHEN until <= now() THEN 'lapsed' WHEN until <= now() + %(margin)s THEN 'waning'
                           ELSE 'fresh' END AS lease
    FROM tidings.shard WHERE id = ANY (%(shards)s)
  ) AS s) AS shards
"""


def seen(row: dict[str, Any]) -> Seen:
    """Read what `READ` returned."""
    tries: dict[int, tuple[tuple[int, str], ...]] = {}
    for job_id, n, outcome in row["tries"]:
        tries[job_id] = (*tries.get(job_id, ()), (n, outcome))
    return Seen(
        rows=[Job(**job, tries=tries.get(job["id"], ())) for job in row["jobs"]],
        keys=[((key["how"], key["key"]), key["job_id"]) for key in row["keys"]],
        shards={shard["id"]: Shard(shard["owner"], shard["lease"]) for shard in row["shards"]},
    )
