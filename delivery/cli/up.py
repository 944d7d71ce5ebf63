"""`tidings up`: the whole platform in one process."""

from __future__ import annotations

import click

from delivery.cli.loops import run_loops
from delivery.cli.options import Act, connected, several, signed, watched
from delivery.cli.session import Session


@click.command(cls=Act)
@connected
@click.option(
    "--allow-local/--no-allow-local",
    default=None,
    help="Deliver to this machine and private networks too, or no longer; kept in the database until it is changed.",
)
@click.option("--quiet", is_flag=True, help="Log no attempts, only trouble.")
@watched
@several
@signed
def up(session: Session, allow_local: bool | None, quiet: bool, processes: int, by: str) -> None:
    """Run the whole platform: relay and worker.

    It runs until stopped, on the given PostgreSQL or on an embedded one. The embedded one is made, migrated and
    started here; a given one must be migrated (`tidings migrate`).

    Ctrl-C or SIGTERM stops in order; a second one aborts. Exit code 0 after SIGTERM, 130 after Ctrl-C.
    """
    run_loops(
        session,
        relay=True,
        worker=True,
        alone=True,
        allow_local=allow_local,
        by=by,
        quiet=quiet,
        processes=processes,
    )
