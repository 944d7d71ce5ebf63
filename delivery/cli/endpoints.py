"""`tidings endpoints`: where deliveries go."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import UUID

import click

from delivery.classifier import Delivered
from delivery.cli import completing, documents
from delivery.cli.consent import Consent, destructive
from delivery.cli.credentials import credentialed
from delivery.cli.endpoint_lines import brief, fields, headers_line, policy_line, rate_line, timeout_line, tls_line
from delivery.cli.failures import Failed
from delivery.cli.ids import Id
from delivery.cli.lists import Listing, pages
from delivery.cli.options import Noun, any_owner, limited, listed, owned, printed, signed
from delivery.cli.output import Form, counted, write_fields, write_json, write_line
from delivery.cli.parameters import DURATION, ENDPOINT, HEADER, OVERRIDE, RATE
from delivery.cli.session import Session
from delivery.cli.setup import export_setup, import_setup
from delivery.cli.signing_keys import REVEALED, list_keys, revealed_field, rotate_secret, scheme_option, show_jwks
from delivery.cli.trial import advice, write_tested
from delivery.health import Streak
from delivery.jobs import JobState
from delivery.replay import DeliveryFilter
from subscriptions.model import Endpoint, EndpointChanges, EndpointTarget, PayloadFormat, RetryPolicy, TlsIdentity
from subscriptions.rates import NO_RATE, Rate
from subscriptions.store import StoredKey

if TYPE_CHECKING:
    from delivery.app import App

Command = Callable[..., None]
Pairs = tuple[tuple[str, str], ...]
#: An endpoint, and the policy that it goes by.
Going = tuple[Endpoint, RetryPolicy | None]

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

ENDPOINT_ID = click.argument("endpoint_id", type=ENDPOINT, metavar="ID")


def _described(command: Command) -> Command:
    """Add the options that say what an endpoint is like."""
    for option in (
        click.option(
            "--policy",
            metavar="NAME",
            shell_complete=completing.policies,
            help="How to retry: one of `tidings policies list` (standard).",
        ),
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
        click.option(
            "--rate", type=RATE, metavar="N/s", help="Deliveries that may start in a second, or a minute (100/m)."
        ),
        click.option(
            "--burst", type=int, metavar="N", help="With --rate: so many at once after a rest (a second's worth)."
        ),
        click.option("--timeout", type=DURATION, metavar="DURATION", help="Of one attempt (its policy's)."),
        click.option(
            "--override",
            "overrides",
            type=OVERRIDE,
            multiple=True,
            metavar="OUTCOME=CLASS",
            help="Judge an outcome otherwise, as in http_409=delivered; or as retryable, short, snoozed, permanent or"
            " disable; repeatable.",
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
    rate: Rate | None,
    burst: int | None,
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
    given |= {
        "rate": _paced(rate, burst),
        "scheme": scheme,
        "tls": tls,
        "format": PayloadFormat(format) if format else None,
    }
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
@click.option("--after", type=ENDPOINT, metavar="ID", help="Go on after this one.")
@listed
def list_endpoints(session: Session, owner_id: str | None, limit: int, after: Id | None, form: Form) -> None:
    """List endpoints that are not removed, oldest first."""

    async def work(app: App, start: UUID | None) -> None:
        def read(number: int, last: UUID | None) -> Any:
            return app.endpoints.list(owner_id, limit=number, after=last)

        listing = ENDPOINTS if owner_id is not None else ENDPOINTS.with_owner(lambda each: each.owner_id)
        await listing.write_pages(pages(read, limit=limit, start=start, key=lambda each: each.id), form)

    session.run(work, after)


@endpoints.command()
@owned
@ENDPOINT_ID
@printed
def show(session: Session, endpoint_id: Id, form: Form) -> None:
    """Show one endpoint.

    With its retry policy, the keys that sign, and how many of its deliveries wait or were given up.
    """

    async def work(app: App, whole: UUID) -> tuple[Going, Streak | None, Sequence[StoredKey], dict[str, int]]:
        endpoint = await app.endpoints.get(session.owner, whole)
        policy = await app.endpoints.policy(endpoint)
        streak = await app.endpoints.health(session.owner, whole)
        counts = {}
        for state in COUNTED:
            counts[state.value] = await _count(app, endpoint, state)
        return (endpoint, policy), streak, await app.endpoints.keys(session.owner, whole), counts

    (endpoint, policy), streak, keys, counts = session.run(work, endpoint_id)
    if form is Form.JSON:
        described = {"policy_steps": None if policy is None else documents.policy(policy), "deliveries": counts}
        described |= {"failing": None if streak is None else documents.streak(streak)}
        write_json(documents.endpoint(endpoint) | described | {"keys": [documents.key(each) for each in keys]})
        return
    write_fields(fields(endpoint, policy, streak, keys, counts))


@endpoints.command()
@owned
@ENDPOINT_ID
@click.option("--url", metavar="URL", help="Send there from now on.")
@_described
@click.option("--no-headers", is_flag=True, help="Send no headers along any more.")
@click.option("--no-tls", is_flag=True, help="Show no certificate and trust the system's authorities again.")
@click.option("--no-rate", is_flag=True, help="Let deliveries start as they come again.")
@click.option("--no-timeout", is_flag=True, help="Take that of its policy again.")
@click.option("--no-overrides", is_flag=True, help="Judge by the table again.")
@signed
@printed
def update(
    session: Session,
    endpoint_id: Id,
    url: str | None,
    policy: str | None,
    description: str | None,
    headers: Pairs,
    tls: TlsIdentity | None,
    format: str | None,
    limit: int | None,
    rate: Rate | None,
    burst: int | None,
    timeout: timedelta | None,
    overrides: Pairs,
    no_headers: bool,
    no_tls: bool,
    no_rate: bool,
    no_timeout: bool,
    no_overrides: bool,
    by: str,
    form: Form,
) -> None:
    """Change an endpoint.

    Headers (with --basic and --bearer), certificates (with --ca) and overrides that are given replace all of their
    kind: give again what is to stay.
    """
    paced = _paced(rate, burst)
    numbers = (paced, no_rate), (timeout is not None, no_timeout)
    given = ((headers, no_headers), (overrides, no_overrides), (tls, no_tls), *numbers)
    if any(one and no_one for one, no_one in given):
        raise click.UsageError("an option and its --no- contradict each other")
    changes = EndpointChanges(
        url=url,
        policy=policy,
        description=description,
        headers=() if no_headers else headers or None,
        tls=TlsIdentity() if no_tls else tls,
        format=PayloadFormat(format) if format else None,
        limit=limit,
        rate=NO_RATE if no_rate else paced,
        timeout=timeout,
        no_timeout=True if no_timeout else None,
        overrides={} if no_overrides else dict(overrides) or None,
    )
    if changes == EndpointChanges():
        raise click.UsageError("nothing to change: give at least one option")

    async def work(app: App, whole: UUID) -> Going:
        endpoint = await app.endpoints.update(session.owner, whole, changes, by=by)
        return endpoint, await app.endpoints.policy(endpoint)

    endpoint, by_policy = session.run(work, endpoint_id)
    told = [("policy", policy_line(endpoint, by_policy)), ("timeout", timeout_line(endpoint, by_policy))]
    told += [("headers", headers_line(endpoint)), ("tls", tls_line(endpoint)), ("rate", rate_line(endpoint))]
    _write(endpoint, form, *told)


@endpoints.command()
@owned
@ENDPOINT_ID
@signed
@printed
def enable(session: Session, endpoint_id: Id, by: str, form: Form) -> None:
    """Let deliveries go out again, the parked ones too."""

    async def work(app: App, whole: UUID) -> tuple[Endpoint, int, int]:
        before = await app.endpoints.get(session.owner, whole)
        fresh, failed = [await _count(app, before, state) for state in WAITING]  # soon they are gone
        return await app.endpoints.enable(session.owner, whole, by=by), fresh, failed

    endpoint, fresh, failed = session.run(work, endpoint_id)
    _write(endpoint, form, ("deliveries", _told_enabled(fresh, failed)))


@endpoints.command()
@owned
@ENDPOINT_ID
@click.option("--reason", default="by hand", show_default=True, metavar="TEXT", help="Why, for the record.")
@signed
@printed
def disable(session: Session, endpoint_id: Id, reason: str, by: str, form: Form) -> None:
    """Park the endpoint's deliveries until it is enabled. What is being sent may still arrive."""

    async def work(app: App, whole: UUID) -> tuple[Endpoint, int]:
        endpoint = await app.endpoints.disable(session.owner, whole, by=by, reason=reason)
        return endpoint, await _count(app, endpoint, *WAITING)

    endpoint, number = session.run(work, endpoint_id)
    then = f"`tidings endpoints enable {endpoint.id}` lets them go"
    _write(endpoint, form, ("deliveries", f"{number} parked, and all that come: {then}"))


@endpoints.command()
@owned
@ENDPOINT_ID
@destructive
@signed
@printed
def remove(session: Session, endpoint_id: Id, consent: Consent, by: str, form: Form) -> None:
    """Remove an endpoint for good.

    Its subscriptions go with it, and its deliveries are cancelled.
    """
    consent.require()
    if not consent.is_given:
        whole, question = session.run(partial(_removing, session.owner), endpoint_id)
        consent.ask(question)
        endpoint_id = endpoint_id.exactly(whole)  # what was asked about, whatever has come meanwhile

    async def work(app: App, whole: UUID) -> tuple[Endpoint, list[str], int]:
        names = await _subscriptions(app, session.owner, whole)
        endpoint = await app.endpoints.remove(session.owner, whole, by=by)
        which = DeliveryFilter(owner_id=session.owner, endpoint_id=whole, states=(JobState.CANCELLED,))
        cancelled = replace(which.as_jobs(), reason="endpoint_removed")
        return endpoint, names, await app.jobs.count(cancelled)

    endpoint, names, number = session.run(work, endpoint_id)
    gone = ("subscriptions", f"{', '.join(names)} removed with it" if names else None)
    _write(endpoint, form, gone, ("deliveries", f"{number} cancelled"))


@endpoints.command()
@owned
@ENDPOINT_ID
@printed
def test(session: Session, endpoint_id: Id, form: Form) -> None:
    """Send one signed test event now.

    Shows what came of it; nothing is recorded or retried. Exit code 1 where it was not delivered.
    """
    tested = session.run(lambda app, whole: app.endpoints.test(session.owner, whole), endpoint_id)
    answer, verdict = documents.answer(tested.answer), tested.verdict
    if form is Form.JSON:
        judged = {"outcome": verdict.outcome, "code": verdict.code, "rule": verdict.rule}
        write_json({"event_id": str(tested.event.id), "endpoint_id": str(tested.endpoint.id)} | judged | answer)
    else:
        write_tested(tested, answer)
    if not isinstance(verdict, Delivered):
        raise Failed(f"the test event was not delivered ({verdict.code}): {advice(tested)}")


for command in (rotate_secret, list_keys, show_jwks, export_setup, import_setup):
    endpoints.add_command(command)


def _paced(rate: Rate | None, burst: int | None) -> Rate | None:
    """Put a rate and its burst together."""
    if rate is None and burst is not None:
        raise click.UsageError("--burst goes with --rate: give both, as --rate 10/s --burst 20")
    return rate if rate is None or burst is None else replace(rate, burst=burst)


async def _removing(owner_id: str, app: App, endpoint_id: UUID) -> tuple[UUID, str]:
    """Ask whether the endpoint may go, and say what goes with it."""
    endpoint = await app.endpoints.get(owner_id, endpoint_id)
    names = await _subscriptions(app, owner_id, endpoint_id)
    number = await _count(app, endpoint, *WAITING)
    along = f", with what subscribes it ({', '.join(names)})" if names else ""
    waiting = f", and cancel {counted(number, 'delivery')} that would go there" if number else ""
    return endpoint.id, f"Remove endpoint {endpoint.id} ({endpoint.url}) for good{along}{waiting}?"


async def _subscriptions(app: App, owner_id: str, endpoint_id: UUID) -> list[str]:
    target = EndpointTarget(endpoint_id=endpoint_id)
    return [each.name for each in await app.subscriptions.list(owner_id) if each.target == target]


def _told_enabled(fresh: int, failed: int) -> str:
    """Say what becomes of the deliveries that waited: those that failed before keep to their next try."""
    parts = [f"{fresh} that waited go out now, few at a time at first"] if fresh else []
    if failed:
        parts.append(f"{failed} failed before and go at their next try; `tidings deliveries retry` sends one now")
    return "; ".join(parts) or "none waits"


async def _count(app: App, endpoint: Endpoint, *states: JobState) -> int:
    which = DeliveryFilter(owner_id=endpoint.owner_id, endpoint_id=endpoint.id, states=states)
    return await app.jobs.count(which.as_jobs())


def _write(one: Endpoint, form: Form, *more: tuple[str, object]) -> None:
    if form is Form.JSON:
        write_json(documents.endpoint(one))
    else:
        write_fields([*brief(one), *more])
