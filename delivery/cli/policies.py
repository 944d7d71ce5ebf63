"""`tidings policies`: how deliveries are tried, and when they are given up."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from delivery.cli import completing, documents
from delivery.cli.endpoint_lines import described_ladder
from delivery.cli.lists import Listing
from delivery.cli.options import Noun, connected, listed, printed, signed
from delivery.cli.output import Form, counted, span, write_fields, write_json, write_line
from delivery.cli.parameters import DURATION, DURATIONS
from delivery.cli.session import Session
from subscriptions.model import ClientErrors, PolicyChanges, RetryPolicy

if TYPE_CHECKING:
    from delivery.api.policies import PolicyUse

Command = Callable[..., None]
Ladder = tuple[timedelta, ...]

#: What becomes of an answer such as 404, in words.
_CLIENT_ERRORS = {
    ClientErrors.SHORT: "tried again along the short ladder",
    ClientErrors.FULL: "tried again along the whole ladder",
    ClientErrors.DISCARD: "discarded at once",
}


def _document(one: PolicyUse) -> dict[str, Any]:
    return documents.policy(one.policy) | {"endpoints": one.endpoints}


POLICIES: Listing[PolicyUse] = Listing(
    headings=("Name", "Endpoints", "Attempts", "Timeout", "Max age", "Client errors", "Ladder"),
    row=lambda each: (
        each.policy.name,
        each.endpoints,
        each.policy.max_attempts,
        span(each.policy.timeout),
        each.policy.max_age and span(each.policy.max_age),
        each.policy.client_errors.value,
        _steps(each.policy.ladder),
    ),
    document=_document,
    empty="no policies",
)


def _described(command: Command) -> Command:
    """Add the options that say what a policy is like."""
    for option in reversed(
        (
            click.option(
                "--ladder",
                type=DURATIONS,
                metavar="DURATION,...",
                help="Delays after the first failure, the second and so on; the last repeats.",
            ),
            click.option(
                "--attempts",
                type=int,
                metavar="N",
                help="Attempts until it is given up (the ladder's delays, and one).",
            ),
            click.option(
                "--timeout", type=DURATION, metavar="DURATION", help="Of one attempt, DNS to last byte (10s)."
            ),
            click.option(
                "--max-age", type=DURATION, metavar="DURATION", help="Age at which it is given up (TIDINGS_MAX_AGE)."
            ),
            click.option(
                "--client-errors",
                type=click.Choice([each.value for each in ClientErrors]),
                help="What becomes of 401, 403, 404, 409 and every 4xx without a rule of its own: tried again along the"
                " short ladder, along the full one, or discarded at once (short).",
            ),
        )
    ):
        command = option(command)
    return command


NAME = click.argument("name", shell_complete=completing.policies)
OWN_NAME = click.argument("name", shell_complete=completing.own_policies)


@click.group(cls=Noun)
def policies() -> None:
    """Say how deliveries are tried. Policies belong to the platform, not to an owner.

    An endpoint goes by one: `endpoints add --policy NAME`. Some are built in and stay as they are.
    """


@policies.command()
@connected
@click.argument("name")
@_described
@signed
@printed
def add(
    session: Session,
    name: str,
    ladder: Ladder | None,
    attempts: int | None,
    timeout: timedelta | None,
    max_age: timedelta | None,
    client_errors: str | None,
    by: str,
    form: Form,
) -> None:
    """Add a policy. A repeat of the whole changes nothing.

    Without --ladder it is that of `standard`, as far as the attempts go.
    """
    given: dict[str, Any] = {"ladder": ladder, "max_attempts": attempts, "timeout": timeout, "max_age": max_age}
    given["client_errors"] = ClientErrors(client_errors) if client_errors else None
    options = {key: value for key, value in given.items() if value is not None}
    added = session.run(lambda app: app.policies.add(name, by=by, **options))
    _write(added, form)
    if form is Form.PEOPLE:
        write_line(f"\nnext: `tidings endpoints update ID --policy {added.policy.name}` lets an endpoint go by it")


@policies.command("list")
@connected
@listed
def list_policies(session: Session, form: Form) -> None:
    """List the policies: those that are built in, then the others by name."""
    POLICIES.write(session.run(lambda app: app.policies.list()), form)


@policies.command()
@connected
@NAME
@printed
def show(session: Session, name: str, form: Form) -> None:
    """Show one policy."""
    _write(session.run(lambda app: app.policies.get(name)), form)


@policies.command()
@connected
@OWN_NAME
@_described
@click.option("--no-max-age", is_flag=True, help="Take that of the platform again.")
@signed
@printed
def update(
    session: Session,
    name: str,
    ladder: Ladder | None,
    attempts: int | None,
    timeout: timedelta | None,
    max_age: timedelta | None,
    client_errors: str | None,
    no_max_age: bool,
    by: str,
    form: Form,
) -> None:
    """Change a policy, for its endpoints' deliveries from their next attempt on.

    What is not given stays: a longer ladder may need more --attempts.
    """
    if no_max_age and max_age is not None:
        raise click.UsageError("an option and its --no- contradict each other")
    changes = PolicyChanges(
        ladder=ladder,
        max_attempts=attempts,
        timeout=timeout,
        max_age=max_age,
        no_max_age=True if no_max_age else None,
        client_errors=ClientErrors(client_errors) if client_errors else None,
    )
    if changes == PolicyChanges():
        raise click.UsageError("nothing to change: give at least one option")
    _write(session.run(lambda app: app.policies.update(name, changes, by=by)), form)


@policies.command()
@connected
@OWN_NAME
@signed
@printed
def remove(session: Session, name: str, by: str, form: Form) -> None:
    """Remove a policy that no endpoint goes by."""
    _write(session.run(lambda app: app.policies.remove(name, by=by)), form, verb="removed")


def _write(one: PolicyUse, form: Form, *, verb: str = "policy") -> None:
    if form is Form.JSON:
        write_json(_document(one))
        return
    policy = one.policy
    write_fields(
        [
            (verb, f"{policy.name} (built in)" if documents.policy(policy)["built_in"] else policy.name),
            ("retries", described_ladder(policy)),
            ("timeout", f"{span(policy.timeout)}, where an endpoint has none of its own"),
            ("max age", "that of the platform" if policy.max_age is None else span(policy.max_age)),
            ("client errors", f"{policy.client_errors}: {_CLIENT_ERRORS[policy.client_errors]}"),
            ("short ladder", _short(policy)),
            ("used by", None if verb == "removed" else counted(one.endpoints, "endpoint")),
        ]
    )


def _steps(ladder: Ladder) -> str | None:
    return ", ".join(span(step) for step in ladder) or None


def _short(policy: RetryPolicy) -> str | None:
    steps = _steps(policy.short_ladder)
    return steps and f"{steps}; {policy.short_attempts} such answers in a row end it"
