"""The keys that commands verify with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from signing import InvalidKeyError, WebhookVerifier

Command = Callable[..., None]

#: Bytes that are read of a file of secrets.
_MOST_SECRETS = 65_536


def keyed(command: Command) -> Command:
    """Add --secret and --secret-file; the command takes `secrets` and `secret_file`."""
    command = click.option("--secret-file", type=click.Path(path_type=Path), help="Read them from a file, one a line.")(
        command
    )
    return click.option(
        "--secret",
        "secrets",
        multiple=True,
        metavar="KEY",
        help="Verify with this secret (whsec_) or public key (whpk_); repeatable.",
    )(command)


def key_texts(given: Sequence[str], file: Path | None) -> list[str]:
    """Return the keys that were given and those of the file.

    Raises:
        BadParameter: the file cannot be read, or holds none.
    """
    texts = list(given)
    if file is not None:
        try:
            with file.open("rb") as opened:
                lines = opened.read(_MOST_SECRETS).decode().splitlines()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is no text"
            raise click.BadParameter(f"{file} cannot be read: {reason}", param_hint="--secret-file") from None
        texts += [line.strip() for line in lines if line.strip()]
        if not texts:
            raise click.BadParameter(f"{file} holds no secret", param_hint="--secret-file")
    return texts


def verifier_of(texts: Sequence[str], **options: Any) -> WebhookVerifier:
    """Return a verifier with these keys.

    Raises:
        BadParameter: one of them is none.
    """
    try:
        return WebhookVerifier(*texts, **options)
    except InvalidKeyError as error:
        raise click.BadParameter(str(error), param_hint="--secret") from None
