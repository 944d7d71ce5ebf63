"""Outcomes: what came of jobs of late, in the order of their time."""

from __future__ import annotations

from datetime import timedelta

from delivery.attempts import Report
from delivery.jobs import Discard, EnqueueOptions, Job, JobFilter, JobOutcome, JobState, Retry, Runtime

from .engine import Engine, ended, seconds
from .kinds import Script, kind
from .patience import eventually


def twice(job: Job) -> Report | None:
    """Fail once, then end as the job asks."""
    if job.attempt == 1:
        raise Retry(seconds(0), Report(code="http_503"))
    if job.args.get("end") == "discard":
        raise Discard("no_use", Report(code="http_400"))
    return Report(code="http_200")


async def came(runtime: Runtime, which: JobFilter, since: timedelta = timedelta(days=1)) -> list[JobOutcome]:
    """List all that came, in pages of two."""
    after, found = (await runtime.now() - since, 0, 0), list[JobOutcome]()
    while page := await runtime.outcomes(which, after=after, limit=2):
        found += page
        after = (page[-1].at, page[-1].id, page[-1].attempt)
    return found


async def test_a_try_that_failed_and_the_end_are_told_by_their_time(engine: Engine):
    runtime = await engine.running(kind(Script(twice)))
    begin = await runtime.now()
    good = await runtime.enqueue("work", {"n": 1}, EnqueueOptions(owner_id="acme"))
    bad = await runtime.enqueue("work", {"end": "discard"}, EnqueueOptions(owner_id="globex"))
    for job_id in (good, bad):
        await ended(runtime, job_id)
    found = await came(runtime, JobFilter(kind="work"))
    assert [(each.at, each.id, each.attempt) for each in found] == sorted(
        (each.at, each.id, each.attempt) for each in found
    )
    end = await runtime.now()
    assert all(begin - seconds(1) <= each.at <= end for each in found)
    by_job = {job_id: [each for each in found if each.id == job_id] for job_id in (good, bad)}
    assert [(each.state, each.attempt, each.code, each.reason) for each in by_job[good]] == [
        (JobState.RETRYABLE, 1, "http_503", None),
        (JobState.COMPLETED, 2, "http_200", None),
    ]
    assert [(each.state, each.attempt, each.code, each.reason) for each in by_job[bad]] == [
        (JobState.RETRYABLE, 1, "http_503", None),
        (JobState.DISCARDED, 2, "http_400", "no_use"),
    ]
    assert {(each.id, each.owner_id, each.kind) for each in found} == {(good, "acme", "work"), (bad, "globex", "work")}
    assert by_job[good][0].args == {"n": 1}
    assert [each.next_at is None for each in by_job[good]] == [False, True]


async def test_one_that_still_waits_for_its_next_try_is_told(engine: Engine):
    def fail(_job: Job) -> Report | None:
        raise Retry(seconds(3600), Report(code="timeout"))

    runtime = await engine.running(kind(Script(fail)))
    job_id = await runtime.enqueue("work", {})

    async def told() -> list[JobOutcome]:
        return await came(runtime, JobFilter())

    (found,) = await eventually(told)
    assert (found.id, found.state, found.code) == (job_id, JobState.RETRYABLE, "timeout")
    assert found.next_at == (await runtime.get(job_id)).run_at


async def test_one_that_was_cancelled_while_it_waited_is_told(engine: Engine):
    runtime = await engine.runtime(kind())
    job_id = await runtime.enqueue("work", {})
    await runtime.cancel(job_id, by="ann")
    (found,) = await came(runtime, JobFilter())
    assert (found.id, found.state, found.attempt, found.reason) == (job_id, JobState.CANCELLED, 0, "ann")


async def test_every_field_of_the_filter_must_hold(engine: Engine):
    runtime = await engine.running(kind(Script(twice)))
    options = EnqueueOptions(owner_id="acme", lane="a")
    job_id = await runtime.enqueue("work", {"n": 1}, options)
    row = await ended(runtime, job_id)
    both, end, failure = [1, 2], [2], [1]
    for which, attempts in (
        (JobFilter(owner_id="acme", kind="work", lane="a", args={"n": 1}), both),
        (JobFilter(since=row.created_at), both),
        (JobFilter(until=row.created_at), []),
        (JobFilter(states=(JobState.COMPLETED,)), end),
        (JobFilter(states=(JobState.RETRYABLE, JobState.CANCELLED)), failure),
        (JobFilter(reason="http_503"), failure),
        (JobFilter(owner_id="globex"), []),
        (JobFilter(kind="other"), []),
        (JobFilter(lane="gone"), []),
        (JobFilter(args={"n": 2}), []),
    ):
        assert [each.attempt for each in await came(runtime, which)] == attempts, which


async def test_what_came_earlier_is_left_out(engine: Engine):
    runtime = await engine.runtime(kind())
    job_id = await runtime.enqueue("work", {})
    await runtime.cancel(job_id, by="ann")
    (found,) = await came(runtime, JobFilter())
    assert await runtime.outcomes(JobFilter(), after=(found.at, found.id, found.attempt)) == []
