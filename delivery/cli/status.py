"""`tidings status`: how the platform stands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from delivery.cli import documents
from delivery.cli.jobs import OVERVIEW
from delivery.cli.options import Act, connected, printed
from delivery.cli.output import Form, counted, write_fields, write_json, write_line
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
    """Show how the platform stands, over all owners.

    The database, the switches, events that the relay gave up, and how many jobs are in which state.
    """
    database, local, poisoned, kinds = session.run(_read)
    if form is Form.JSON:
        jobs = [documents.overview(each) for each in kinds]
        write_json({"database": database, "allow_local": local, "poisoned_events": poisoned, "jobs": jobs})
        return
    most = "at least " if poisoned == _MOST else ""
    write_fields(
        [
            ("database", database),
            ("allow-local", "on" if local else "off"),
            (
                "poisoned",
                f"{most}{counted(poisoned, 'event')} that the relay gave up",
            ),
        ]
    )
    write_line()
    OVERVIEW.write(kinds, form)


async def _read(app: App) -> tuple[str, bool, int, Any]:
    poisoned = await app.events.list(EventFilter(poisoned=True), limit=_MOST)
    kinds: list[KindOverview] = list(await app.jobs.overview())
    return await app.database(), await app.allow_local(), len(poisoned), kinds
