"""`tidings keys`: the keys that seal secrets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from delivery.cli import documents
from delivery.cli.failures import Failed
from delivery.cli.lists import Listing
from delivery.cli.options import Noun, connected, listed, printed
from delivery.cli.output import Form, counted, write_fields, write_json, write_line
from delivery.cli.parameters import FILLED
from delivery.cli.progress import Progress
from delivery.cli.session import Session

if TYPE_CHECKING:
    from delivery.api.keys import KeyUse, Rotation
    from delivery.app import App

KEYS: Listing[KeyUse] = Listing(
    headings=("ID", "Seals", "Known", "Values"),
    row=lambda each: (each.id, "yes" if each.seals else "no", "yes" if each.is_there else "MISSING", each.values),
    document=documents.key_use,
    empty="there are no keys",
)


@click.group(cls=Noun)
def keys() -> None:
    """Look after the keys that seal the signing secrets."""


@keys.command()
@click.option("--id", "key_id", type=FILLED, metavar="ID", help="Name of the key, kept with what it seals.")
@printed
def generate(key_id: str | None, form: Form) -> None:
    """Make a key and print it, here and nowhere else.

    Set it as TIDINGS_KEYS for every process. To rotate, put the new one in front of the old, with a comma, then run
    `tidings keys rotate`.
    """
    from delivery.sealing import KeyEncryptionKey

    key = KeyEncryptionKey.generate(key_id)
    if form is Form.JSON:
        write_json({"id": key.id, "key": key.reveal()})
    else:
        write_line(key.reveal())


@keys.command("list")
@connected
@listed
def list_keys(session: Session, form: Form) -> None:
    """List the keys, the one that seals first, and how many values each has sealed.

    One that is not the first and has sealed none may be left out, once every process knows the first.
    """
    KEYS.write(session.run(lambda app: app.keys.list()), form)


@keys.command()
@connected
@click.option("--new", is_flag=True, help="Make a new key in the state folder first; with TIDINGS_KEYS put it there.")
@printed
def rotate(session: Session, new: bool, form: Form) -> None:
    """Seal everything anew with the first key, while all goes on.

    Safe to run twice, and to end at any time: what is sealed with an older key still opens. Keep the older keys until
    `tidings keys list` counts nothing under them.
    """

    progress = Progress("sealing anew", visible=form is Form.PEOPLE)

    async def work(app: App) -> tuple[str, Rotation]:
        if new:
            app.keys.make()
        uses = await app.keys.list()
        progress.total = sum(each.values for each in uses if not each.seals)
        with progress:
            return uses[0].id, await app.keys.rotate(told=progress.advance)

    key_id, rotation = session.run(work)
    if form is Form.JSON:
        write_json({"key": key_id, "sealed": rotation.sealed, "left": rotation.left})
    else:
        write_fields([("key", key_id), ("sealed", f"{counted(rotation.sealed, 'value')} anew")])
    if rotation.left:
        why = f"; one of them says: {rotation.why}" if rotation.why else ""
        raise Failed(f"{counted(rotation.left, 'value')} left behind{why}")
