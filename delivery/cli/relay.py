"""`tidings relay`: events become deliveries."""

from __future__ import annotations

import click

from delivery.cli.loops import run_loops
from delivery.cli.options import Act, connected, watched
from delivery.cli.session import Session


@click.command(cls=Act)
@connected
@click.option("--quiet", is_flag=True, help="Log only trouble.")
@watched
def relay(session: Session, quiet: bool) -> None:
    """Turn events into deliveries until stopped.

    It sends nothing. Several may run, also beside `tidings up`. Exit codes are those of `up`.
    """
    run_loops(session, relay=True, quiet=quiet)
