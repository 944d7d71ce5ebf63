"""`tidings event-types`: what may be recorded."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, BinaryIO

import click

from delivery.cli import documents
from delivery.cli.completing import event_types
from delivery.cli.lists import Listing
from delivery.cli.options import Noun, connected, listed, printed, signed
from delivery.cli.output import Form, write_fields, write_json, write_line
from delivery.cli.session import Session
from delivery.errors import InvalidInput
from subscriptions.model import Checks, EventType, Exposure
from subscriptions.schemas import MAX_SCHEMA_LENGTH

if TYPE_CHECKING:
    from delivery.app import App

TYPES: Listing[EventType] = Listing(
    headings=("Type", "Exposure", "Checks", "Description"),
    row=lambda each: (each.type, each.exposure.value, each.checks.value, each.description),
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
@click.option("--schema", type=click.File("rb"), metavar="FILE", help="A file with the JSON Schema of its data.")
@click.option("--no-schema", is_flag=True, help="Take away the schema that it has.")
@click.option(
    "--check",
    type=click.Choice([each.value for each in Checks]),
    help="What becomes of data that does not fit: `off`, `warn` (it is logged), `reject` (for a new schema).",
)
@click.option("--change", is_flag=True, help="Alter a type that is declared otherwise.")
@signed
@printed
def declare(
    session: Session,
    type: str,
    exposure: str,
    description: str,
    schema: BinaryIO | None,
    no_schema: bool,
    check: str | None,
    change: bool,
    by: str,
    form: Form,
) -> None:
    """Declare TYPE, such as `invoice.paid`. Does nothing where it stands like this already.

    Its schema stays as it is where none is given.
    """
    if schema is not None and no_schema:
        raise click.UsageError("--schema and --no-schema contradict each other: give one of them")
    text = "" if no_schema else None if schema is None else _schema(schema)
    checks = None if check is None else Checks(check)

    async def work(app: App) -> EventType:
        return await app.event_types.declare(
            type,
            by=by,
            exposure=Exposure(exposure),
            description=description,
            schema=text,
            checks=checks,
            change=change,
        )

    declared = session.run(work)
    document = documents.event_type(declared)
    if form is Form.JSON:
        write_json(document)
    else:
        write_fields((name, value or None) for name, value in document.items() if name != "schema")
        if declared.exposure is Exposure.INTERNAL:
            write_line(f"\nIts events never leave: `{exposing(declared)}` lets endpoints have them.")


def _schema(file: BinaryIO) -> str:
    """Read the text of a schema; more of it than there may be is refused as it is."""
    try:
        text = file.read(4 * MAX_SCHEMA_LENGTH + 1).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInput(f"the schema is not UTF-8 (byte {error.start}): encode it as UTF-8") from None
    if not text.strip():
        raise InvalidInput("the schema is empty: write JSON Schema, or give --no-schema to take one away")
    return text


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
