"""`tidings jobs`: what the platform does in the background, deliveries among it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from delivery.attempts import Attempt
from delivery.cli import documents
from delivery.cli.lists import Listing, pages
from delivery.cli.options import Noun, any_owner, connected, limited, listed, owned, printed, signed
from delivery.cli.output import Form, instant_shown, json_text, write_fields, write_json, write_line
from delivery.cli.parameters import JOB_ID, MOMENT, STATE, check_range
from delivery.cli.session import Session
from delivery.errors import UnknownKind
from delivery.jobs import JobFilter, JobRow, JobState, KindOverview

if TYPE_CHECKING:
    from delivery.app import App

OVERVIEW: Listing[KindOverview] = Listing(
    headings=("Kind", *(state.value for state in JobState), "Oldest due at"),
    row=lambda each: (
        each.kind,
        *(each.counts.get(state, 0) for state in JobState),
        instant_shown(each.oldest_due),
    ),
    document=documents.overview,
    empty="no kinds of jobs",
)

JOBS: Listing[JobRow] = Listing(
    headings=("ID", "State", "Kind", "Attempts", "Last code", "Due or done at"),
    row=lambda each: (
        each.id,
        "parked" if each.parked else each.state.value,
        each.kind,
        each.attempt,
        each.code or each.reason,
        instant_shown(each.finished_at or each.run_at),
    ),
    document=documents.job,
    empty="no jobs (of this owner: --any-owner shows all)",
)

_ID = click.argument("job_id", type=JOB_ID, metavar="ID")


@click.group(cls=Noun)
def jobs() -> None:
    """Look at jobs of any kind, and step in.

    Handlers and periodic jobs are the platform's own: --any-owner reaches them.
    """


@jobs.command()
@connected
@listed
def overview(session: Session, form: Form) -> None:
    """Count jobs by kind and state, over all owners."""
    OVERVIEW.write(session.run(lambda app: app.jobs.overview()), form)


@jobs.command("list")
@owned
@any_owner
@click.option("--kind", metavar="KIND", help="Of this kind, such as webhook.deliver.")
@click.option("--state", type=STATE, multiple=True, help="In this state; repeatable.")
@click.option("--since", type=MOMENT, metavar="WHEN", help="Made from then on: 2026-01-31T12:00:00Z, or 2h (ago).")
@click.option("--until", type=MOMENT, metavar="WHEN", help="Made before then.")
@click.option("--error", metavar="CODE", help="Last code or reason, as in timeout or exhausted.")
@limited()
@click.option("--before", type=JOB_ID, metavar="ID", help="Go on after this one.")
@listed
def list_jobs(
    session: Session,
    owner_id: str | None,
    kind: str | None,
    state: tuple[str, ...],
    since: datetime | None,
    until: datetime | None,
    error: str | None,
    limit: int,
    before: int | None,
    form: Form,
) -> None:
    """List jobs, newest first."""
    check_range(since, until)
    states = tuple(JobState(each) for each in state)
    which = JobFilter(owner_id=owner_id, kind=kind, states=states, since=since, until=until, reason=error)

    async def work(app: App) -> None:
        def read(number: int, last: int | None) -> Any:
            return app.jobs.list(which, limit=number, before=last)

        if kind is not None:
            await _check_kind(app, kind)
        listing = JOBS if owner_id is not None else JOBS.with_owner(lambda job: job.owner_id)
        await listing.write_pages(pages(read, limit=limit, start=before, key=lambda row: row.id), form)

    session.run(work)


@jobs.command()
@owned
@any_owner
@_ID
@printed
def show(session: Session, owner_id: str | None, job_id: int, form: Form) -> None:
    """Show one job and its tries."""

    async def work(app: App) -> tuple[JobRow, Sequence[Attempt]]:
        return await app.jobs.get(job_id, owner_id=owner_id), await app.jobs.attempts(job_id)

    job, attempts = session.run(work)
    if form is Form.JSON:
        write_json(documents.job(job) | {"attempts": [documents.attempt(each) for each in attempts]})
        return
    from delivery.cli.deliveries import write_attempt

    write_fields(_fields(job))
    for attempt in attempts:
        write_attempt(attempt)


@jobs.command()
@owned
@any_owner
@_ID
@printed
def retry(session: Session, owner_id: str | None, job_id: int, form: Form) -> None:
    """Make a job due now.

    A finished one runs again, with a new budget.
    """
    _write(session.run(lambda app: app.jobs.retry(job_id, owner_id=owner_id)), form)


@jobs.command()
@owned
@any_owner
@_ID
@signed
@printed
def cancel(session: Session, owner_id: str | None, job_id: int, by: str, form: Form) -> None:
    """End a job that waits, or ask a running one to stop.

    A finished one is left as it is.
    """
    _write(session.run(lambda app: app.jobs.cancel(job_id, by=by, owner_id=owner_id)), form)


async def _check_kind(app: App, kind: str) -> None:
    known = [each.kind for each in await app.jobs.overview()]
    if kind not in known:
        raise UnknownKind(f"no jobs of kind {kind[:60]!r}: use one of {', '.join(known)}")


def _fields(job: JobRow) -> list[tuple[str, object]]:
    return [
        ("job", job.id),
        ("owner", job.owner_id or "(the platform)"),
        ("kind", job.kind),
        ("lane", job.lane),
        ("args", json_text(job.args, indent=None)),
        ("state", f"{job.state.value}, parked" if job.parked else job.state.value),
        ("attempts", f"{job.attempt} made, {job.spent} of {job.max_attempts} spent"),
        ("due", None if job.state.is_final else instant_shown(job.run_at)),
        ("finished", instant_shown(job.finished_at) if job.finished_at else None),
        ("by" if job.state is JobState.CANCELLED else "reason", job.reason),
        ("code", job.code),
    ]


def _write(job: JobRow, form: Form) -> None:
    if form is Form.JSON:
        write_json(documents.job(job))
    else:
        write_fields(_fields(job))
        write_line(f"\nnext: `tidings jobs show {job.id}` shows its tries")
