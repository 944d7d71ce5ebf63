"""`tidings migrate`: bring the schema up to this release."""

from __future__ import annotations

from collections.abc import Sequence

import click

from delivery.cli.failures import Failed
from delivery.cli.options import Act, connected, printed
from delivery.cli.output import Form, counted, write_json, write_line, write_note
from delivery.cli.parameters import FILLED
from delivery.cli.session import Session, told_new


@click.command(cls=Act)
@connected
@click.option("--check", is_flag=True, help="Change nothing; exit code 1 where migrations are pending.")
@click.option("--grant-record", type=FILLED, metavar="ROLE", help="Let this role record events.")
@printed
def migrate(session: Session, check: bool, grant_record: str | None, form: Form) -> None:
    """Bring the schema up to this release.

    Safe to run twice, and while applications record."""
    if check and grant_record:
        raise click.UsageError("--check changes nothing: give --grant-record without it")
    from delivery.app import migrate_database

    is_new = session.makes_database
    names = session.run_bare(migrate_database(session.settings, check=check))
    if is_new:
        write_note(told_new(session.settings.home))
    _write(names, "pending" if check else "applied", form)
    if grant_record:  # by itself, so that a role that is refused leaves no doubt about what was applied
        session.run_bare(migrate_database(session.settings, grant_record=grant_record))
        if form is Form.PEOPLE:
            write_line(f"granted  role {grant_record!r} may record events")
    if check and names:
        raise Failed(f"{counted(len(names), 'migration')} pending: run `tidings migrate`")


def _write(names: Sequence[str], what: str, form: Form) -> None:
    if form is Form.JSON:
        write_json({what: names})
        return
    for name in names:
        write_line(f"{what}  {name}")
    if not names:
        write_line("nothing is pending: the schema is that of this release")
