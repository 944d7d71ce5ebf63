"""`tidings doctor`: whether what the platform stands on is fit for it."""

from __future__ import annotations

from collections.abc import Sequence

import click

from delivery.cli import documents
from delivery.cli.failures import ALERTED, Failed
from delivery.cli.options import Act, connected, printed
from delivery.cli.output import Form, shown, write_json, write_line
from delivery.cli.session import Session
from delivery.doctor import Finding, Mark, worst


@click.command(cls=Act)
@connected
@printed
def doctor(session: Session, form: Form) -> None:
    """Check what the platform stands on, and say what to do about what is not fit.

    The database and its settings, how many connections it has left, its clock against this machine's, whether
    notifications are heard, partitions, keys, the names of endpoints, who runs, and the limit of open files.
    It looks from where it is run: run it where the workers run, as the account that they run as. Exit code 0
    where nothing is wrong, 3 where something is; a warning alone is 0. `tidings status` tells how the work stands.
    """
    if session.makes_database:
        raise Failed(f"there is no database in {session.settings.home} yet: name another folder, or start `tidings up`")
    findings = session.run(lambda app: app.doctor())
    if form is Form.JSON:
        write_json([documents.finding(each) for each in findings])
    else:
        _write(findings)
    if worst(findings) is Mark.WRONG:
        click.get_current_context().exit(ALERTED)


def _write(findings: Sequence[Finding]) -> None:
    for each in findings:
        write_line(f"{each.mark.value:<8} {each.check:<14} {shown(each.text)}")
        if each.advice:
            write_line(f"{'':<8} {'':<14} {shown(each.advice)}")
