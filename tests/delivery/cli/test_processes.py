"""Workers beside one another by one command: real processes, really killed."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from delivery.cli.processes import Others
from delivery.settings import read_settings

from .conftest import PATIENCE_S, Cli, Receiver, eventually, read_until


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def gone(pid: int) -> bool:
    """Say whether a process has ended; one that nobody has waited for yet has, too."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def workers(cli: Cli) -> int:
    with psycopg.connect(cli.environment["TIDINGS_DATABASE_URL"]) as connection:
        [[number]] = connection.execute("SELECT count(*) FROM tidings.worker WHERE until > now()").fetchall()
    return int(number)


def ended(process: subprocess.Popen[str], number: int) -> tuple[int, str]:
    process.send_signal(number)
    _, stderr = process.communicate(timeout=PATIENCE_S)
    return process.returncode, stderr


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
@pytest.mark.parametrize("command", ["worker", "up"])
def test_so_many_work_and_end_together(cli: Cli, receiver: Receiver, command: str, number: int, code: int):
    process = cli.having(TIDINGS_GRACE="60s").start(command, "--processes", "3")
    read_until(process, "ready")
    eventually(lambda: workers(cli) == 3)
    beside = children(process.pid)
    assert len(beside) == 2
    returned, stderr = ended(process, number)
    assert returned == code
    assert stderr.splitlines()[-1] == "stopped in order"
    assert all(gone(pid) for pid in beside)
    assert workers(cli) == 0, "each gave back what it held"


def test_one_that_is_killed_is_replaced(cli: Cli):
    process = cli.having(TIDINGS_GRACE="60s").start("worker", "--processes", "2")
    read_until(process, "ready")
    eventually(lambda: workers(cli) == 2)
    [first] = children(process.pid)
    os.kill(first, signal.SIGKILL)
    eventually(lambda: [pid for pid in children(process.pid) if pid != first and not gone(pid)])
    [second] = children(process.pid)
    returned, stderr = ended(process, signal.SIGTERM)
    assert (returned, gone(second)) == (0, True)
    assert "a worker process ended with SIGKILL; another one starts in 1 s" in stderr


def test_none_outlives_the_one_that_it_works_beside(cli: Cli):
    process = cli.start("worker", "--processes", "2")
    read_until(process, "ready")
    eventually(lambda: workers(cli) == 2)
    [beside] = children(process.pid)
    process.kill()
    process.communicate(timeout=PATIENCE_S)
    eventually(lambda: gone(beside))


def test_no_argument_tells_the_connection_string(cli: Cli):
    process = cli.start("worker", "--processes", "2")
    read_until(process, "ready")
    eventually(lambda: workers(cli) == 2)
    [beside] = children(process.pid)
    arguments = Path(f"/proc/{beside}/cmdline").read_bytes().decode().split("\0")
    ended(process, signal.SIGTERM)
    assert arguments[-5:-1] == ["delivery.cli", "worker", "--beside", str(process.pid)]


@pytest.mark.parametrize("number", ["0", "65", "two"])
def test_an_impossible_number_is_refused(cli: Cli, number: str):
    refused = cli.run("worker", "--processes", number)
    assert refused.exit_code == 2
    assert "--processes" in refused.stderr


#: Says that it is there, ends half a second after it is told to, and at once where it is told again.
_PATIENT = """
import os, pathlib, signal, sys, time
here = pathlib.Path(sys.argv[1]) / str(os.getpid())
told = 0
def tell(*_):
    global told
    told += 1
    here.write_text(f"told {told}")
signal.signal(signal.SIGTERM, tell)
here.write_text("ready")
while not told:
    time.sleep(0.01)
end = time.monotonic() + 0.5
while time.monotonic() < end:
    time.sleep(0.01)
"""


async def test_each_is_told_to_end_once_however_often_this_process_is(tmp_path: Path):
    others = Others(read_settings(database_url="postgresql:///none"), quiet=True)
    others._command = [sys.executable, "-c", _PATIENT, str(tmp_path)]

    def words() -> list[str]:
        return [each.read_text() for each in tmp_path.iterdir()]

    async with others.running(3):
        await asyncio.to_thread(eventually, words, lambda said: said == ["ready"] * 3)
        others.stop()
        await asyncio.to_thread(eventually, words, lambda said: said == ["told 1"] * 3)
        others.stop()
    assert words() == ["told 1"] * 3
