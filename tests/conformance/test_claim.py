"""Claiming: each job by one worker at a time, never more than there are slots."""

from __future__ import annotations

from collections import Counter

from delivery.jobs import EnqueueOptions, JobFilter, JobState, NewJob

from .engine import Engine, Pace, all_ended, ended
from .kinds import Gate, Script, kind
from .patience import eventually, stalls_of


async def test_three_runtimes_run_each_job_once(engine: Engine):
    script = Script()
    declared = kind(script, limit=50)
    runtimes = [await engine.running(declared) for _ in range(3)]
    for n in range(8):
        lane = EnqueueOptions(lane=f"lane {n}")
        await runtimes[0].enqueue_many([NewJob(kind="work", args={"n": n}, options=lane)] * 50)
    await all_ended(runtimes[0], "work")
    assert set(Counter(script.ids).values()) == {1}
    assert len(script.ids) == 400


async def test_a_process_runs_no_more_at_once_than_it_has_slots(engine: Engine):
    gate = Gate(open_after=0.01)
    async with stalls_of() as stalls:
        runtime = await engine.running(kind(gate, limit=50), kind(gate, "other", limit=50), pace=Pace(slots=7))
        await runtime.enqueue_many([NewJob(kind=name, args={}) for name in ("work", "other") for _ in range(100)])
        await eventually(lambda: len(gate.done) == 200)
    assert gate.peak == 7 or (gate.peak <= 14 and stalls.longest_s > 0.5)  # what takes a second leaves its slot


async def test_who_joins_gets_a_share_of_the_work(engine: Engine):
    scripts = Script(), Script()
    runtimes = [await engine.running(kind(script), pace=Pace(share_lease=1.0)) for script in scripts]
    jobs = [NewJob(kind="work", args={}, options=EnqueueOptions(lane=f"lane {n}")) for n in range(20)]

    async def both_work() -> bool:
        await runtimes[0].enqueue_many(jobs)
        return all(script.jobs for script in scripts)

    await eventually(both_work)


async def test_only_who_runs_the_kinds_of_a_queue_claims_from_it(engine: Engine):
    script = Script()
    special = kind(script, "special", queue="special")
    producer = await engine.runtime(kind(name="special", queue="special"), kind())
    generalist = await engine.running(kind())
    ids = [await producer.enqueue("special", {"n": n}, EnqueueOptions(lane=f"lane {n}")) for n in range(20)]
    await ended(producer, await producer.enqueue("work", {}))
    rows = [await producer.get(job_id) for job_id in ids]
    assert {(row.state, row.attempt) for row in rows} == {(JobState.PENDING, 0)}
    specialists = [await engine.running(special) for _ in range(2)]
    for job_id in ids:
        await ended(producer, job_id)
    assert sorted(script.ids) == ids
    await generalist.stop()
    for specialist in specialists:
        again = await producer.enqueue("special", {})
        await ended(producer, again)
        await specialist.stop()


async def test_a_kind_unknown_to_this_process_waits_for_one_that_knows_it(engine: Engine):
    producer = await engine.runtime(kind(name="strange"), kind())
    ignorant = await engine.running(kind())
    strange = await producer.enqueue("strange", {"n": 1})
    await ended(producer, await producer.enqueue("work", {}))

    async def seen() -> bool:
        return (await producer.get(strange)).state in {JobState.PENDING, JobState.RETRYABLE}

    await eventually(seen)
    await ignorant.stop()
    script = Script()
    knowing = await engine.running(kind(script, "strange"))
    await knowing.retry(strange)
    row = await ended(knowing, strange)
    assert row.state is JobState.COMPLETED
    assert [(job.attempt, job.spent) for job in script.jobs] == [(1, 0)]
    assert [attempt.number for attempt in await knowing.attempts(strange)] == [1]


async def test_an_unknown_kind_holds_up_nobody(engine: Engine):
    script = Script()
    producer = await engine.runtime(kind(name="strange"), kind())
    await producer.enqueue_many([NewJob(kind="strange", args={"n": n}) for n in range(300)])
    runtime = await engine.running(kind(script), pace=Pace(slots=5))
    await ended(runtime, await producer.enqueue("work", {}))
    assert await producer.count(JobFilter(kind="strange")) == 300
