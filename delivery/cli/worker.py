"""`tidings worker`: deliveries are made."""

from __future__ import annotations

import click

from delivery.cli.loops import run_loops
from delivery.cli.options import Act, connected, several, watched
from delivery.cli.session import Session


@click.command(cls=Act)
@connected
@click.option("--quiet", is_flag=True, help="Log no attempts, only trouble.")
@watched
@several
@click.option("--beside", type=int, hidden=True, help="End with the process of this number, which started this one.")
@click.option("--tells", is_flag=True, hidden=True, help="Tell it the numbers of this one, on standard output.")
def worker(session: Session, quiet: bool, processes: int, beside: int | None, tells: bool) -> None:
    """Make deliveries until stopped.

    It relays nothing. Several may run, also beside `tidings up`. Exit codes are those of `up`.
    """
    run_loops(session, worker=True, quiet=quiet, processes=processes, beside=beside, tells=tells)
