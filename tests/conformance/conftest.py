"""The bindings: every case runs on a real PostgreSQL, and on one of version 15 where it is installed.

Some run by way of a connection pooler, too, where that is installed.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql

from tests.databases import drop
from tests.places import quick_place

from .pooler import PGBOUNCER, WHY_NOT, pooling
from .postgres import PooledPostgresEngine, PostgresEngine, empty

#: Debian keeps each version's programs apart.
OLDEST = Path("/usr/lib/postgresql/15/bin")
#: The oldest one runs besides where it is installed, unless a server was given.
SERVERS = ["newest", "oldest"] if OLDEST.exists() and "TIDINGS_TEST_DATABASE_URL" not in os.environ else ["newest"]
#: PgBouncer before the newest.
POOLED = pytest.param("pooled", marks=pytest.mark.skipif(PGBOUNCER is None, reason=WHY_NOT))
QUICK = ("fsync=off", "synchronous_commit=off", "full_page_writes=off", "max_connections=300")


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker by which a case says what it needs of an engine."""
    config.addinivalue_line("markers", "needs(word): what an engine must be able to do; its binding says what it lacks")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each case on every server, and those that are named for it through the pooler."""
    if "engine" in metafunc.fixturenames:
        named = metafunc.module.__name__.rpartition("test_")[2] in (PooledPostgresEngine.cases or ())
        metafunc.parametrize("server", [*SERVERS, POOLED] if named else SERVERS, indirect=True, scope="session")


@pytest.fixture(scope="session")
def server(request: pytest.FixtureRequest, server: str) -> Iterator[str]:
    """DSN of a server's maintenance database."""
    if request.param == "oldest":
        yield from _installed()
    else:
        yield server


def _installed() -> Iterator[str]:
    """Run the server that is installed on a throw-away cluster; it refuses to run as root."""
    home = Path(tempfile.mkdtemp(prefix="tidings-15-", dir=quick_place()))
    as_whom: dict[str, Any] = {}
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        os.chown(home, nobody.pw_uid, nobody.pw_gid)
        as_whom = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
    data = home / "data"
    init = [OLDEST / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]
    subprocess.run(init, check=True, capture_output=True, cwd=home, **as_whom)
    conf = [part for setting in QUICK for part in ("-c", setting)]
    with (home / "log").open("wb") as log:
        postgres = subprocess.Popen(
            [OLDEST / "postgres", "-D", data, "-k", home, "-c", "listen_addresses=", *conf],
            stdout=log,
            stderr=log,
            cwd=home,
            **as_whom,
        )
    dsn = f"host={home} user=postgres dbname=postgres"
    try:
        _await_server(dsn)
        yield dsn
    finally:
        postgres.send_signal(signal.SIGINT)
        postgres.wait(90)
        shutil.rmtree(home, ignore_errors=True)


def _await_server(dsn: str) -> None:
    deadline = time.monotonic() + 90
    while True:
        try:
            psycopg.connect(dsn).close()
        except psycopg.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return


@pytest.fixture(scope="session")
def store(server: str, template: str) -> Iterator[str]:
    """DSN of the one database of all cases on a server: to make one each would take longer than most of them."""
    name = f"tidings_{uuid4().hex[:12]}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(
            sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), sql.Identifier(template))
        )
    yield psycopg.conninfo.make_conninfo(server, dbname=name)
    drop(server, name)


@pytest.fixture(scope="session")
def pooled(store: str) -> Iterator[str]:
    """DSN of that database by way of a pooler."""
    with pooling(store) as through:
        yield through


@pytest.fixture
async def engine(request: pytest.FixtureRequest, store: str) -> AsyncIterator[PostgresEngine]:
    """One empty store of the engine under test."""
    is_pooled = request.node.callspec.params["server"] == "pooled"
    binding = PooledPostgresEngine if is_pooled else PostgresEngine
    for mark in request.node.iter_markers("needs"):
        if mark.args[0] in binding.lacks:
            pytest.skip(binding.lacks[mark.args[0]])
    await empty(store)
    async with binding(store, through=request.getfixturevalue("pooled") if is_pooled else None) as engine:
        yield engine
