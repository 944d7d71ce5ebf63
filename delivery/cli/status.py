"""`tidings status`: how the platform stands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import click

from delivery.cli import documents
from delivery.cli.jobs import OVERVIEW
from delivery.cli.options import Act, connected, printed
from delivery.cli.output import Form, counted, moment, span, write_fields, write_json, write_line
from delivery.cli.place import place
from delivery.cli.session import Session
from delivery.events import EventFilter
from delivery.jobs import KindOverview

if TYPE_CHECKING:
    from delivery.app import App

#: Events that wait, and poisoned ones, are counted up to this, so many a query.
_MOST, _PAGE = 1000, 50
#: What waits for longer is taken up by nobody, or by too few.
_LONG = timedelta(seconds=10)


@click.command(cls=Act)
@connected
@printed
def status(session: Session, form: Form) -> None:
    """Show how the platform stands, over all owners.

    The database and how to connect to it, the switches, events that wait for the relay or that it gave up, and how
    many jobs are in which state.
    """
    stands = session.run(_read)
    if form is Form.JSON:
        write_json(_document(stands))
        return
    most = "at least " if stands.poisoned == _MOST else ""
    write_fields(
        [
            ("database", stands.database),
            ("dsn", stands.dsn),
            ("allow-local", "on" if stands.allow_local else "off"),
            ("outbox", _outbox(stands)),
            ("poisoned", f"{most}{counted(stands.poisoned, 'event')} that the relay gave up"),
            ("due", _due(stands)),
        ]
    )
    write_line()
    OVERVIEW.write(stands.kinds, form)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stands:
    """All that is told."""

    database: str
    dsn: str
    allow_local: bool
    poisoned: int
    waiting: Sequence[datetime]  #: when the newest events that wait for the relay were recorded, up to `_MOST`
    kinds: Sequence[KindOverview]
    now: datetime


async def _read(app: App) -> _Stands:
    poisoned = await app.events.list(EventFilter(poisoned=True), limit=_MOST)
    return _Stands(
        database=await app.database(),
        dsn=await place(app),
        allow_local=await app.allow_local(),
        poisoned=len(poisoned),
        waiting=await _waiting(app),
        kinds=await app.jobs.overview(),
        now=datetime.now(UTC),
    )


async def _waiting(app: App) -> list[datetime]:
    """Look back from the newest event, page by page, as far as events wait; the relay takes the oldest first."""
    found: list[datetime] = []
    last: UUID | None = None
    while len(found) < _MOST:
        page = await app.events.list(EventFilter(), limit=_PAGE, before=last)
        waiting = [event.id for event, relaying in page if relaying is not None and not relaying.poisoned]
        found += map(_recorded_at, waiting)
        if len(page) < _PAGE or not waiting:
            return found
        last = page[-1][0].id
    return found


def _recorded_at(event_id: UUID) -> datetime:
    """Read the time in a UUIDv7."""
    return datetime.fromtimestamp((event_id.int >> 80) / 1000, UTC)


def _document(stands: _Stands) -> dict[str, Any]:
    return {
        "database": stands.database,
        "dsn": stands.dsn,
        "allow_local": stands.allow_local,
        "waiting_events": len(stands.waiting),
        "oldest_waiting": moment(min(stands.waiting, default=None)),
        "poisoned_events": stands.poisoned,
        "jobs": [documents.overview(each) for each in stands.kinds],
    }


def _outbox(stands: _Stands) -> str:
    if not stands.waiting:
        return "no event waits for the relay"
    number, oldest = len(stands.waiting), stands.now - min(stands.waiting)
    most = "at least " if number >= _MOST else ""
    verb = "waits" if number == 1 else "wait"
    does = " (does one run? `tidings up` or `tidings relay`)" if oldest > _LONG else ""
    return f"{most}{counted(number, 'event')} {verb} for the relay, the oldest for {span(oldest)}{does}"


def _due(stands: _Stands) -> str:
    oldest = min((each.oldest_due for each in stands.kinds if each.oldest_due is not None), default=None)
    if oldest is None:
        return "no job waits for a worker"
    late = stands.now - oldest
    does = " (does one run? `tidings up` or `tidings worker`)" if late > _LONG else ""
    return f"jobs wait for a worker, the oldest for {span(late)}{does}"
