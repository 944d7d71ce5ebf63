"""`tidings periodic`: jobs that come back by the clock."""

from __future__ import annotations

import click

from delivery.cli import documents
from delivery.cli.lists import Listing
from delivery.cli.options import Noun, connected, listed, printed
from delivery.cli.output import Form, instant_shown, span, write_fields, write_json, write_line
from delivery.cli.session import Session
from delivery.jobs import PeriodicRow

PERIODICS: Listing[PeriodicRow] = Listing(
    headings=("Name", "Kind", "Every", "Last tick at", "Next tick at", "Last job ID"),
    row=lambda each: (
        each.name,
        each.kind,
        span(each.every),
        instant_shown(each.last_tick),
        instant_shown(each.next_tick),
        each.last_job,
    ),
    document=documents.periodic,
    empty="no periodic jobs are declared",
)


@click.group(cls=Noun)
def periodic() -> None:
    """Look at periodic jobs, which are the platform's."""


@periodic.command("list")
@connected
@listed
def list_periodic(session: Session, form: Form) -> None:
    """List periodic jobs with their last and next tick."""
    rows = session.run(lambda app: app.jobs.periodic())
    PERIODICS.write(rows, form)
    if form is Form.PEOPLE and (last := [each.last_job for each in rows if each.last_job is not None]):
        write_line(f"\nnext: `tidings jobs show {last[0]} --any-owner` shows what came of one")


@periodic.command()
@connected
@click.argument("name")
@printed
def run(session: Session, name: str, form: Form) -> None:
    """Run one now, besides its ticks."""
    job_id = session.run(lambda app: app.jobs.run_periodic(name))
    if form is Form.JSON:
        write_json({"name": name, "job_id": job_id})
        return
    write_fields([("job", job_id)])
    write_line(f"\nnext: `tidings jobs show {job_id} --any-owner` shows what came of it")
