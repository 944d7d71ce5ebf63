"""Lists as arrays: what goes in comes out, of every type that is written."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delivery.adapters.postgres.database import Database
from delivery.adapters.postgres.pools import CONTEXT
from delivery.errors import InvalidInput

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"))
LISTS = {
    "text": TEXTS,
    "jsonb": st.sampled_from(['{"a": "b,\\\\c"}', "[1]", '"{}"']),
    "bigint": st.integers(-(2**63), 2**63 - 1),
    "float8": st.floats(allow_nan=False),
    "bool": st.booleans(),
    "bytea": st.binary(),
    "uuid": st.uuids(),
    "timestamptz": st.datetimes(datetime(1, 2, 1), datetime(9999, 12, 1), timezones=st.just(UTC)),
}


class Colour(StrEnum):
    RED = "red"


@pytest.fixture(scope="module")
def connection(server: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(server, autocommit=True, context=CONTEXT) as opened:
        yield opened


@pytest.mark.parametrize("kind", LISTS)
def test_what_is_written_is_read_again(kind: str, connection: psycopg.Connection[Any]) -> None:
    read = "::text[]" if kind == "jsonb" else ""
    written = "::jsonb[]::text[]" if kind == "jsonb" else f"::{kind}[]"

    @settings(max_examples=60)
    @given(st.lists(st.none() | LISTS[kind]))
    def run(values: list[Any]) -> None:
        assert connection.execute(f"SELECT %s{written}{read}", [values]).fetchall() == [(values,)]

    run()


def test_what_is_derived_from_a_type_is_written_as_that(connection: psycopg.Connection[Any]) -> None:
    assert connection.execute("SELECT %s::text[]", [[Colour.RED]]).fetchall() == [(["red"],)]


def test_a_list_of_lists_is_a_mistake_of_ours(connection: psycopg.Connection[Any]) -> None:
    with pytest.raises(TypeError, match="no array of list is written here"):
        connection.execute("SELECT %s::text[]", [[["a"]]])


async def test_nul_is_refused_and_nothing_is_cut_off(dsn: str) -> None:
    database = Database(dsn)
    await database.open()
    try:
        with pytest.raises(InvalidInput, match="NUL"):
            await database.fetch(b"SELECT %(texts)s::text[]", {"texts": ["a", "b\x00c"]})
    finally:
        await database.close()
