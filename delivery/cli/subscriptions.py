"""`tidings subscriptions`: which events go to which endpoint."""

from __future__ import annotations

import click

from delivery.cli import documents
from delivery.cli.completing import event_types
from delivery.cli.consent import Consent, destructive
from delivery.cli.ids import Id
from delivery.cli.lists import Listing
from delivery.cli.options import Noun, listed, owned, printed, signed
from delivery.cli.output import Form, write_fields, write_json, write_line
from delivery.cli.parameters import ENDPOINT
from delivery.cli.session import Session
from subscriptions.model import EndpointTarget, Subscription, Target


def _target(target: Target) -> str:
    return f"endpoint {target.endpoint_id}" if isinstance(target, EndpointTarget) else target.kind


SUBSCRIPTIONS: Listing[Subscription] = Listing(
    headings=("Name", "Patterns", "Target"),
    row=lambda each: (each.name, ", ".join(each.patterns), _target(each.target)),
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
@click.option("--future", is_flag=True, help="Take patterns that no declared type matches yet.")
@signed
@printed
def add(
    session: Session, name: str, patterns: tuple[str, ...], endpoint_id: Id, future: bool, by: str, form: Form
) -> None:
    """Send matching events to an endpoint from now on.

    A PATTERN matches types of events: `invoice.paid`, `invoice.*`, `*`. An endpoint gets each event once, however
    many patterns match. A repeat of the whole changes nothing.
    """
    added = session.run(
        lambda app, whole: app.subscriptions.add(session.owner, name, patterns, whole, by=by, future=future),
        endpoint_id,
    )
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
    write_fields([(verb, one.name), ("patterns", ", ".join(one.patterns)), ("target", _target(one.target))])
