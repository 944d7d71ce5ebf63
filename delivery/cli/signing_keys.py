"""`tidings endpoints rotate-secret`, `keys` and `jwks`: what deliveries to an endpoint are signed with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import UUID

import click

from delivery.cli import documents
from delivery.cli.consent import Consent, destructive
from delivery.cli.ids import Id
from delivery.cli.lists import Listing
from delivery.cli.options import Act, listed, owned, printed, signed
from delivery.cli.output import Form, instant_shown, span, write_fields, write_json, write_line
from delivery.cli.parameters import DURATION, ENDPOINT
from delivery.cli.session import Session
from signing import PublicKey, SenderKey, SigningKey, SigningSecret, jwks
from subscriptions.keys import OVERLAP, SCHEMES
from subscriptions.store import StoredKey

if TYPE_CHECKING:
    from delivery.app import App

Command = Callable[..., None]

#: What is said about a key that was just made.
REVEALED = {
    SigningSecret.scheme: "The secret is shown this once",
    SigningKey.scheme: "The public key is no secret",
}

_ENDPOINT_ID = click.argument("endpoint_id", type=ENDPOINT, metavar="ID")


def scheme_option(*, default: str | None) -> Callable[[Command], Command]:
    """Add the option that says how deliveries are signed."""
    unless = default or "that of the newest key"
    choice = click.Choice(list(SCHEMES))
    what = f"Sign with a shared secret, v1, or with ed25519, v1a ({unless})."
    return click.option("--scheme", type=choice, default=default, help=what)


def revealed_field(key: SenderKey) -> tuple[str, object]:
    """Return the line that shows what a receiver verifies with."""
    return "secret" if isinstance(key, SigningSecret) else "public key", key.verifying_key.reveal()


@click.command("rotate-secret", cls=Act)
@owned
@_ENDPOINT_ID
@click.option(
    "--overlap",
    type=DURATION,
    metavar="DURATION",
    help="How long the old keys sign too, so that the receiver can change at leisure (24h); at most 7d.",
)
@click.option("--revoke-now", is_flag=True, help="Let the old keys sign nothing any more: one of them is known.")
@scheme_option(default=None)
@destructive
@signed
@printed
def rotate_secret(
    session: Session,
    endpoint_id: Id,
    overlap: timedelta | None,
    revoke_now: bool,
    scheme: str | None,
    consent: Consent,
    by: str,
    form: Form,
) -> None:
    """Give an endpoint a new signing key and print what its receiver verifies with.

    A secret is shown here and never again. With another --scheme both sign until the overlap is over. To cut the old
    keys off at once cannot be undone, and is asked for.
    """
    if revoke_now and overlap:
        raise click.UsageError("--revoke-now and --overlap contradict each other")
    kept = timedelta(0) if revoke_now else OVERLAP if overlap is None else overlap
    if not kept:
        consent.require()
        consent.ask(
            f"Let the old keys of endpoint {endpoint_id.text} sign nothing any more?"
            " Its receiver refuses every delivery until it has the new one."
        )

    async def work(app: App, whole: UUID) -> tuple[UUID, SenderKey]:
        return whole, await app.endpoints.rotate_secret(session.owner, whole, by=by, overlap=kept, scheme=scheme)

    found, key = session.run(work, endpoint_id)
    if form is Form.JSON:
        write_json({"id": str(found)} | documents.revealed(key) | {"overlap_s": kept.total_seconds()})
        return
    write_fields([("endpoint", found), revealed_field(key)])
    write_line(f"\n{REVEALED[key.scheme]}. The old keys sign {f'for {span(kept)} more' if kept else 'no longer'}.")


@click.command("keys", cls=Act)
@owned
@_ENDPOINT_ID
@listed
def list_keys(session: Session, endpoint_id: Id, form: Form) -> None:
    """List the keys that sign deliveries to an endpoint, newest first.

    Of secrets nothing is shown. Public keys are read from the keys as they are sealed, so that takes TIDINGS_KEYS.
    """

    async def work(app: App, whole: UUID) -> tuple[Sequence[StoredKey], Mapping[UUID, PublicKey]]:
        keys = await app.endpoints.keys(session.owner, whole)
        are_public = any(each.scheme == SigningKey.scheme for each in keys)
        return keys, await app.endpoints.public_keys(session.owner, whole) if are_public else {}

    keys, public = session.run(work, endpoint_id)
    _listing({key_id: key.reveal() for key_id, key in public.items()}).write(keys, form)


@click.command("jwks", cls=Act)
@owned
@_ENDPOINT_ID
@printed
def show_jwks(session: Session, endpoint_id: Id, form: Form) -> None:
    """Print the public keys of an endpoint as a JWKS document, which is JSON in any case.

    Publish it where the receiver may fetch it: it holds the new key and the old while a rotation's overlap lasts.
    """
    keys = session.run(lambda app, whole: app.endpoints.public_keys(session.owner, whole), endpoint_id)
    write_json(jwks(keys.values()), form)


def _listing(public: Mapping[UUID, str]) -> Listing[StoredKey]:
    return Listing(
        headings=("ID", "Scheme", "Since", "Until", "Public key"),
        row=lambda each: (
            each.id,
            each.scheme,
            instant_shown(each.created_at),
            "rotated" if each.expires_at is None else instant_shown(each.expires_at),
            public.get(each.id),
        ),
        document=lambda each: documents.key(each) | {"public_key": public.get(each.id)},
        empty="no key signs: the endpoint was removed",
    )
