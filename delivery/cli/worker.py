"""`tidings worker`: deliveries are made."""

from __future__ import annotations

import click

from delivery.cli.loops import run_loops
from delivery.cli.options import Act, connected
from delivery.cli.session import Session


@click.command(cls=Act)
@connected
@click.option("--quiet", is_flag=True, help="Log no attempts, only trouble.")
def worker(session: Session, quiet: bool) -> None:
    """Make deliveries until stopped.

    It relays nothing. Several may run, also beside `tidings up`. Exit codes are those of `up`.
    """
    run_loops(session, worker=True, quiet=quiet)
