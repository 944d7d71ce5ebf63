"""`tidings status`: how the platform stands, and what needs attention."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from delivery.alerts import Alert
from delivery.cli import documents, pausing
from delivery.cli.failures import ALERTED, Failed
from delivery.cli.lists import Listing
from delivery.cli.options import Act, connected, printed
from delivery.cli.output import Form, counted, instant_shown, shown, size, span, write_fields, write_json, write_line
from delivery.cli.place import place
from delivery.cli.session import Session
from delivery.jobs import FINAL_STATES
from delivery.status import MOST_COUNTED, Holder, KindStatus, Status

if TYPE_CHECKING:
    from delivery.app import App

#: Of the tables, so many are named to people.
_LARGEST = 3

KINDS: Listing[KindStatus] = Listing(
    headings=("Kind", "due", "Oldest due at", *(f"{state.value} (last hour)" for state in FINAL_STATES)),
    row=lambda each: (
        each.kind,
        _number(each.due),
        instant_shown(each.oldest_due),
        *(each.ended.get(state, 0) for state in FINAL_STATES),
    ),
    document=documents.kind_status,
    empty="no kinds of jobs",
)


@click.command(cls=Act)
@connected
@click.option("--check", is_flag=True, help=f"Exit with {ALERTED} where anything needs attention.")
@printed
def status(session: Session, check: bool, form: Form) -> None:
    """Show how the platform stands, over all owners, and what needs attention.

    The database and how to connect to it, the switches, who runs, what waits and for how long, what was discarded
    within the last hour, and how much space it takes. It costs the database little, whatever waits. For
    monitoring use --check: exit code 0 where all is well, 3 where an alert stands, 1 where nobody could look.
    """
    if session.makes_database:
        raise Failed(f"there is no database in {session.settings.home} yet: name another folder, or start `tidings up`")
    stands = session.run(_read)
    if form is Form.JSON:
        write_json(_document(stands))
    else:
        _write(stands)
    if check and stands.alerts:
        click.get_current_context().exit(ALERTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stands:
    """All that is told."""

    database: str
    dsn: str
    allow_local: bool
    status: Status
    alerts: Sequence[Alert]


async def _read(app: App) -> _Stands:
    status, alerts = await app.status()
    return _Stands(
        database=await app.database(),
        dsn=await place(app),
        allow_local=await app.allow_local(),
        status=status,
        alerts=alerts,
    )


def _document(stands: _Stands) -> dict[str, Any]:
    return {
        "database": stands.database,
        "dsn": stands.dsn,
        "allow_local": stands.allow_local,
        **documents.status(stands.status),
        "pauses": [pausing.document(each) for each in stands.status.pauses],
        "alerts": [documents.alert(each) for each in stands.alerts],
    }


def _write(stands: _Stands) -> None:
    status = stands.status
    for alert in stands.alerts:
        write_line(f"alert  {shown(alert.message)}: {shown(alert.advice)}")
    if stands.alerts:
        write_line()
    write_fields(
        [
            ("database", stands.database),
            ("dsn", stands.dsn),
            ("allow-local", "on" if stands.allow_local else "off"),
            ("running", _running(status)),
            *(("paused", pausing.line(each)) for each in status.pauses),
            ("outbox", _outbox(status)),
            ("poisoned", _poisoned(status.outbox.poisoned)),
            ("due", _due(status)),
            (
                "discarded",
                f"{status.discarded} of {counted(status.settled, 'delivery')} that ended within the last hour",
            ),
            ("vacuum", _vacuum(status.holders)),
            ("clock", _clock(status.skew)),
            ("space", _space(status)),
        ]
    )
    write_line()
    KINDS.write(status.kinds, Form.PEOPLE)
    write_line("\nnext: `tidings jobs overview` counts every job by its state")


def _running(status: Status) -> str:
    led = ", one of them leads the periodic jobs" if status.is_led else ""
    return f"{counted(status.relays, 'relay')}, {counted(status.workers, 'worker')}{led}"


def _outbox(status: Status) -> str:
    number = status.outbox.waiting
    if not number:
        return "no event waits for the relay"
    what = "1 event waits" if number == 1 else f"{_number(number)} events wait"
    return f"{what} for the relay, the oldest for {span(status.outbox.age)}"


def _poisoned(number: int) -> str:
    return f"{'1 event' if number == 1 else f'{_number(number)} events'} that the relay gave up"


def _due(status: Status) -> str:
    oldest = min((each.oldest_due for each in status.kinds if each.oldest_due is not None), default=None)
    if oldest is None:
        return "no job waits for a worker"
    number = sum(each.due for each in status.kinds)
    what = "1 job waits" if number == 1 else f"{_number(number)} jobs wait"
    return f"{what} for a worker, the oldest for {span(status.at - oldest)}"


def _vacuum(holders: Sequence[Holder]) -> str:
    if not holders:
        return "nothing holds it back"
    worst = holders[0]
    held = "for how long is not known" if worst.held is None else f"for {span(worst.held)}"
    return f"held back by {worst.what} {worst.name}, {held}, {counted(worst.transactions, 'transaction')}"


def _clock(skew: timedelta) -> str:
    way = "ahead of" if skew > timedelta(0) else "behind"
    return f"the database's is {span(abs(skew))} {way} this machine's"


def _space(status: Status) -> str:
    largest = ", ".join(f"{each.name} {size(each.total)}" for each in status.tables[:_LARGEST])
    return f"{size(sum(each.total for each in status.tables))}, most of it in {largest} (--json lists every table)"


def _number(count: int) -> str:
    return f"{MOST_COUNTED} or more" if count >= MOST_COUNTED else str(count)
