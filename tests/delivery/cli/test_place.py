"""A connection string that can be copied, and holds no secret. Pure."""

from __future__ import annotations

import psycopg
import pytest

from delivery.cli.place import connection_string


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"user": "a", "host": "db", "port": "5433", "dbname": "x"}, "postgresql://a@db:5433/x"),
        ({"host": "db", "dbname": "x", "sslmode": "require"}, "postgresql://db/x?sslmode=require"),
        ({"user": "t", "host": "/run/p", "port": "5432", "dbname": "t"}, "postgresql://t@/t?host=/run/p&port=5432"),
        ({"host": "a,b", "port": "1,2", "dbname": "x"}, "postgresql:///x?host=a%2Cb&port=1%2C2"),
        ({"host": "::1", "dbname": "x"}, "postgresql:///x?host=%3A%3A1"),
        ({"user": "a/b", "dbname": "x y", "password": "sesame", "options": "-c a=b"}, "postgresql://a%2Fb@/x%20y"),
    ],
)
def test_it_says_where_and_nothing_secret(parameters: dict[str, str], text: str):
    assert connection_string(parameters) == text
    kept = {name: value for name, value in parameters.items() if name not in {"password", "options"}}
    assert psycopg.conninfo.conninfo_to_dict(text) == kept
