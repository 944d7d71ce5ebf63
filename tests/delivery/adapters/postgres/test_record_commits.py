"""Commits that record do not queue behind one another, as commits that notify do."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

import migrations
from delivery.adapters.embedded import EmbeddedPostgres

Sql = psycopg.Connection[tuple[Any, ...]]
RECORD = "SELECT tidings.record('acme', 'invoice.paid', NULL, '{}')"
#: Notifies, and writes something, which a standby would have to have.
NOTIFY = "SELECT pg_notify('news', '') FROM pg_logical_emit_message(true, 'news', '')"
#: How many commits wait for a standby that never comes, and how their wait is ended.
HELD = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
RELEASE = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"


@pytest.fixture(scope="module")
def db() -> Iterator[Sql]:
    """A connection to a server where a commit waits for ever, unless its session says otherwise, as this one does."""
    home = Path(tempfile.mkdtemp(prefix="tidings-commits-"))
    home.chmod(0o711)
    postgres = EmbeddedPostgres(home, durable=False)
    try:
        with psycopg.connect(postgres.start(), autocommit=True, options="-c synchronous_commit=local") as db:
            migrations.apply(db)
            db.execute("INSERT INTO tidings.event_type (type, exposure) VALUES ('invoice.paid', 'webhook')")
            db.execute("SET lock_timeout = '5s'")
            db.execute("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
            db.execute("SELECT pg_reload_conf()")
            yield db
            db.execute("ALTER SYSTEM RESET synchronous_standby_names")
            db.execute("SELECT pg_reload_conf()")
    finally:
        postgres.stop()
        shutil.rmtree(home, ignore_errors=True)


@contextmanager
def committing(db: Sql, statement: str) -> Iterator[None]:
    """Have another session be in the midst of its commit meanwhile."""

    def commit() -> None:
        with psycopg.connect(db.info.dsn, autocommit=True) as other:
            other.execute("SET synchronous_commit = on")
            other.execute(statement)

    with ThreadPoolExecutor(1) as elsewhere:
        done = elsewhere.submit(commit)
        deadline = time.monotonic() + 60
        try:
            while db.execute(HELD).fetchone() != (1,):
                assert time.monotonic() < deadline, done
                time.sleep(0.02)
            yield
        finally:
            db.execute(RELEASE)
        done.result(60)


def test_a_commit_that_notifies_waits_for_one_that_does(db: Sql) -> None:
    """So the others below would, if they did."""
    with committing(db, NOTIFY), pytest.raises(psycopg.errors.LockNotAvailable):
        db.execute(NOTIFY)


def test_a_commit_that_records_does_not_wait_for_one_that_rings(db: Sql) -> None:
    """Nobody is awake, so the first of them rings."""
    with committing(db, RECORD):
        for _ in range(3):
            db.execute(RECORD)


def test_a_commit_that_records_does_not_wait_for_one_that_notifies_while_a_relay_is_awake(db: Sql) -> None:
    db.execute("INSERT INTO tidings.doorbell VALUES ('relay', now() + interval '1 hour')")
    with committing(db, NOTIFY):
        for _ in range(3):
            db.execute(RECORD)
