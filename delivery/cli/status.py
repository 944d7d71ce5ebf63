"""`tidings status`: how the platform stands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from delivery.cli import documents
from delivery.cli.jobs import OVERVIEW
from delivery.cli.options import Act, connected, printed
from delivery.cli.output import Form, write_fields, write_json, write_line
from delivery.cli.session import Session
from delivery.events import EventFilter
from delivery.jobs import KindOverview

if TYPE_CHECKING:
    from delivery.app import App

#: Poisoned events are counted up to this.
_MOST = 1000


@click.command(cls=Act)
@connected
@printed
def status(session: Session, form: Form) -> None:
    """Show the database, the switches, and how many jobs are in which state, over all owners."""
    database, local, poisoned, kinds = session.run(_read)
    if form is Form.JSON:
        counted = [documents.overview(each) for each in kinds]
        write_json({"database": database, "allow_local": local, "poisoned_events": poisoned, "jobs": counted})
        return
    write_fields(
        [
            ("database", database),
            ("allow-local", "on" if local else "off"),
            ("poisoned", f"{poisoned}{'+' if poisoned == _MOST else ''} events that the relay gave up"),
        ]
    )
    write_line()
    OVERVIEW.write(kinds, form)


async def _read(app: App) -> tuple[str, bool, int, Any]:
    poisoned = await app.events.list(EventFilter(poisoned=True), limit=_MOST)
    kinds: list[KindOverview] = list(await app.jobs.overview())
    return await app.database(), await app.allow_local(), len(poisoned), kinds
