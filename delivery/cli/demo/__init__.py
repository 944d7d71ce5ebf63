"""`tidings demo`: the whole platform at work on this machine, with its promises put to the test.

::

    playing.py    where it is played, and its settings
    story.py      what happens, act by act
    receivers.py  who plays: four local receivers, each with a temper
    promises.py   what is promised, judged from what was seen
    stage.py      how it is printed

Nothing heavy is imported before the command runs.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from delivery.cli.options import Act
from delivery.cli.signals import Stop, Stopped
from delivery.errors import TidingsError


@click.command(cls=Act)
@click.option("--home", type=click.Path(path_type=Path), help="An empty folder to play in, which is kept.")
def demo(home: Path | None) -> None:
    """Show the whole platform at work, in under a minute.

    Plays a story on a private PostgreSQL and real local receivers, and puts the promises to the test; a broken one
    ends in exit code 1. Your own database and settings are not touched.
    """
    from delivery.cli.demo import playing

    stage = playing.stage()
    folder = playing.throwaway() if home is None else playing.kept_in(home)
    try:
        with Stop(lambda: stage.note("stopping")) as stop, folder as path:
            kept = stop.run(playing.run(path, stage, keeps=home is not None))
    except Stopped as stopped:
        sys.exit(stopped.exit_code)
    except TidingsError as error:
        raise click.ClickException(str(error)) from error
    if home is not None:
        stage.note(f"Look around: tidings deliveries list --home {home.absolute()}")
    if not kept:
        sys.exit(1)
    stage.note("next: `. .venv/bin/activate`, then `tidings up --allow-local`, and the first journey of README.md")
