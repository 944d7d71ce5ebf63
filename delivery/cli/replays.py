"""`tidings replays`: deliveries that are sent again by a job in the background."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from delivery.cli import documents
from delivery.cli.choosing import ERROR, SINCE, TO_ENDPOINT, UNTIL
from delivery.cli.ids import Id
from delivery.cli.lists import Listing, pages
from delivery.cli.options import Noun, any_owner, limited, listed, owned, printed, signed
from delivery.cli.output import Form, instant_shown
from delivery.cli.parameters import FILLED, FINAL_STATE, HTTP_STATUS, JOB_ID, check_range
from delivery.cli.replaying import begin, begun, described, follow, progressed, state_shown, write_replay
from delivery.cli.session import Session
from delivery.jobs import JobState
from delivery.replays import Replay, ReplayFilter

if TYPE_CHECKING:
    from delivery.app import App

Command = Callable[..., None]

#: What the last attempt of a finished delivery can have been judged as.
CLASSES = ("retryable", "permanent", "snoozed", "ours", "lost", "delivered")

REPLAYS: Listing[Replay] = Listing(
    headings=("ID", "State", "Seen", "Put back", "Skipped", "What", "Started at", "By", "Reason"),
    row=lambda each: (
        each.id,
        state_shown(each),
        progressed(each),
        each.tally.put_back,
        sum(each.tally.skipped.values()),
        described(each.which),
        instant_shown(each.started_at),
        each.started_by,
        each.reason,
    ),
    document=documents.replay,
    empty="no replays: `tidings replays start --dry-run` counts what one would send again",
)

REPLAY_ID = click.argument("replay_id", type=JOB_ID, metavar="ID")


def _selected(command: Command) -> Command:
    """Add the options that choose deliveries; the command takes `which`, and `endpoint_id` as it was given."""

    @wraps(command)
    def with_filter(
        session: Session,
        *args: Any,
        owner_id: str | None,
        state: tuple[str, ...],
        endpoint_id: Id | None,
        type: tuple[str, ...],
        since: datetime | None,
        until: datetime | None,
        error: str | None,
        outcome: tuple[str, ...],
        status: tuple[int, int] | None,
        only_undelivered: bool,
        **given: Any,
    ) -> None:
        check_range(since, until)
        which = ReplayFilter(
            owner_id=owner_id,
            types=type,
            since=since,
            until=until,
            states=tuple(JobState(each) for each in state) or (JobState.DISCARDED,),
            error=error,
            outcomes=outcome,
            statuses=status,
            only_undelivered=only_undelivered,
        )
        command(session, *args, which=which, endpoint_id=endpoint_id, **given)

    wrapped: Command = with_filter
    for option in (
        click.option(
            "--only-undelivered", is_flag=True, help="Not those that the receiver accepted before, in any attempt."
        ),
        UNTIL,
        SINCE,
        click.option("--status", type=HTTP_STATUS, metavar="STATUS", help="Last answered with this: 503, or 5xx."),
        click.option(
            "--class",
            "outcome",
            type=click.Choice(CLASSES),
            multiple=True,
            help="Last attempt judged as this; repeatable.",
        ),
        ERROR,
        click.option(
            "--type", multiple=True, metavar="PATTERN", help="Of events of such a type: invoice.*; repeatable."
        ),
        TO_ENDPOINT,
        click.option("--state", type=FINAL_STATE, multiple=True, help="In this state (discarded); repeatable."),
    ):
        wrapped = option(wrapped)
    return any_owner(wrapped)


@click.group(cls=Noun)
def replays() -> None:
    """Send finished deliveries again, many at a pace, in the background.

    A replay is a job of the platform's: it goes on when this command has ended and when processes come and go, can be
    paused, resumed and cancelled from anywhere, and puts each delivery back once. `tidings events replay` starts one
    that sends past events to an endpoint that came later. Another owner's replay is "not found".
    """


@replays.command()
@owned
@_selected
@begun
@printed
def start(session: Session, which: ReplayFilter, endpoint_id: Id | None, **given: Any) -> None:
    """Start a replay of what is finished by now.

    Of discarded deliveries, where no --state is given. Each keeps its `webhook-id`, has its attempts numbered on and
    gets a new budget; what fails again meanwhile is not taken again. Deliveries to endpoints that are disabled or
    removed, and of types that are internal now, stay as they are and are counted as skipped.
    """
    begin(session, which, endpoint_id, **given)


@replays.command("list")
@owned
@any_owner
@limited()
@click.option("--before", type=JOB_ID, metavar="ID", help="Go on after this one.")
@listed
def list_replays(session: Session, owner_id: str | None, limit: int, before: int | None, form: Form) -> None:
    """List replays, newest first."""

    async def work(app: App) -> None:
        def read(number: int, last: int | None) -> Any:
            return app.replays.list(owner_id, limit=number, before=last)

        listing = REPLAYS if owner_id is not None else REPLAYS.with_owner(lambda each: each.which.owner_id)
        await listing.write_pages(pages(read, limit=limit, start=before, key=lambda each: each.id), form)

    session.run(work)


@replays.command()
@owned
@any_owner
@REPLAY_ID
@click.option("--follow", "following", is_flag=True, help="Show how far it is until it ends; Ctrl-C leaves it running.")
@printed
def show(session: Session, owner_id: str | None, replay_id: int, following: bool, form: Form) -> None:
    """Show a replay: what it sends, how far it is, who started it and why."""
    replay = session.run(lambda app: app.replays.get(owner_id, replay_id))
    if following:
        follow(session, replay, owner_id, form)
    else:
        write_replay(replay, form)


def _switching(name: str, text: str) -> None:
    """Add a command that switches a replay."""

    @replays.command(name, help=text)
    @owned
    @any_owner
    @REPLAY_ID
    @click.option("--reason", type=FILLED, metavar="TEXT", help="Why, for the record.")
    @signed
    @printed
    def switch(session: Session, owner_id: str | None, replay_id: int, reason: str | None, by: str, form: Form) -> None:
        async def work(app: App) -> Replay:
            act: Any = getattr(app.replays, name)
            found: Replay = await act(owner_id, replay_id, by=by, reason=reason)
            return found

        write_replay(session.run(work), form)


_switching("pause", "Put nothing back from now on.\n\nWhat was put back is sent as usual.")
_switching("resume", "Go on where a paused replay stands, or one whose job has ended.")
_switching("cancel", "End a replay where it stands.\n\nWhat was put back is sent as usual.")
