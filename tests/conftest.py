"""One PostgreSQL for the test run, and a database of its own for each test that asks for one."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from psycopg import sql

import migrations
from delivery.adapters.embedded import EmbeddedPostgres
from tests.databases import drop, keep_out
from tests.places import quick_place

# How long one example takes says how busy the machine is, and nothing of the code.
settings.register_profile("tidings", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tidings")


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """DSN of a server's maintenance database: TIDINGS_TEST_DATABASE_URL, or an embedded one."""
    given = os.environ.get("TIDINGS_TEST_DATABASE_URL")
    if given:
        yield given
        return
    home = Path(tempfile.mkdtemp(prefix="tidings-test-", dir=quick_place()))
    home.chmod(0o711)
    # Autovacuum would come at any moment: between two looks at a table's size, or with statistics that change a plan.
    postgres = EmbeddedPostgres(home, durable=False, conf=("max_connections=300", "autovacuum=off"))
    yield postgres.start()
    postgres.stop()
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="session")
def template(server: str) -> Iterator[str]:
    """Name of a migrated database that others are copied from."""
    name = f"tidings_template_{uuid4().hex[:12]}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(
            sql.SQL("CREATE DATABASE {} ENCODING 'UTF8' TEMPLATE template0").format(sql.Identifier(name))
        )
    with psycopg.connect(server, dbname=name, autocommit=True) as connection:
        migrations.apply(connection)
    keep_out(server, name)
    yield name
    drop(server, name)


@pytest.fixture
def dsn(server: str, template: str) -> Iterator[str]:
    """DSN of a migrated database that no other test sees."""
    name = f"tidings_{uuid4().hex[:12]}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(
            sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY FILE_COPY").format(
                sql.Identifier(name), sql.Identifier(template)
            )
        )
    yield psycopg.conninfo.make_conninfo(server, dbname=name)
    drop(server, name)


@pytest.fixture
def empty_dsn(server: str) -> Iterator[str]:
    """DSN of an empty UTF-8 database."""
    name = f"tidings_{uuid4().hex[:12]}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(
            sql.SQL("CREATE DATABASE {} ENCODING 'UTF8' TEMPLATE template0").format(sql.Identifier(name))
        )
    yield psycopg.conninfo.make_conninfo(server, dbname=name)
    drop(server, name)


@pytest.fixture
def connection(dsn: str) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    """An autocommit connection to the test's database."""
    with psycopg.connect(dsn, autocommit=True) as opened:
        yield opened
