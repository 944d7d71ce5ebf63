"""`tidings keys`: the keys that seal secrets."""

from __future__ import annotations

import click

from delivery.cli.options import Noun, printed
from delivery.cli.output import Form, write_json, write_line
from delivery.cli.parameters import FILLED


@click.group(cls=Noun)
def keys() -> None:
    """Make keys that seal the signing secrets."""


@keys.command()
@click.option("--id", "key_id", type=FILLED, metavar="ID", help="Name of the key, kept with what it seals.")
@printed
def generate(key_id: str | None, form: Form) -> None:
    """Make a key and print it, here and nowhere else.

    Set it as TIDINGS_KEYS for every process. To rotate, put the new one in front of the old, with a comma.
    """
    from delivery.sealing import KeyEncryptionKey

    key = KeyEncryptionKey.generate(key_id)
    if form is Form.JSON:
        write_json({"id": key.id, "key": key.reveal()})
    else:
        write_line(key.reveal())
