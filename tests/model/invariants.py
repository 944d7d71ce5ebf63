"""What holds after every step, whatever the steps were; `docs/guarantees.md` lists these by name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from .state import Seen, State


@dataclass(frozen=True, slots=True)
class Look:
    """The tables now and one step before, and what the committed steps should have made of them."""

    now: Seen
    before: Seen
    told: State
    put_back: set[int]  #: jobs that a person put back in between


def in_one_place(look: Look) -> None:
    """A job is in exactly one of the live and the finished table, once."""
    twice = [job_id for job_id, n in Counter(job.id for job in look.now.rows).items() if n > 1]
    assert not twice, f"jobs {twice} are in two places"


def none_is_lost(look: Look) -> None:
    """A job whose enqueue was committed is there, live or finished; one that was rolled back is not."""
    assert {job.id for job in look.now.rows} == look.told.jobs.keys()


def changed_by_its_holder_only(look: Look) -> None:
    """A job is what its claims, their results and what people asked for made of it, and nothing else."""
    for job in look.now.rows:
        assert job == look.told.jobs[job.id], f"job {job.id} is not what it was told to be"


def numbered(look: Look) -> None:
    """Tries are numbered from 1 without a gap, each once; a claim that was given back leaves no number."""
    for job in look.now.rows:
        ended = job.attempt - 1 if job.state == "running" else job.attempt
        assert [n for n, _ in job.tries] == [*range(1, ended + 1)], f"job {job.id} has the tries {job.tries}"


def charged(look: Look) -> None:
    """Only tries that failed are charged; a lost, snoozed or released one spends nothing."""
    for job in look.now.rows:
        most = sum(outcome in ("failed", "discarded") for _, outcome in job.tries)
        assert job.spent <= most, f"job {job.id} has spent {job.spent} on {job.tries}"


def running_under_one_lease(look: Look) -> None:
    """A job runs under the one lease of its newest claim, and under none when it does not run."""
    for job in look.now.rows:
        assert (job.state == "running") == (job.token is not None)
        assert job.token == look.told.jobs[job.id].token, f"job {job.id} runs under a claim that does not stand"


def final_stays(look: Look) -> None:
    """A finished job, a cancelled one too, stays as it is until a person puts it back."""
    now = {job.id: job for job in look.now.rows}
    for job in look.before.rows:
        if job.is_final and job.id not in look.put_back:
            assert now[job.id] == job, f"job {job.id} was {job.state} and is {now[job.id]}"


def cancelling_is_kept(look: Look) -> None:
    """What was asked to stop ends in its next settle, and never waits for another try."""
    now = {job.id: job for job in look.now.rows}
    for job in look.now.rows:
        assert job.cancelled_by is None or job.state == "running", f"job {job.id} waits, though it was cancelled"
    for job in look.before.rows:
        if job.cancelled_by is not None and job.id not in look.put_back:
            after = now[job.id]
            assert after.is_final or after.cancelled_by == job.cancelled_by, f"the cancelling of job {job.id} is gone"


def one_job_a_key(look: Look) -> None:
    """A unique identity is that of one job, which is there, and of the same one for good."""
    assert len(look.now.keys) == len(dict(look.now.keys))
    assert dict(look.now.keys) == look.told.keys
    assert set(dict(look.now.keys).values()) <= {job.id for job in look.now.rows}


def one_owner_a_shard(look: Look) -> None:
    """A shard changes hands only after its lease has run out or was given back."""
    for shard_id, shard in look.now.shards.items():
        before = look.before.shards[shard_id]
        assert shard.owner == before.owner or before.lease == "lapsed", f"shard {shard_id} was taken from its owner"
    assert look.now.shards == look.told.shards


INVARIANTS: tuple[Callable[[Look], None], ...] = (
    in_one_place,
    none_is_lost,
    numbered,
    charged,
    running_under_one_lease,
    final_stays,
    cancelling_is_kept,
    one_job_a_key,
    one_owner_a_shard,
    changed_by_its_holder_only,
)
