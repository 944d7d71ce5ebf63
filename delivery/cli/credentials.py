"""What a delivery is let in with: options that become headers and a TLS identity, sealed like signing keys."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from subscriptions.errors import InvalidEndpoint
from subscriptions.headers import basic, bearer
from subscriptions.model import TlsIdentity

Command = Callable[..., None]
Pairs = tuple[tuple[str, str], ...]

#: Bytes that are read of a file of certificates.
_MOST_PEM = 262_144
_FILE = click.Path(path_type=Path)


def credentialed(command: Command) -> Command:
    """Add the options; the command, which takes `headers` itself, also takes `tls`."""

    @functools.wraps(command)
    def with_credentials(
        *args: Any,
        user_password: str | None,
        token: str | None,
        certificate: Path | None,
        certificate_key: Path | None,
        authorities: Path | None,
        headers: Pairs,
        **options: Any,
    ) -> None:
        tls = _identity(certificate, certificate_key, authorities)
        command(*args, headers=(*headers, *_authorization(user_password, token)), tls=tls, **options)

    wrapped: Command = with_credentials
    for option in (
        click.option("--basic", "user_password", metavar="USER:PASSWORD", help="Authenticate so: a header."),
        click.option("--bearer", "token", metavar="TOKEN", help="Authenticate so: a header."),
        click.option(
            "--client-certificate",
            "certificate",
            type=_FILE,
            metavar="FILE",
            help="Show this certificate (PEM, with its chain; its key too, or in --client-key).",
        ),
        click.option("--client-key", "certificate_key", type=_FILE, metavar="FILE", help="The certificate's key, PEM."),
        click.option(
            "--ca", "authorities", type=_FILE, metavar="FILE", help="Trust these authorities (PEM), no others."
        ),
    ):
        wrapped = option(wrapped)
    return wrapped


def _authorization(user_password: str | None, token: str | None) -> Pairs:
    if user_password is not None and token is not None:
        raise click.UsageError("--basic and --bearer contradict each other")
    try:
        if user_password is not None:
            user, colon, password = user_password.partition(":")
            if not colon:
                raise click.UsageError("--basic is written USER:PASSWORD; where there is no password, USER:")
            return (basic(user, password),)
        return () if token is None else (bearer(token),)
    except InvalidEndpoint as error:
        raise click.UsageError(str(error)) from None


def _identity(certificate: Path | None, key: Path | None, authorities: Path | None) -> TlsIdentity | None:
    if key is not None and certificate is None:
        raise click.UsageError("--client-key goes with --client-certificate")
    identity = TlsIdentity(
        certificate=_text(certificate, "--client-certificate"),
        key=_text(key, "--client-key"),
        authorities=_text(authorities, "--ca"),
    )
    return identity or None


def _text(file: Path | None, option: str) -> str | None:
    if file is None:
        return None
    try:
        with file.open("rb") as opened:
            data = opened.read(_MOST_PEM + 1)
        if len(data) > _MOST_PEM:
            raise click.BadParameter(f"{file} is too large for certificates", param_hint=option)
        return data.decode("ascii")
    except OSError as error:
        raise click.BadParameter(f"{file} cannot be read: {error.strerror}", param_hint=option) from None
    except UnicodeDecodeError:
        raise click.BadParameter(f"{file} is no PEM", param_hint=option) from None
