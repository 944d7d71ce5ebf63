"""`tidings deliveries watch`: deliveries as they end or fail."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import replace
from datetime import UTC
from typing import TYPE_CHECKING
from uuid import UUID

import click

from delivery.cli import documents
from delivery.cli.choosing import chosen
from delivery.cli.ids import Id
from delivery.cli.options import Act, owned
from delivery.cli.output import Form, shown, span, write_json, write_note
from delivery.cli.parameters import OUTCOME_STATE
from delivery.cli.session import Session
from delivery.errors import Unavailable
from delivery.jobs import JobOutcome, JobState
from delivery.replay import DeliveryFilter

if TYPE_CHECKING:
    from delivery.app import App

_COLOURS = {JobState.COMPLETED: "green", JobState.RETRYABLE: "yellow", JobState.DISCARDED: "red"}


@click.command(cls=Act)
@owned
@chosen(OUTCOME_STATE)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document a line.")
def watch(session: Session, which: DeliveryFilter, endpoint_id: Id | None, as_json: bool) -> None:
    """Watch deliveries as they end or fail, newest last.

    From now on, until Ctrl-C. One that failed and is tried again is `retryable`. It looks once a second, and costs the
    database little, however much is kept.
    """

    async def work(app: App, whole: UUID | None) -> None:
        await app.event_types.check(which.event_type)
        whose = "" if which.owner_id is None else f" of owner {which.owner_id}"
        outcomes = app.deliveries.watch(
            replace(which, endpoint_id=whole),
            started=lambda: write_note(f"watching deliveries{whose} from now on: Ctrl-C ends"),
            away=_tell_away,
        )
        async with aclosing(outcomes):
            async for outcome in outcomes:
                if as_json:
                    write_json(documents.outcome(outcome), Form.JSONL)
                else:
                    click.echo(_line(outcome, with_owner=which.owner_id is None))

    session.run(work, endpoint_id)


def _tell_away(error: Unavailable) -> None:
    write_note(f"{error}; looking again from where it stood")


def _line(one: JobOutcome, *, with_owner: bool) -> str:
    cells = (
        f"{one.at.astimezone(UTC):%H:%M:%S}Z",
        click.style(f"{one.state.value:<9}", fg=_COLOURS.get(one.state)),
        f"{one.id:>8}",
        f"#{one.attempt:<2}",
        f"{shown(_why(one)):<18}",
        *([f"{shown(one.owner_id or '-'):<12}"] if with_owner else []),
        f"{shown(one.args.get('type') or '-'):<20}",
        shown(f"endpoint {one.args.get('endpoint_id')}"),
        *([f"again in {span(one.next_at - one.at)}"] if one.next_at is not None else []),
    )
    return "  ".join(cells)


def _why(one: JobOutcome) -> str:
    return " ".join(dict.fromkeys(each for each in (one.reason, one.code) if each)) or "-"
