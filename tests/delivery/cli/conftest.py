"""The command line on a database of its own, a receiver on a real socket, and the platform as a process."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from click.testing import CliRunner, Result
from psycopg import sql
from psycopg.conninfo import make_conninfo

from delivery.cli.root import tidings
from delivery.sealing import KeyEncryptionKey
from tests.databases import drop

TOP = Path(__file__).resolve().parents[3]
KEY = KeyEncryptionKey.generate("test").reveal()
PATIENCE_S = 60.0


@pytest.fixture
def dsn(dsn: str) -> str:
    """Let commands wait a little longer for a connection than is shipped."""
    return make_conninfo(dsn, connect_timeout=30)


#: Processes that the test at hand started, to be ended with it whatever comes of it.
_started: list[subprocess.Popen[str]] = []


@pytest.fixture(autouse=True)
def _nothing_is_left_running() -> Iterator[None]:
    """End what a test that failed left running; what runs beside it ends with it."""
    yield
    while _started:
        process = _started.pop()
        if process.poll() is None:
            process.kill()
            process.communicate(timeout=PATIENCE_S)


@dataclass(frozen=True, kw_only=True)
class Cli:
    """Run commands with an environment of their own."""

    environment: dict[str, str]
    runner: CliRunner = field(default_factory=CliRunner)

    def having(self, **environment: str) -> Cli:
        return Cli(environment=self.environment | environment)

    def without(self, *names: str) -> Cli:
        return Cli(environment={name: value for name, value in self.environment.items() if name not in names})

    def run(self, *args: object, stdin: str | bytes | None = None) -> Result:
        """Run one command in this process."""
        hidden = {name: None for name in os.environ if name.startswith("TIDINGS_")}
        return self.runner.invoke(
            tidings, [str(arg) for arg in args], input=stdin, env=hidden | self.environment, prog_name="tidings"
        )

    def __call__(self, *args: object, stdin: str | bytes | None = None) -> str:
        """Run one command that goes well, and return what it prints."""
        result = self.run(*args, stdin=stdin)
        assert result.exit_code == 0, result.stderr
        return result.stdout

    def json(self, *args: object) -> Any:
        """Run one command that goes well, and return its document."""
        return json.loads(self(*args, "--json"))

    def start(self, *args: object) -> subprocess.Popen[str]:
        """Start one command as a process of its own."""
        outside = {name: value for name, value in os.environ.items() if not name.startswith("TIDINGS_")}
        process = subprocess.Popen(
            [sys.executable, "-m", "delivery.cli", *map(str, args)],
            cwd=TOP,
            env=outside | self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        _started.append(process)
        return process

    @contextmanager
    def running(self, *args: object) -> Iterator[subprocess.Popen[str]]:
        """Run `up`, or what else is given, while the block runs."""
        process = self.start(*(args or ("up", "--quiet")))
        try:
            read_until(process, "ready")
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            try:
                process.communicate(timeout=PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                raise


def read_until(process: subprocess.Popen[str], word: str) -> list[str]:
    """Read a process's output up to the line that holds the word."""
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line.rstrip("\n"))
        if word in line:
            return lines
    raise AssertionError(f"{word!r} never came: {lines} {process.communicate()[1]}")


def eventually(look: Callable[[], Any], wanted: Callable[[Any], bool] = bool) -> Any:
    """Look again and again until it is as wanted."""
    deadline = time.monotonic() + PATIENCE_S
    while not wanted(found := look()):
        assert time.monotonic() < deadline, f"still {found!r}"
        time.sleep(0.05)
    return found


class Receiver:
    """A receiver that answers as it is told."""

    def __init__(self) -> None:
        self.status, self.body, self.headers = 200, b"ok", {}
        self.received: list[tuple[dict[str, str], bytes]] = []
        self.hold = threading.Event()  # answers only while it is set
        self.hold.set()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.received.append(({name.lower(): value for name, value in self.headers.items()}, body))
                receiver.hold.wait(PATIENCE_S)
                self.send_response(receiver.status)
                for name, value in receiver.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(receiver.body)))
                self.end_headers()
                self.wfile.write(receiver.body)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.block_on_close = False
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """A receiver on this machine."""
    made = Receiver()
    thread = threading.Thread(target=made.server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    yield made
    made.hold.set()
    made.server.shutdown()
    made.server.server_close()
    thread.join()


def cli_on(dsn: str, home: Path) -> Cli:
    return Cli(
        environment={
            "TIDINGS_DATABASE_URL": dsn,
            "TIDINGS_KEYS": KEY,
            "TIDINGS_HOME": str(home),
            "TIDINGS_ALLOW": "127.0.0.0/8",
            "TIDINGS_GRACE": "5s",
        }
    )


@pytest.fixture
def cli(dsn: str, tmp_path: Path) -> Cli:
    """The command line on a migrated database that no other test sees."""
    return cli_on(dsn, tmp_path)


@pytest.fixture
def declared(cli: Cli) -> Cli:
    """The same, with a type that may leave."""
    cli("event-types", "declare", "invoice.paid", "--exposure", "webhook")
    return cli


@pytest.fixture(scope="module")
def standing(server: str, template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cli]:
    """The command line on a migrated database that the tests of a module share, and none may change."""
    name = f"tidings_{uuid4().hex[:12]}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(
            sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY FILE_COPY").format(
                sql.Identifier(name), sql.Identifier(template)
            )
        )
    yield cli_on(psycopg.conninfo.make_conninfo(server, dbname=name), tmp_path_factory.mktemp("home"))
    drop(server, name)


@pytest.fixture
def home() -> Iterator[Path]:
    """A state folder that every account can reach, with a path short enough for a socket."""
    folder = Path(tempfile.mkdtemp(prefix="td-", dir="/tmp"))
    folder.chmod(0o755)
    yield folder / "home"
    shutil.rmtree(folder, ignore_errors=True)


def fingerprint(dsn: str) -> dict[str, str]:
    """Sum up every table of the platform."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        tables = connection.execute(
            "SELECT c.relname FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace"
            " WHERE n.nspname = 'tidings' AND c.relkind = 'r' ORDER BY 1"
        ).fetchall()
        query = sql.SQL("SELECT md5(coalesce(string_agg(t::text, ',' ORDER BY t::text), '')) FROM tidings.{} AS t")
        return {name: connection.execute(query.format(sql.Identifier(name))).fetchone()[0] for (name,) in tables}


def lines(text: str) -> dict[str, str]:
    """Read names and values as they are printed for people."""
    return dict(re.split(r"  +", line, maxsplit=1) for line in text.splitlines() if re.match(r"\S+  +\S", line))


def the_line(result: Result) -> str:
    """Return the one line of an error, and see that it is one."""
    lines = result.stderr.splitlines()
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("tidings: ")
    assert "Traceback" not in result.stderr
    assert "unexpected" not in lines[0]
    return lines[0].removeprefix("tidings: ")


@pytest.fixture
def refused() -> Callable[..., str]:
    """Run a command that must end in one clear line; return the line."""

    def run(cli: Cli, *args: object, code: int, stdin: str | bytes | None = None) -> str:
        result = cli.run(*args, stdin=stdin)
        assert result.exit_code == code, (result.exit_code, result.stdout, result.stderr)
        assert result.stdout == ""
        return the_line(result)

    return run
