"""`tidings endpoints`: where deliveries go."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import click

from delivery.classifier import Delivered
from delivery.cli import documents
from delivery.cli.credentials import credentialed
from delivery.cli.failures import Failed
from delivery.cli.lists import Listing, pages
from delivery.cli.options import Noun, any_owner, limited, listed, owned, printed, signed
from delivery.cli.output import (
    Form,
    instant_shown,
    span,
    write_fields,
    write_json,
    write_line,
)
from delivery.cli.parameters import DURATION, HEADER, ID, OVERRIDE
from delivery.cli.session import Session
from delivery.cli.signing_keys import REVEALED, list_keys, revealed_field, rotate_secret, scheme_option, show_jwks
from delivery.cli.trial import advice, write_tested
from delivery.jobs import JobState
from delivery.replay import DeliveryFilter
from subscriptions.model import (
    Endpoint,
    EndpointChanges,
    EndpointTarget,
    PayloadFormat,
    Subscription,
    TlsIdentity,
    UnopenedHeaders,
    described_tls,
)
from subscriptions.policies import POLICIES
from subscriptions.store import StoredKey

if TYPE_CHECKING:
    from delivery.app import App

Command = Callable[..., None]
Pairs = tuple[tuple[str, str], ...]

#: What a disabled endpoint parks.
WAITING = (JobState.PENDING, JobState.RETRYABLE)
#: Of these the endpoint's deliveries are counted; those that went well are many, and settled.
COUNTED = (JobState.PENDING, JobState.RUNNING, JobState.RETRYABLE, JobState.DISCARDED)

ENDPOINTS: Listing[Endpoint] = Listing(
    headings=("ID", "State", "URL", "Policy", "Description"),
    row=lambda each: (each.id, each.state.value, each.url, each.policy, each.description),
    document=documents.endpoint,
    empty="no endpoints yet: `tidings endpoints add URL`",
)

ENDPOINT_ID = click.argument("endpoint_id", type=ID, metavar="ID")


def _described(command: Command) -> Command:
    """Add the options that say what an endpoint is like."""
    for option in (
        click.option("--policy", metavar="NAME", help=f"When to retry: {', '.join(POLICIES)}."),
        click.option("--description", metavar="TEXT", help="One line for people."),
        click.option(
            "--header", "headers", type=HEADER, multiple=True, metavar="'NAME: VALUE'", help="Sent along; repeatable."
        ),
        click.option(
            "--format",
            type=click.Choice([each.value for each in PayloadFormat]),
            help="How events are written (envelope).",
        ),
        click.option("--limit", type=int, metavar="N", help="Deliveries in flight at once (10)."),
        click.option("--timeout", type=DURATION, metavar="DURATION", help="Of one attempt, DNS to last byte (10s)."),
        click.option(
            "--override",
            "overrides",
            type=OVERRIDE,
            multiple=True,
            metavar="OUTCOME=CLASS",
            help="Judge an outcome otherwise, as in http_409=delivered; repeatable.",
        ),
    ):
        command = option(command)
    return credentialed(command)


@click.group(cls=Noun)
def endpoints() -> None:
    """Say where deliveries go. Another owner's endpoint is "not found"."""


@endpoints.command()
@owned
@click.argument("url")
@_described
@scheme_option(default="v1")
@signed
@printed
def add(
    session: Session,
    url: str,
    policy: str | None,
    description: str | None,
    headers: Pairs,
    tls: TlsIdentity | None,
    format: str | None,
    limit: int | None,
    timeout: timedelta | None,
    overrides: Pairs,
    scheme: str,
    by: str,
    form: Form,
) -> None:
    """Add an endpoint and print what its receiver verifies with.

    A secret (v1) is shown here and never again; a public key (v1a) is no secret, and `endpoints keys` shows it again.
    """
    given: dict[str, Any] = {"policy": policy, "description": description, "limit": limit, "timeout": timeout}
    given |= {"scheme": scheme, "tls": tls, "format": PayloadFormat(format) if format else None}
    options = {name: value for name, value in given.items() if value is not None}
    if re.fullmatch(r"[\w.-]+:[0-9]+(/\S*)?", url):  # as a browser takes it
        raise Failed(f"the URL {url!r} has no scheme: write http://{url}{'' if '/' in url else '/'} or https://...")
    endpoint, key = session.run(
        lambda app: app.endpoints.add(session.owner, url, by=by, headers=headers, overrides=dict(overrides), **options)
    )
    if form is Form.JSON:
        write_json(documents.endpoint(endpoint) | documents.revealed(key))
        return
    write_fields([("endpoint", endpoint.id), ("url", endpoint.url), revealed_field(key)])
    write_line(f"\n{REVEALED[key.scheme]}: the receiver verifies with it.")
    write_line(f"next: `tidings subscriptions add NAME --endpoint {endpoint.id} PATTERN` says which events it gets,")
    write_line(f"      `tidings endpoints test {endpoint.id}` sends it one test event")


@endpoints.command("list")
@owned
@any_owner
@limited()
@click.option("--after", type=ID, metavar="ID", help="Go on after this one.")
@listed
def list_endpoints(session: Session, owner_id: str | None, limit: int, after: UUID | None, form: Form) -> None:
    """List endpoints that are not removed, oldest first."""

    async def work(app: App) -> None:
        def read(number: int, last: UUID | None) -> Any:
            return app.endpoints.list(owner_id, limit=number, after=last)

        listing = ENDPOINTS if owner_id is not None else ENDPOINTS.with_owner(lambda each: each.owner_id)
        await listing.write_pages(pages(read, limit=limit, start=after, key=lambda each: each.id), form)

    session.run(work)


@endpoints.command()
@owned
@ENDPOINT_ID
@printed
def show(session: Session, endpoint_id: UUID, form: Form) -> None:
    """Show one endpoint.

    With its retry policy, the keys that sign, and how many of its deliveries wait or were given up.
    """

    async def work(app: App) -> tuple[Endpoint, Sequence[StoredKey], dict[str, int]]:
        endpoint = await app.endpoints.get(session.owner, endpoint_id)
        counts = {}
        for state in COUNTED:
            counts[state.value] = await _count(app, endpoint, state)
        return endpoint, await app.endpoints.keys(session.owner, endpoint_id), counts

    endpoint, keys, counts = session.run(work)
    if form is Form.JSON:
        policy = POLICIES.get(endpoint.policy)
        described = {"policy_steps": None if policy is None else documents.policy(policy), "deliveries": counts}
        write_json(documents.endpoint(endpoint) | described | {"keys": [documents.key(each) for each in keys]})
        return
    write_fields(_fields(endpoint, keys, counts))


@endpoints.command()
@owned
@ENDPOINT_ID
@click.option("--url", metavar="URL", help="Send there from now on.")
@_described
@click.option("--no-headers", is_flag=True, help="Send no headers along any more.")
@click.option("--no-tls", is_flag=True, help="Show no certificate and trust the system's authorities again.")
@click.option("--no-overrides", is_flag=True, help="Judge by the table again.")
@signed
@printed
def update(
    session: Session,
    endpoint_id: UUID,
    url: str | None,
    policy: str | None,
    description: str | None,
    headers: Pairs,
    tls: TlsIdentity | None,
    format: str | None,
    limit: int | None,
    timeout: timedelta | None,
    overrides: Pairs,
    no_headers: bool,
    no_tls: bool,
    no_overrides: bool,
    by: str,
    form: Form,
) -> None:
    """Change an endpoint. Headers, certificates and overrides that are given replace all of theirs."""
    if (headers and no_headers) or (overrides and no_overrides) or (tls and no_tls):
        raise click.UsageError("an option and its --no- contradict each other")
    changes = EndpointChanges(
        url=url,
        policy=policy,
        description=description,
        headers=() if no_headers else headers or None,
        tls=TlsIdentity() if no_tls else tls,
        format=PayloadFormat(format) if format else None,
        limit=limit,
        timeout=timeout,
        overrides={} if no_overrides else dict(overrides) or None,
    )
    if changes == EndpointChanges():
        raise click.UsageError("nothing to change: give at least one option")
    _write(session.run(lambda app: app.endpoints.update(session.owner, endpoint_id, changes, by=by)), form)


@endpoints.command()
@owned
@ENDPOINT_ID
@signed
@printed
def enable(session: Session, endpoint_id: UUID, by: str, form: Form) -> None:
    """Let deliveries go out again, the parked ones too."""

    async def work(app: App) -> tuple[Endpoint, int]:
        endpoint = await app.endpoints.enable(session.owner, endpoint_id, by=by)
        return endpoint, await _count(app, endpoint, *WAITING)

    endpoint, number = session.run(work)
    _write(endpoint, form, ("deliveries", f"{number} that waited may go out now" if number else "none waits"))


@endpoints.command()
@owned
@ENDPOINT_ID
@click.option("--reason", default="by hand", show_default=True, metavar="TEXT", help="Why, for the record.")
@signed
@printed
def disable(session: Session, endpoint_id: UUID, reason: str, by: str, form: Form) -> None:
    """Park the endpoint's deliveries until it is enabled. What is being sent may still arrive."""

    async def work(app: App) -> tuple[Endpoint, int]:
        endpoint = await app.endpoints.disable(session.owner, endpoint_id, by=by, reason=reason)
        return endpoint, await _count(app, endpoint, *WAITING)

    endpoint, number = session.run(work)
    then = f"`tidings endpoints enable {endpoint.id}` lets them go"
    _write(endpoint, form, ("deliveries", f"{number} parked, and all that come: {then}"))


@endpoints.command()
@owned
@ENDPOINT_ID
@signed
@printed
def remove(session: Session, endpoint_id: UUID, by: str, form: Form) -> None:
    """Remove an endpoint for good.

    Its subscriptions go with it, and its deliveries are cancelled.
    """

    async def work(app: App) -> tuple[Endpoint, list[str], int]:
        names = [each.name for each in await app.subscriptions.list(session.owner) if _leads_to(each, endpoint_id)]
        endpoint = await app.endpoints.remove(session.owner, endpoint_id, by=by)
        which = DeliveryFilter(owner_id=session.owner, endpoint_id=endpoint_id, states=(JobState.CANCELLED,))
        cancelled = replace(which.as_jobs(), reason="endpoint_removed")
        return endpoint, names, await app.jobs.count(cancelled)

    endpoint, names, number = session.run(work)
    gone = ("subscriptions", f"{', '.join(names)} removed with it" if names else None)
    _write(endpoint, form, gone, ("deliveries", f"{number} cancelled"))


@endpoints.command()
@owned
@ENDPOINT_ID
@printed
def test(session: Session, endpoint_id: UUID, form: Form) -> None:
    """Send one signed test event now.

    Shows what came of it; nothing is recorded or retried. Exit code 1 where it was not delivered.
    """
    tested = session.run(lambda app: app.endpoints.test(session.owner, endpoint_id))
    answer, verdict = documents.answer(tested.answer), tested.verdict
    if form is Form.JSON:
        judged = {"outcome": verdict.outcome, "code": verdict.code, "rule": verdict.rule}
        write_json({"event_id": str(tested.event.id), "endpoint_id": str(endpoint_id)} | judged | answer)
    else:
        write_tested(tested, answer)
    if not isinstance(verdict, Delivered):
        raise Failed(f"the test event was not delivered ({verdict.code}): {advice(tested)}")


for command in (rotate_secret, list_keys, show_jwks):
    endpoints.add_command(command)


def _leads_to(one: Subscription, endpoint_id: UUID) -> bool:
    return isinstance(one.target, EndpointTarget) and one.target.endpoint_id == endpoint_id


async def _count(app: App, endpoint: Endpoint, *states: JobState) -> int:
    which = DeliveryFilter(owner_id=endpoint.owner_id, endpoint_id=endpoint.id, states=states)
    return await app.jobs.count(which.as_jobs())


def _fields(one: Endpoint, keys: Sequence[StoredKey], counts: dict[str, int]) -> list[tuple[str, object]]:
    waiting = ", ".join(f"{number} {state}" for state, number in counts.items())
    parked = " (those that wait are parked)" if one.state.value == "disabled" else ""
    return [
        *_brief(one),
        ("keys", _keys(keys)),
        ("policy", _policy(one.policy)),
        ("headers", _headers(one)),
        ("tls", ", ".join(described_tls(one.tls)) or None),
        ("format", one.format.value),
        ("limit", f"{one.limit} in flight"),
        ("timeout", span(one.timeout)),
        ("overrides", ", ".join(f"{code}={verdict}" for code, verdict in one.overrides.items()) or None),
        ("deliveries", waiting + parked),
        ("created", instant_shown(one.created_at)),
        ("updated", instant_shown(one.updated_at)),
    ]


def _brief(one: Endpoint) -> list[tuple[str, object]]:
    why = f" ({one.state_reason or 'no reason kept'}, by {one.state_by})" if one.state_by else ""
    return [
        ("endpoint", one.id),
        ("owner", one.owner_id),
        ("url", one.url),
        ("description", one.description or None),
        ("state", f"{one.state.value}{why}" if one.state.value != "enabled" else "enabled"),
    ]


def _headers(one: Endpoint) -> str | None:
    if isinstance(one.headers, UnopenedHeaders):
        return "sealed with a key that is not configured: put it into TIDINGS_KEYS again"
    return ", ".join(name for name, _ in one.headers) or None


def _keys(keys: Sequence[StoredKey]) -> str:
    schemes = ", ".join(each.scheme for each in keys)
    ends = [f"one until {instant_shown(each.expires_at)}" for each in keys if each.expires_at is not None]
    signs = "1 signs" if len(keys) == 1 else f"{len(keys)} sign"
    return ", ".join([f"{signs} ({schemes})", *ends]) if keys else "none signs"


def _policy(name: str) -> str:
    policy = POLICIES.get(name)
    if policy is None:
        return name
    steps = ", ".join(span(step) for step in policy.ladder)
    return f"{name}: after {steps} (the last repeats), {policy.max_attempts} attempts"


def _write(one: Endpoint, form: Form, *more: tuple[str, object]) -> None:
    if form is Form.JSON:
        write_json(documents.endpoint(one))
    else:
        write_fields([*_brief(one), *more])
