"""`tidings resume`: let go on what was paused."""

from __future__ import annotations

import click

from delivery.cli.options import Act, connected, printed, signed
from delivery.cli.output import Form
from delivery.cli.pausing import scoped, write
from delivery.cli.session import Session
from delivery.pauses import Paused


@click.command(cls=Act)
@connected
@scoped
@click.option("--reason", metavar="TEXT", help="Why, for the record.")
@signed
@printed
def resume(session: Session, what: Paused, reason: str | None, by: str, form: Form) -> None:
    """Let go on what was paused. What another pause holds, too, stays.

    What waits starts at once, as limits and rates allow.
    """
    ended = session.run(lambda app: app.pauses.resume(what, by=by, reason=reason))
    write(ended, form, ("now", "it goes on"))
