"""`tidings pause`: start nothing of a kind, of an owner, or at all."""

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
def pause(session: Session, what: Paused, reason: str | None, by: str, form: Form) -> None:
    """Start no jobs of a kind, of an owner, or at all, until `resume`.

    What runs ends as it will. Events are recorded and relayed meanwhile, so that jobs wait, and nothing is lost but
    what gets too old (TIDINGS_MAX_AGE). `tidings status` shows it until it ends. For one endpoint there is
    `endpoints disable`.
    """
    made = session.run(lambda app: app.pauses.pause(what, by=by, reason=reason))
    write(made, form, ("next", "`tidings resume` with the same option lets it go on"))
