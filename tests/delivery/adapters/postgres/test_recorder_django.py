"""Recording on `django.db.connection`, each test in a process of its own: Django is set up once a process."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

PREAMBLE = """
import json, sys
import django
from django.conf import settings
parts = json.loads(sys.argv[1])
settings.configure(
    USE_TZ=True,
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": parts.get("dbname"),
            "USER": parts.get("user", ""),
            "PASSWORD": parts.get("password", ""),
            "HOST": parts.get("host", ""),
            "PORT": parts.get("port", ""),
            "OPTIONS": OPTIONS,
        },
        "other": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"},
    },
)
django.setup()
from django.db import connection, connections, transaction
from delivery import errors
from delivery.adapters.postgres.recorder import PostgresRecorder

def record(data=1, on=connection):
    return PostgresRecorder().with_(on).record("acme", "invoice.paid", "it's 50%", data)
"""


class Django:
    """Runs lines of Python in a process where Django is set up on one database."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn

    def run(self, lines: str, options: str = "{}") -> None:
        script = PREAMBLE.replace("OPTIONS,", f"{options},") + lines
        parts = json.dumps(conninfo_to_dict(self._dsn))
        ended = subprocess.run([sys.executable, "-c", script, parts], capture_output=True, text=True, timeout=60)
        assert ended.returncode == 0, ended.stderr


@pytest.fixture
def django(dsn: str, connection: psycopg.Connection[Any]) -> Django:
    connection.execute("INSERT INTO tidings.event_type (type, exposure) VALUES ('invoice.paid', 'webhook')")
    return Django(dsn)


def payloads(connection: psycopg.Connection[Any]) -> list[str]:
    return [row[0] for row in connection.execute("SELECT data::text FROM tidings.event ORDER BY id")]


@pytest.mark.parametrize("options", ["{}", '{"server_side_binding": True}', '{"pool": True}'])
def test_an_atomic_block_commits_the_event(django: Django, connection: Any, options: str):
    django.run("with transaction.atomic(): record('é 50%')", options)
    assert payloads(connection) == ['"é 50%"']


def test_an_atomic_block_that_fails_takes_the_event_back(django: Django, connection: Any):
    django.run(
        """
try:
    with transaction.atomic():
        record()
        raise KeyError
except KeyError:
    pass
"""
    )
    assert payloads(connection) == []


def test_an_inner_atomic_block_that_fails_takes_its_event_back(django: Django, connection: Any):
    django.run(
        """
with transaction.atomic():
    record(1)
    try:
        with transaction.atomic():
            record(2)
            raise KeyError
    except KeyError:
        pass
"""
    )
    assert payloads(connection) == ["1"]


def test_outside_an_atomic_block_the_event_is_committed_by_itself(django: Django, connection: Any):
    django.run("record(); connection.close()")
    assert payloads(connection) == ["1"]


def test_what_was_bound_once_follows_the_connection_when_django_opens_it_anew(django: Django, connection: Any):
    django.run(
        """
bound = PostgresRecorder().with_(connection)
bound.record("acme", "invoice.paid", None, 1)
connection.close()
with transaction.atomic():
    bound.record("acme", "invoice.paid", None, 2)
"""
    )
    assert payloads(connection) == ["1", "2"]


def test_a_refusal_is_ours_not_djangos(django: Django):
    django.run(
        """
try:
    with transaction.atomic():
        record("\\x00")
except errors.InvalidEvent:
    pass
"""
    )


def test_a_connection_of_another_database_is_refused(django: Django):
    django.run(
        """
try:
    PostgresRecorder().with_(connections["other"])
except errors.InvalidInput as error:
    assert "django.db.connection" in str(error)
else:
    raise AssertionError
"""
    )
