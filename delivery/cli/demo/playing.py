"""Where and how the demo is played: a private database in a folder of its own."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from pydantic import SecretStr
from rich.console import Console

from delivery.app import open_app
from delivery.cli.demo.receivers import CAST, Role
from delivery.cli.demo.stage import Stage
from delivery.cli.demo.story import play
from delivery.errors import ConfigurationError
from delivery.sealing import KeyEncryptionKey
from delivery.settings import Settings

#: A narrower terminal folds the tables; a wider one would stretch nothing.
_WIDTH = 100
_WIPES = 50


async def run(home: Path, stage: Stage, *, keeps: bool = False, cast: Sequence[Role] = CAST) -> bool:
    """Play the story on a private database in `home`; says whether every promise was kept."""
    stage.title("Tidings, from an order to its webhooks")
    stage.say("starting a private PostgreSQL 18")
    async with open_app(_settings(home, keeps=keeps)) as app:
        stage.say("started and migrated; relay and worker run in this process")
        promises = await play(app, stage, cast)
    broken = sum(not promise.kept for promise in promises)
    stage.end(f"{broken} of {len(promises)} promises broken." if broken else "Every promise was kept.", good=not broken)
    return not broken


def _settings(home: Path, *, keeps: bool) -> Settings:
    # The prefix keeps the settings of the platform that may live on this machine out of the demo.
    return Settings(
        _env_prefix="TIDINGS_DEMO_",
        home=home,
        keys=None if keeps else SecretStr(KeyEncryptionKey.generate().reveal()),
        allow="127.0.0.1",
        poll=timedelta(milliseconds=100),
        relay_poll=timedelta(milliseconds=50),
        grace=timedelta(seconds=2),
    )


@contextmanager
def throwaway() -> Iterator[Path]:
    """Make a state folder, and remove it whatever happens."""
    home = Path(tempfile.mkdtemp(prefix="tidings-demo-", dir=_open_to_all(Path(tempfile.gettempdir()))))
    home.chmod(0o711)
    try:
        yield home
    finally:
        for _ in range(_WIPES):  # a server that was stopped as it started may still be on its way out
            shutil.rmtree(home, ignore_errors=True)
            if not home.exists():
                break
            threading.Event().wait(0.1)


def _open_to_all(folder: Path) -> Path:
    """Return the folder, or /tmp: as root the database runs as `nobody`, who must be able to pass through."""
    closed = any(not parent.stat().st_mode & 0o001 for parent in (folder, *folder.resolve().parents))
    return Path("/tmp") if closed and os.geteuid() == 0 else folder  # noqa: S108 - its one user is named at random


@contextmanager
def kept_in(home: Path) -> Iterator[Path]:
    """Use an empty folder, and leave what is in it afterwards."""
    if home.exists() and (not home.is_dir() or any(home.iterdir())):
        raise ConfigurationError(f"{home} is not empty: the demo starts from nothing, so give it a folder of its own")
    yield home.absolute()


def stage() -> Stage:
    """Return a stage on standard output."""
    console = Console(highlight=False, markup=False, emoji=False)
    if console.width > _WIDTH or not console.is_terminal:
        console.width = _WIDTH
    return Stage(console)
