"""`tidings events`: what was recorded, and what became of it."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, BinaryIO
from uuid import UUID

import click

from delivery.cli import documents
from delivery.cli.completing import event_types
from delivery.cli.event_type import exposing
from delivery.cli.ids import Id
from delivery.cli.lists import Listing, pages
from delivery.cli.options import Noun, any_owner, limited, listed, owned, printed
from delivery.cli.output import Form, instant_shown, shown, write_block, write_fields, write_json, write_line
from delivery.cli.parameters import ENDPOINT, EVENT, FILLED, MOMENT, check_range, encoded, payload
from delivery.cli.replaying import begin, begun
from delivery.cli.session import Session
from delivery.errors import UnknownEventType
from delivery.events import MAX_PAYLOAD_BYTES, Event, EventFilter, Relaying
from delivery.jobs import JobRow
from delivery.replays import ReplayFilter, Source
from subscriptions.model import EventType, Exposure

if TYPE_CHECKING:
    from delivery.api.events import EventStory
    from delivery.app import App

Row = tuple[Event, Relaying | None]

EVENTS: Listing[Row] = Listing(
    headings=("ID", "Type", "Subject", "Occurred at", "State"),
    row=lambda each: (
        each[0].id,
        each[0].type,
        each[0].subject,
        instant_shown(each[0].occurred_at),
        documents.relay_state(each[1]),
    ),
    document=lambda each: documents.event(*each),
    empty="no events: `tidings events record TYPE --data '{}'` records one",
)

FAN_OUT: Listing[JobRow] = Listing(
    headings=("Job ID", "State", "Target", "Attempts", "Last code"),
    row=lambda each: (
        each.id,
        "parked" if each.parked else each.state.value,
        f"endpoint {each.args['endpoint_id']}" if "endpoint_id" in each.args else each.kind,
        each.attempt,
        each.code,
    ),
    document=documents.job,
    empty="no deliveries",
)

EVENT_ID = click.argument("event_id", type=EVENT, metavar="ID")


@click.group(cls=Noun)
def events() -> None:
    """Record events, and see what became of them."""


@events.command()
@owned
@click.argument("type", shell_complete=event_types)
@click.option("--data", metavar="JSON", help="The event's data, kept byte for byte.")
@click.option("--data-file", type=click.File("rb"), metavar="FILE", help="A file with the data; - is standard input.")
@click.option("--subject", type=FILLED, metavar="TEXT", help="What it is about, such as an invoice's number.")
@click.option("--key", type=FILLED, metavar="TEXT", help="Idempotency key: a repeat with it records nothing new.")
@click.option("--occurred-at", type=MOMENT, metavar="WHEN", help="When it happened (now).")
@printed
def record(
    session: Session,
    type: str,
    data: str | None,
    data_file: BinaryIO | None,
    subject: str | None,
    key: str | None,
    occurred_at: datetime | None,
    form: Form,
) -> None:
    """Record an event in a transaction of its own.

    For trying things out, and for scripts. An application records in its own transaction instead, with
    `delivery.recorder()` or the SQL function `tidings.record`.
    """
    if (data is None) == (data_file is None):
        raise click.UsageError("give the event's data, either as --data JSON or as --data-file FILE")
    text = payload(data_file.read(MAX_PAYLOAD_BYTES + 1) if data_file else encoded(data or ""))

    async def work(app: App) -> UUID:
        try:
            return await app.events.record(
                session.owner, type, text, subject=subject, idempotency_key=key, occurred_at=occurred_at
            )
        except UnknownEventType:
            await app.event_types.check(type)  # says what was probably meant
            raise

    event_id = session.run(work)
    if form is Form.JSON:
        write_json({"id": str(event_id)})
        return
    write_fields([("event", event_id)])
    write_line(f"\nnext: `tidings events show {event_id}` tells what becomes of it")


@events.command("list")
@owned
@any_owner
@click.option("--type", metavar="TYPE", shell_complete=event_types, help="Of exactly this type.")
@click.option("--subject", metavar="TEXT", help="About exactly this.")
@click.option("--since", type=MOMENT, metavar="WHEN", help="Recorded from then on: 2026-01-31T12:00:00Z, or 2h (ago).")
@click.option("--until", type=MOMENT, metavar="WHEN", help="Recorded before then.")
@click.option("--poisoned", is_flag=True, help="Only those that the relay gave up.")
@limited()
@click.option("--before", type=EVENT, metavar="ID", help="Go on after this one.")
@listed
def list_events(
    session: Session,
    owner_id: str | None,
    type: str | None,
    subject: str | None,
    since: datetime | None,
    until: datetime | None,
    poisoned: bool,
    limit: int,
    before: Id | None,
    form: Form,
) -> None:
    """List events, newest first."""
    check_range(since, until)
    which = EventFilter(owner_id=owner_id, type=type, subject=subject, since=since, until=until, poisoned=poisoned)

    async def work(app: App, start: UUID | None) -> None:
        def read(number: int, last: UUID | None) -> Any:
            return app.events.list(which, limit=number, before=last)

        await app.event_types.check(type)
        listing = EVENTS if owner_id is not None else EVENTS.with_owner(lambda each: each[0].owner_id)
        await listing.write_pages(pages(read, limit=limit, start=start, key=lambda row: row[0].id), form)

    session.run(work, before)


@events.command()
@owned
@EVENT_ID
@printed
def show(session: Session, event_id: Id, form: Form) -> None:
    """Show an event, its data, and every delivery that it became."""
    session.run(lambda app, whole: _show(app, app.events.get(session.owner, whole), form), event_id)


@events.command()
@owned
@EVENT_ID
@click.option("--unchecked", is_flag=True, help="Also where its data does not fit the schema of its type.")
@printed
def requeue(session: Session, event_id: Id, unchecked: bool, form: Form) -> None:
    """Let the relay try an event again that it gave up."""

    async def work(app: App, whole: UUID) -> None:
        await _show(app, app.events.requeue(session.owner, whole, unchecked=unchecked), form)

    session.run(work, event_id)


@events.command()
@owned
@click.option("--endpoint", "endpoint_id", type=ENDPOINT, required=True, metavar="ID", help="Where they go.")
@click.option(
    "--type",
    multiple=True,
    metavar="PATTERN",
    help="Of such a type: invoice.*; repeatable (what the endpoint is subscribed to).",
)
@click.option("--since", type=MOMENT, metavar="WHEN", help="Recorded from then on: 2026-01-31T12:00:00Z, or 2h (ago).")
@click.option("--until", type=MOMENT, metavar="WHEN", help="Recorded before then.")
@begun
@printed
def replay(
    session: Session,
    endpoint_id: Id,
    type: tuple[str, ...],
    since: datetime | None,
    until: datetime | None,
    **given: Any,
) -> None:
    """Send past events to an endpoint that came later.

    Starts a replay, which `tidings replays` shows, pauses, resumes and cancels. An event gets one delivery to the
    endpoint ever: those that have one, however it ended, are counted as skipped, as are those of internal types.
    """
    check_range(since, until)
    which = ReplayFilter(
        source=Source.EVENTS,
        owner_id=session.owner,
        types=type,
        since=since,
        until=until,
    )
    begin(session, which, endpoint_id, **given)


async def _show(app: App, asked: Awaitable[EventStory], form: Form) -> None:
    story = await asked
    declared = next((each for each in await app.event_types.list() if each.type == story.event.type), None)
    _write(story, declared, form)


def _write(story: EventStory, declared: EventType | None, form: Form) -> None:
    event, jobs = story.event, story.jobs
    if form is Form.JSON:
        write_json(documents.event(event, story.relaying) | {"deliveries": _fan_out(jobs)})
        return
    write_fields(
        [
            ("event", event.id),
            ("owner", event.owner_id),
            ("type", event.type),
            ("subject", event.subject),
            ("occurred", instant_shown(event.occurred_at)),
            ("state", _relay_line(story, declared)),
        ]
    )
    write_line("data")
    write_block(event.data)
    write_line(f"fan-out ({len(jobs)})")
    FAN_OUT.write(jobs, form)
    if deliveries := [job for job in jobs if "endpoint_id" in job.args]:
        write_line(f"\nnext: `tidings deliveries show {deliveries[0].id}` tells the story of one")


def _fan_out(jobs: Sequence[JobRow]) -> list[dict[str, Any]]:
    """Describe deliveries as `deliveries list` does, and what handlers do as `jobs list` does."""
    return [
        documents.delivery(job) if "endpoint_id" in job.args else documents.job(job) | {"endpoint_id": None}
        for job in jobs
    ]


def _relay_line(story: EventStory, declared: EventType | None) -> str:
    relaying = story.relaying
    if relaying is None and not story.jobs:
        if declared is not None and declared.exposure is Exposure.INTERNAL:
            return f"relayed; its type is internal, so it never leaves: `{exposing(declared)}` lets later ones leave"
        return "relayed; nobody subscribed to it, or no filter of those who did wants its data"
    if relaying is None:
        return "relayed"
    if relaying.poisoned:
        error = shown(relaying.error or "no error kept")
        again = f"`tidings events requeue {story.event.id}` tries again"
        return f"given up by the relay after {relaying.failures} failures ({error}): {again}"
    if relaying.failures:
        when = instant_shown(relaying.next_at)
        return f"waits for the relay until {when}, after {relaying.failures} failures ({relaying.error})"
    return "waits for the relay (`tidings up` or `tidings relay` runs one)"
