"""`tidings demo`: kept promises end in 0, a broken one in 1, and nothing is left behind."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
from asyncio.subprocess import PIPE, Process
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from rich.console import Console

from delivery.cli.demo import playing, story
from delivery.cli.demo.receivers import CAST
from delivery.cli.demo.stage import Stage

ROOT = Path(__file__).resolve().parents[3]
PATIENCE_S = 100
#: How long the story waits for what is to come, at most: a machine that has much else to do breaks no promise.
PATIENCE = timedelta(seconds=50)
PATIENT = f"""
import sys
from datetime import timedelta
from delivery.cli.demo import story
story.PATIENCE = timedelta(seconds={PATIENCE.total_seconds()})
from delivery.cli import main
main()
"""


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that the account of the server can reach, for what the demo makes."""
    with tempfile.TemporaryDirectory(prefix="tidings-place-", dir="/tmp") as folder:
        Path(folder).chmod(0o711)
        yield Path(folder)


async def start(*options: str, **environment: str) -> Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        *("-c", PATIENT, "demo", *options),
        cwd=ROOT,
        env=os.environ | environment,
        stdout=PIPE,
        stderr=PIPE,
    )


def running_on(folder: str) -> list[str]:
    """List the processes whose command names the folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes()
        except OSError:
            continue  # it ended meanwhile
        if folder.encode() in command:
            found.append(command.replace(b"\0", b" ").decode(errors="replace"))
    return found


async def test_every_promise_is_kept_whatever_the_environment_says(place: Path):
    process = await start(TMPDIR=str(place), TIDINGS_DATABASE_URL="host=nowhere.invalid", TIDINGS_SLOTS="none at all")
    out, err = await asyncio.wait_for(process.communicate(), PATIENCE_S)
    said = out.decode()
    assert (process.returncode, err.decode()) == (0, ""), said
    assert said.count(" kept ") == 11  # one of which is how long all of it takes
    assert "broken 500 500 500 500 204 completed" in " ".join(said.split())
    assert "signature verified" in said
    assert "endpoint disabled: the receiver said so (http_410)" in said
    *_, end, then = said.splitlines()
    assert end == "Every promise was kept."
    assert then.startswith("next: `. .venv/bin/activate`, then `tidings up --allow-local`")
    assert not [line for line in said.splitlines() if len(line) > 100 or line != line.rstrip()]
    assert not list(place.iterdir())


async def test_a_broken_promise_is_named_and_told(place: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(story, "PATIENCE", PATIENCE)
    cast = [replace(role, answers=lambda _: 500) if role.name == "wobbly" else role for role in CAST]
    with (place / "said").open("w") as file:
        stage = Stage(Console(file=file, width=100))
        assert not await playing.run(place / "home", stage, cast=cast)
    said = (place / "said").read_text()
    (line,) = [line for line in said.splitlines() if " broken " in line and "wobbly" in line]
    assert "500 500 500 500" in line
    assert "1 of 11 promises broken." in said


async def test_a_broken_promise_ends_in_exit_code_1():
    program = (
        "from dataclasses import replace\n"
        "from delivery.cli.demo import demo, playing\n"
        "whole = playing.run\n"
        "cast = [replace(role, answers=lambda _: 500) for role in playing.CAST]\n"
        "playing.run = lambda home, stage, **given: whole(home, stage, cast=cast, **given)\n"
        "demo()\n"
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", program, cwd=ROOT, stdout=PIPE, stderr=PIPE)
    out, err = await asyncio.wait_for(process.communicate(), PATIENCE_S)
    assert (process.returncode, err.decode()) == (1, "")
    assert "promises broken." in out.decode()


@pytest.mark.parametrize(
    ("number", "moment", "code"),
    [
        (signal.SIGINT, b"starting a private PostgreSQL", 130),
        (signal.SIGINT, b"is committed", 130),
        (signal.SIGTERM, b"is rolled back", 143),
    ],
)
async def test_a_signal_leaves_neither_folder_nor_server(number: signal.Signals, moment: bytes, code: int, place: Path):
    process = await start(TMPDIR=str(place))
    assert process.stdout is not None
    while moment not in (line := await asyncio.wait_for(process.stdout.readline(), PATIENCE_S)):
        assert line
    (home,) = place.iterdir()
    process.send_signal(number)
    _, err = await asyncio.wait_for(process.communicate(), PATIENCE_S)
    assert (process.returncode, err.decode()) == (code, "")
    assert not home.exists()
    async with asyncio.timeout(PATIENCE_S):
        while running_on(str(home)):
            await asyncio.sleep(0.05)


async def test_a_given_folder_is_kept_and_played_in_only_once(place: Path):
    home = place / "home"
    process = await start("--home", str(home))
    out, _ = await asyncio.wait_for(process.communicate(), PATIENCE_S)
    assert process.returncode == 0
    assert f"tidings deliveries list --home {home}" in out.decode()
    assert (home / "pg18").exists()
    assert (home / "keys").exists()
    again = await start("--home", str(home))
    out, err = await asyncio.wait_for(again.communicate(), PATIENCE_S)
    assert (again.returncode, out.decode()) == (1, "")
    assert err.decode().count("\n") == 1
    assert "is not empty" in err.decode()
