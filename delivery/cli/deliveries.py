"""`tidings deliveries`: one event on its way to one endpoint."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

import click

from delivery.attempts import Attempt
from delivery.cli import documents
from delivery.cli.choosing import chosen
from delivery.cli.curl import curl_line
from delivery.cli.endpoint_lines import policy_line, timeout_line
from delivery.cli.failures import Failed
from delivery.cli.hints import complete
from delivery.cli.ids import Id
from delivery.cli.lists import Listing, pages
from delivery.cli.options import Noun, limited, listed, owned, printed, signed
from delivery.cli.output import (
    Form,
    counted,
    decoded,
    instant_shown,
    shown,
    span,
    write_block,
    write_fields,
    write_json,
    write_line,
)
from delivery.cli.parameters import FINAL_STATE, JOB_ID, STATE
from delivery.cli.progress import Progress
from delivery.cli.session import Session
from delivery.cli.story import budget, next_step
from delivery.cli.watch import watch
from delivery.jobs import JobRow, JobState
from delivery.replay import DeliveryFilter

if TYPE_CHECKING:
    from delivery.api.deliveries import DeliveryStory
    from delivery.app import App

Command = Callable[..., None]

DELIVERIES: Listing[JobRow] = Listing(
    headings=("ID", "State", "Type", "Endpoint ID", "Attempts", "Last code", "Due or done at"),
    row=lambda each: (
        each.id,
        "parked" if each.parked else each.state.value,
        each.args.get("type"),
        each.args.get("endpoint_id"),
        each.attempt,
        each.code or each.reason,
        instant_shown(each.finished_at or each.run_at),
    ),
    document=documents.delivery,
    empty="no deliveries",
)

DELIVERY_ID = click.argument("delivery_id", type=JOB_ID, metavar="ID")


@click.group(cls=Noun)
def deliveries() -> None:
    """Look at deliveries, and step in. Another owner's delivery is "not found"."""


@deliveries.command("list")
@owned
@chosen(STATE)
@limited()
@click.option("--before", type=JOB_ID, metavar="ID", help="Go on after this one.")
@listed
def list_deliveries(
    session: Session, which: DeliveryFilter, endpoint_id: Id | None, limit: int, before: int | None, form: Form
) -> None:
    """List deliveries, newest first."""

    async def work(app: App, whole: UUID | None) -> None:
        chosen = replace(which, endpoint_id=whole)

        def read(number: int, last: int | None) -> Any:
            return app.deliveries.list(chosen, limit=number, before=last)

        await app.event_types.check(which.event_type)
        listing = DELIVERIES if which.owner_id is not None else DELIVERIES.with_owner(lambda job: job.owner_id)
        await listing.write_pages(pages(read, limit=limit, start=before, key=lambda row: row.id), form)

    session.run(work, endpoint_id)


@deliveries.command()
@owned
@DELIVERY_ID
@click.option("--curl", is_flag=True, help="Print only a curl line that sends the same by hand, unsigned.")
@printed
def show(session: Session, delivery_id: int, curl: bool, form: Form) -> None:
    """Tell the story of one delivery.

    Its event, its endpoint with its policy, each attempt with its reason, what happens next and when.
    """
    if curl and form is Form.JSON:
        raise click.UsageError("--curl prints a line for a shell, and no JSON: leave out one of them")
    story = session.run(lambda app: app.deliveries.get(session.owner, delivery_id))
    if curl:
        if story.event is None or story.endpoint is None:
            gone = "event" if story.event is None else "endpoint"
            raise Failed(f"there is nothing to send by hand: the {gone} of delivery {delivery_id} is no longer kept")
        click.echo(curl_line(story.event, story.endpoint))
        return
    told = (story.job, story.endpoint, story.policy, story.attempts)
    then = next_step(*told, now=datetime.now(UTC), max_age=session.settings.max_age)
    if form is Form.JSON:
        write_json(_document(story) | {"next": complete(then)})
    else:
        _write_story(story, then)


@deliveries.command()
@owned
@DELIVERY_ID
@printed
def retry(session: Session, delivery_id: int, form: Form) -> None:
    """Send a delivery now.

    One that waits goes past its wait or pause; a finished one is sent once more, with a new budget.
    """
    then = "it is sent now, by the `tidings up` or `tidings worker` that runs;"
    _write(session.run(lambda app: app.deliveries.retry(session.owner, delivery_id)), form, then)


@deliveries.command()
@owned
@DELIVERY_ID
@signed
@printed
def cancel(session: Session, delivery_id: int, by: str, form: Form) -> None:
    """End a delivery that waits.

    One that is being sent may still arrive; a finished one is left as it is.
    """
    _write(session.run(lambda app: app.deliveries.cancel(session.owner, delivery_id, by=by)), form)


@deliveries.command()
@owned
@chosen(FINAL_STATE)
@click.option("--dry-run", is_flag=True, help="Count, and change nothing.")
@printed
def replay(session: Session, which: DeliveryFilter, endpoint_id: Id | None, dry_run: bool, form: Form) -> None:
    """Send finished deliveries again.

    The discarded ones, where no --state is given. What is in flight is never touched. Each keeps its `webhook-id`;
    its attempts are numbered on, with a new budget. Cut short, what was put back stays put back.
    `tidings replays start` does the same in the background, at a pace.
    """
    progress = Progress("replaying", visible=form is Form.PEOPLE and not dry_run)

    async def work(app: App, whole: UUID | None) -> DeliveryFilter:
        chosen = replace(which, endpoint_id=whole)
        await app.event_types.check(chosen.event_type)
        progress.total = await app.deliveries.count_replay(chosen)
        if not dry_run:
            with progress:
                async for moved in app.deliveries.replay(chosen):
                    progress.advance(moved)
        return chosen

    with progress.told_when_cut_short("put back; run it again for the rest"):
        chosen = session.run(work, endpoint_id)
    if form is Form.JSON:
        write_json({"matched": progress.total, "replayed": progress.done, "dry_run": dry_run})
    elif not progress.total:
        write_line(shown(f"nothing to send again: {_looked_for(chosen)}"))
    elif dry_run:
        write_line(f"{counted(progress.total, 'delivery')} to send again")
    else:
        write_line(f"{counted(progress.done, 'delivery')} put back, to be sent again")


deliveries.add_command(watch)


def _document(story: DeliveryStory) -> dict[str, Any]:
    return documents.delivery(story.job) | {
        "event": None if story.event is None else documents.event(story.event, None),
        "endpoint": None if story.endpoint is None else documents.endpoint(story.endpoint),
        "policy": None if story.policy is None else documents.policy(story.policy),
        "attempts": [documents.attempt(each) for each in story.attempts],
    }


def _looked_for(which: DeliveryFilter) -> str:
    """Say what no delivery was found for, and what else may be meant."""
    states = " or ".join(each.value for each in which.states) or JobState.DISCARDED.value
    parts = (
        ("of owner", which.owner_id),
        ("to endpoint", which.endpoint_id),
        ("of type", which.event_type),
        ("made from", which.since and instant_shown(which.since)),
        ("made before", which.until and instant_shown(which.until)),
        ("that ended with", which.error),
    )
    found = " ".join(f"{words} {value}" for words, value in parts if value is not None)
    other = "" if which.states else "; `--state completed` sends delivered ones again"
    return f"there is no {states} delivery {found}".rstrip() + other


def _write(job: JobRow, form: Form, then: str = "") -> None:
    if form is Form.JSON:
        write_json(documents.delivery(job))
    else:
        state = f"{job.state.value}, parked" if job.parked else job.state.value
        why = "by" if job.state is JobState.CANCELLED else "reason"
        write_fields([("delivery", job.id), ("state", state), (why, job.reason)])
        write_line(f"\nnext: {then}{' ' if then else ''}`tidings deliveries show {job.id}` tells its story")


def _write_story(story: DeliveryStory, then: str) -> None:
    job, event, endpoint, policy = story.job, story.event, story.endpoint, story.policy
    about = f" about {event.subject}" if event is not None and event.subject else ""
    when = f", occurred {instant_shown(event.occurred_at)}" if event is not None else ", no longer kept"
    where = f" {endpoint.url} ({endpoint.state.value})" if endpoint is not None else ", no longer kept"
    write_fields(
        [
            ("delivery", job.id),
            ("owner", job.owner_id),
            ("event", f"{job.args['event_id']} {job.args.get('type', '')}{about}{when}"),
            ("endpoint", f"{job.args['endpoint_id']}{where}"),
            ("state", f"{job.state.value}, parked" if job.parked else job.state.value),
            ("attempts", budget(job, endpoint, policy, story.attempts)),
            ("policy", endpoint and policy_line(endpoint, policy)),
            ("timeout", endpoint and timeout_line(endpoint, policy)),
            ("created", instant_shown(job.created_at)),
            ("next", then),
        ]
    )
    for attempt in story.attempts:
        write_attempt(attempt)


def write_attempt(attempt: Attempt) -> None:
    """Print one try with its reason."""
    report = attempt.report
    judged = ", ".join(str(each) for each in (report.code, report.rule and f"rule {report.rule!r}") if each)
    write_line(
        shown(
            f"\n#{attempt.number}  {instant_shown(attempt.started_at)}  {attempt.took_ms} ms"
            f"  {attempt.outcome}{f' ({judged})' if judged else ''}"
        ).replace("\\x0a", "\n", 1)
    )
    if report.detail:
        write_block(report.detail, most=5)
    if attempt.next_at is not None:
        write_line(f"    next try planned {span(attempt.next_at - attempt.started_at)} later")
    if report.body:
        write_line("    answer:")
        write_block(decoded(report.body), indent="      ")
