"""`tidings subscriptions`: which events go to which endpoint."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, BinaryIO
from uuid import UUID

import click

from delivery.cli import documents
from delivery.cli.completing import event_types
from delivery.cli.consent import Consent, destructive
from delivery.cli.ids import Id
from delivery.cli.lists import Listing
from delivery.cli.options import Noun, listed, owned, printed, signed
from delivery.cli.output import Form, write_fields, write_json, write_line
from delivery.cli.parameters import ENDPOINT, FILTER, encoded, payload
from delivery.cli.session import Session
from delivery.events import MAX_PAYLOAD_BYTES
from subscriptions.filters import parse_filter, read_payload
from subscriptions.model import EndpointTarget, Subscription, Target

if TYPE_CHECKING:
    from delivery.app import App


def _target(target: Target) -> str:
    return f"endpoint {target.endpoint_id}" if isinstance(target, EndpointTarget) else target.kind


SUBSCRIPTIONS: Listing[Subscription] = Listing(
    headings=("Name", "Patterns", "Filter", "Target"),
    row=lambda each: (each.name, ", ".join(each.patterns), each.filter or "", _target(each.target)),
    document=documents.subscription,
    empty="no subscriptions yet: `tidings subscriptions add NAME --endpoint ID PATTERN`",
)


_PLATFORM = click.option(
    "--platform", is_flag=True, help="Those of handlers for the events of every owner, in place of an owner's."
)


@click.group(cls=Noun)
def subscriptions() -> None:
    """Say which events go to which endpoint."""


@subscriptions.command()
@owned
@click.argument("name")
@click.argument("patterns", nargs=-1, required=True, metavar="PATTERN...", shell_complete=event_types)
@click.option("--endpoint", "endpoint_id", type=ENDPOINT, required=True, metavar="ID", help="Where they go.")
@click.option(
    "--filter",
    type=FILTER,
    metavar="EXPR",
    help="Only events whose data it holds for, as in '$.amount > 100' (see `tidings subscriptions test-filter`).",
)
@click.option("--future", is_flag=True, help="Take patterns that no declared type matches yet.")
@signed
@printed
def add(
    session: Session,
    name: str,
    patterns: tuple[str, ...],
    endpoint_id: Id,
    filter: str | None,
    future: bool,
    by: str,
    form: Form,
) -> None:
    """Send matching events to an endpoint from now on.

    A PATTERN matches types of events: `invoice.paid`, `invoice.*`, `*`. An endpoint gets each event once, however
    many patterns match. A repeat of the whole changes nothing.
    """

    async def work(app: App, whole: UUID) -> Subscription:
        return await app.subscriptions.add(session.owner, name, patterns, whole, by=by, future=future, filter=filter)

    added = session.run(work, endpoint_id)
    _write(added, form)
    if form is Form.PEOPLE:
        write_line("\nnext: `tidings events record TYPE --data '{}'` records an event to try it with")


@subscriptions.command("list")
@owned
@_PLATFORM
@listed
def list_subscriptions(session: Session, platform: bool, form: Form) -> None:
    """List the owner's subscriptions by name."""
    owner_id = None if platform else session.owner
    SUBSCRIPTIONS.write(session.run(lambda app: app.subscriptions.list(owner_id)), form)


@subscriptions.command("test-filter")
@click.argument("expression", type=FILTER, metavar="EXPR")
@click.option("--data", metavar="JSON", help="The data of an event.")
@click.option("--data-file", type=click.File("rb"), metavar="FILE", help="A file with the data (standard input).")
@printed
def test_filter(expression: str, data: str | None, data_file: BinaryIO | None, form: Form) -> None:
    """Try a filter over the data of an event, and say whether it holds. Needs no database.

    EXPR is what RFC 9535 (JSONPath) allows behind `?`, with $ for the data: comparisons (== != < <= > >=) joined by &&
    and ||, ! for not, and a path alone for something that has to be there. What is not there is no error. There are
    length(), count() and value(), and no regular expressions. Exit code 1: it cannot be worked out.
    """
    if data is not None and data_file is not None:
        raise click.UsageError("--data and --data-file are two ways to give one thing: give one of them")
    raw = encoded(data) if data is not None else (data_file or sys.stdin.buffer).read(MAX_PAYLOAD_BYTES + 1)
    holds = parse_filter(expression).matches(read_payload(payload(raw)))
    if form is Form.JSON:
        write_json({"filter": expression, "matches": holds})
    else:
        write_line("matches: such an event is sent" if holds else "does not match: such an event is not sent")


@subscriptions.command()
@owned
@click.argument("name")
@_PLATFORM
@destructive
@signed
@printed
def remove(session: Session, name: str, platform: bool, consent: Consent, by: str, form: Form) -> None:
    """Remove a subscription. Deliveries that stand are still made.

    A handler that is no longer in your code leaves one behind, by its name: its jobs wait for it and expire.
    """
    consent.require()
    owner_id = None if platform else session.owner
    if not consent.is_given:
        standing = session.run(lambda app: app.subscriptions.list(owner_id))
        for each in standing:
            if each.name == name:
                what = f"{', '.join(each.patterns)} to {_target(each.target)}"
                consent.ask(f"Remove subscription {name} ({what})? What is recorded without it is never sent there.")
    _write(session.run(lambda app: app.subscriptions.remove(owner_id, name, by=by)), form, removed=True)


def _write(one: Subscription, form: Form, *, removed: bool = False) -> None:
    if form is Form.JSON:
        write_json(documents.subscription(one))
        return
    verb = "removed" if removed else "subscription"
    write_fields(
        [
            (verb, one.name),
            ("patterns", ", ".join(one.patterns)),
            ("filter", one.filter),
            ("target", _target(one.target)),
        ]
    )
