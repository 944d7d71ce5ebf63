"""`tidings event-types`: what may be recorded."""

from __future__ import annotations

import shlex

import click

from delivery.cli import documents
from delivery.cli.completing import event_types
from delivery.cli.lists import Listing
from delivery.cli.options import Noun, connected, listed, printed, signed
from delivery.cli.output import Form, write_fields, write_json, write_line
from delivery.cli.session import Session
from subscriptions.model import EventType, Exposure

TYPES: Listing[EventType] = Listing(
    headings=("Type", "Exposure", "Description"),
    row=lambda each: (each.type, each.exposure.value, each.description),
    document=documents.event_type,
    empty="no types yet: `tidings event-types declare TYPE --exposure webhook`",
)


@click.group("event-types", cls=Noun)
def event_type() -> None:
    """Declare the types of events. They belong to the platform, not to an owner."""


@event_type.command()
@connected
@click.argument("type", shell_complete=event_types)
@click.option(
    "--exposure",
    type=click.Choice([each.value for each in Exposure]),
    default=Exposure.INTERNAL.value,
    show_default=True,
    help="How far its events may go: `internal` ones never leave, `webhook` ones may be sent to endpoints.",
)
@click.option("--description", default="", metavar="TEXT", help="One line for people.")
@click.option("--change", is_flag=True, help="Alter a type that is declared otherwise.")
@signed
@printed
def declare(session: Session, type: str, exposure: str, description: str, change: bool, by: str, form: Form) -> None:
    """Declare TYPE, such as `invoice.paid`. Does nothing where it stands like this already."""
    declared = session.run(
        lambda app: app.event_types.declare(
            type, by=by, exposure=Exposure(exposure), description=description, change=change
        )
    )
    document = documents.event_type(declared)
    if form is Form.JSON:
        write_json(document)
    else:
        write_fields((name, value or None) for name, value in document.items())
        if declared.exposure is Exposure.INTERNAL:
            write_line(f"\nIts events never leave: `{exposing(declared)}` lets endpoints have them.")


def exposing(declared: EventType) -> str:
    """Return the command that lets the events of a type leave; its description stays."""
    kept = f" --description {shlex.quote(declared.description)}" if declared.description else ""
    return f"tidings event-types declare {declared.type} --exposure webhook{kept} --change"


@event_type.command("list")
@connected
@listed
def list_types(session: Session, form: Form) -> None:
    """List the declared types by name."""
    TYPES.write(session.run(lambda app: app.event_types.list()), form)
