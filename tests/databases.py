"""Databases of tests: when nobody is in one any more, and how it goes."""

from __future__ import annotations

import time

import psycopg
from psycopg import sql

#: How long a server may take to end the sessions in a database: it waits for them for five seconds by itself.
PATIENCE_S = 60.0


def keep_out(server: str, name: str) -> None:
    """Let nobody into a database any more, and wait for those who leave: it may be copied from then on."""
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS false").format(sql.Identifier(name)))
        inside = "SELECT count(*) FROM pg_stat_activity WHERE datname = %s"
        deadline = time.monotonic() + PATIENCE_S
        while connection.execute(inside, [name]).fetchone() != (0,):
            assert time.monotonic() < deadline, f"somebody stays in {name}"
            time.sleep(0.02)


def drop(server: str, name: str) -> None:
    """Drop a database, whoever is connected to it."""
    deadline = time.monotonic() + PATIENCE_S
    with psycopg.connect(server, autocommit=True) as connection:
        while True:
            try:
                connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))
            except psycopg.errors.ObjectInUse:  # those who were told to leave have not got round to it
                if time.monotonic() > deadline:
                    raise
            else:
                return
