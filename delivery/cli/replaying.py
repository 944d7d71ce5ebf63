"""Begin a replay, follow it, and print how it stands: what `replays` and `events replay` share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import UUID

import click

from delivery.cli import documents
from delivery.cli.failures import Failed
from delivery.cli.ids import Id
from delivery.cli.options import signed
from delivery.cli.output import Form, counted, instant_shown, shown, write_fields, write_json, write_line, write_note
from delivery.cli.parameters import FILLED
from delivery.cli.progress import Progress
from delivery.cli.session import Session
from delivery.cli.signals import Stopped
from delivery.replays import Replay, ReplayFilter, ReplayState, Source, Tally

if TYPE_CHECKING:
    from delivery.api.replays import Outlook
    from delivery.app import App

Command = Callable[..., None]

#: How often a replay that is followed is looked at, in seconds.
LOOK_EVERY_S = 0.5


def begun(command: Command) -> Command:
    """Add the options that every start of a replay takes; the command takes `pace`, `reason`, `dry_run` and `wait`."""
    wrapped = signed(command)
    for option in (
        click.option("--wait", is_flag=True, help="Show how far it is until it ends; Ctrl-C leaves it running."),
        click.option("--dry-run", is_flag=True, help="Count exactly what would be sent, and change nothing."),
        click.option("--reason", type=FILLED, metavar="TEXT", help="Why, for the record."),
        click.option(
            "--pace", type=float, metavar="NUMBER", help="Deliveries a second, such as 50 or 0.5 (as fast as it goes)."
        ),
    ):
        wrapped = option(wrapped)
    return wrapped


def progressed(replay: Replay) -> str:
    """Say in a word how far it is."""
    return f"{replay.tally.seen} of {replay.total}"


def state_shown(replay: Replay) -> str:
    """Say in a word how it stands."""
    return "stalled" if replay.is_stalled else replay.state.value


def begin(
    session: Session,
    which: ReplayFilter,
    endpoint_id: Id | None,
    *,
    pace: float | None,
    reason: str | None,
    dry_run: bool,
    wait: bool,
    by: str,
    form: Form,
) -> None:
    """Count or start a replay, to that endpoint where one is given, and print it."""
    if dry_run and wait:
        raise click.UsageError("--dry-run starts nothing to --wait for: give one of them")

    async def work(app: App, whole: UUID | None) -> tuple[Outlook, Replay | None]:
        for event_type in which.types:
            if "*" not in event_type:
                await app.event_types.check(event_type)
        app.replays.check(pace=pace, reason=reason)
        outlook = await app.replays.count(replace(which, endpoint_id=whole))
        if dry_run or not outlook.tally.put_back:
            return outlook, None
        return outlook, await app.replays.start(outlook, by=by, reason=reason, pace=pace)

    outlook, replay = session.run(work, endpoint_id)
    if replay is None:
        _write_outlook(outlook, form, dry_run=dry_run)
    elif wait:
        follow(session, replay, which.owner_id, form)
    else:
        write_replay(replay, form)


def follow(session: Session, replay: Replay, owner_id: str | None, form: Form) -> None:
    """Show how far a replay is until it runs no more, and print it.

    Raises:
        Failed: it did not complete, but was paused or cancelled, or its job has ended.
    """
    replay = _followed(session, replay, owner_id, form)
    write_replay(replay, form)
    if replay.state is not ReplayState.COMPLETED:
        raise Failed(f"replay {replay.id} is {state_shown(replay)}, with {progressed(replay)} seen")


def _followed(session: Session, replay: Replay, owner_id: str | None, form: Form) -> Replay:
    """Look at it again and again; returns it as it is when it runs no more."""
    progress = Progress("replaying", visible=form is Form.PEOPLE)
    progress.total = replay.total

    async def work(app: App) -> Replay:
        write_note(f"following replay {replay.id}: Ctrl-C leaves it running")
        with progress:
            while True:
                found = await app.replays.get(owner_id, replay.id)
                progress.advance(found.tally.seen - progress.done)
                if found.state is not ReplayState.RUNNING or found.is_stalled:
                    return found
                await asyncio.sleep(LOOK_EVERY_S)

    try:
        return session.run(work)
    except Stopped:
        write_note(
            f"it goes on without you: `tidings replays show {replay.id} --follow{_wide(replay)}` tells how far it is"
        )
        raise


def described(which: ReplayFilter) -> str:
    """Say what a replay takes."""
    if which.source is Source.EVENTS:
        found, made = "events", "recorded"
    else:
        found, made = " or ".join(each.value for each in which.states) + " deliveries", "made"
    status = which.statuses and "-".join(map(str, dict.fromkeys(which.statuses)))
    parts = (
        ("to", which.endpoint_id),
        ("of", " or ".join(which.types) or None),
        ("that ended with", which.error),
        ("judged", " or ".join(which.outcomes) or None),
        ("answered with", status),
        (f"{made} from", which.since and instant_shown(which.since)),
        (f"{made} before", which.until and instant_shown(which.until)),
        ("wanted by filters", "" if which.sifts else None),
        ("never delivered", "" if which.only_undelivered else None),
    )
    return " ".join([found, *(f"{words} {value}".rstrip() for words, value in parts if value is not None)])


def skips(tally: Tally) -> str:
    """Say how many were skipped, and why."""
    return ", ".join(f"{reason} {number}" for reason, number in sorted(tally.skipped.items())) or "none"


def write_replay(replay: Replay, form: Form) -> None:
    """Print a replay, and what to do next."""
    if form is Form.JSON:
        write_json(documents.replay(replay))
        return
    by, why = replay.state_by, f": {replay.state_reason}" if replay.state_reason else ""
    is_switched = replay.state in {ReplayState.PAUSED, ReplayState.CANCELLED}
    write_fields(
        [
            ("replay", replay.id),
            ("owner", replay.which.owner_id or "every owner"),
            ("sends", described(replay.which)),
            ("state", state_shown(replay) + (f" (by {by}{why})" if is_switched else "")),
            ("seen", progressed(replay)),
            ("put back", replay.tally.put_back),
            ("skipped", skips(replay.tally)),
            ("pace", None if replay.pace is None else f"{replay.pace:g} a second"),
            ("started", f"{instant_shown(replay.started_at)} by {replay.started_by}"),
            ("reason", replay.reason),
            ("ended", replay.ended_at and instant_shown(replay.ended_at)),
        ]
    )
    write_line(f"\nnext: {_next(replay)}")


def _wide(replay: Replay) -> str:
    """Return the option that finds it."""
    return " --any-owner" if replay.which.owner_id is None else ""


def _next(replay: Replay) -> str:
    wide = _wide(replay)
    if replay.is_stalled:
        job = f"`tidings jobs show {replay.job_id} --any-owner`"
        return f"its job has ended, which {job} tells of; `tidings replays resume {replay.id}{wide}` goes on"
    match replay.state:
        case ReplayState.PAUSED:
            resume, cancel = (f"`tidings replays {verb} {replay.id}{wide}`" for verb in ("resume", "cancel"))
            return f"{resume} goes on, {cancel} ends it"
        case ReplayState.RUNNING:
            return (
                f"the `tidings up` or `tidings worker` that runs goes through it;"
                f" `tidings replays show {replay.id} --follow{wide}` shows how far it is"
            )
        case _:
            return "`tidings deliveries list` shows what became of the deliveries"


def _write_outlook(outlook: Outlook, form: Form, *, dry_run: bool) -> None:
    tally, which = outlook.tally, outlook.which
    if form is Form.JSON:
        write_json({"id": None, "dry_run": dry_run} | documents.tally(tally))
        return
    also = f"; skipped: {skips(tally)}" if tally.skipped else ""
    if tally.put_back:
        thing = "event" if which.source is Source.EVENTS else "delivery"
        write_line(f"{counted(tally.put_back, thing)} to send{also}")
    else:
        write_line(shown(f"nothing to send: there are no {described(which)}" if not also else f"nothing to send{also}"))
