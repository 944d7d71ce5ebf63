"""A role as an application has one, and the platform's own eyes on a database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql

Connect = Callable[[], AbstractContextManager[psycopg.Connection[Any]]]


@pytest.fixture
def owner(empty_dsn: str) -> Iterator[psycopg.Connection[Any]]:
    """The superuser, autocommit, on an empty database."""
    with psycopg.connect(empty_dsn, autocommit=True) as connection:
        yield connection


@pytest.fixture
def role(empty_dsn: str) -> Iterator[str]:
    """Name of a role that may do nothing yet."""
    name = f"Tidings app {uuid4().hex[:8]}"  # wants quoting
    with psycopg.connect(empty_dsn, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE ROLE {}").format(sql.Identifier(name)))
        yield name
        connection.execute(sql.SQL("DROP OWNED BY {} CASCADE").format(sql.Identifier(name)))
        connection.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(name)))


@pytest.fixture
def as_role(empty_dsn: str, role: str) -> Connect:
    """Open an autocommit connection of that role."""

    @contextmanager
    def connect() -> Iterator[psycopg.Connection[Any]]:
        with psycopg.connect(empty_dsn, autocommit=True) as connection:
            connection.execute(sql.SQL("SET SESSION AUTHORIZATION {}").format(sql.Identifier(role)))
            yield connection

    return connect
