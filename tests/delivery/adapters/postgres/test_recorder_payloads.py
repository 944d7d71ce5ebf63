"""What is recorded is what is sent, byte for byte, or it is refused at once."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from enum import StrEnum
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from delivery.adapters.postgres.recorder import PostgresRecorder
from delivery.errors import InvalidEvent, PayloadTooLarge, UnknownEventType
from delivery.events import MAX_PAYLOAD_BYTES, JsonText

Sql = psycopg.Connection[Any]


@pytest.fixture
def db(dsn: str) -> Iterator[Sql]:
    """A connection to a database that declares `invoice.paid`; its transaction is never committed."""
    with psycopg.connect(dsn) as connection:
        connection.execute("INSERT INTO tidings.event_type (type, exposure) VALUES ('invoice.paid', 'webhook')")
        connection.commit()
        yield connection
        connection.rollback()


def record(db: Sql, data: Any = None, **fields: Any) -> Any:
    given_ = {"owner_id": "acme", "type": "invoice.paid", "subject": None, **fields}
    return PostgresRecorder().with_(db).record(data=data, **given_)


def kept(db: Sql) -> str:
    """Return the payload that was recorded, as the bytes that lie in the database."""
    (row,) = db.execute("SELECT convert_to(data::text, 'UTF8') FROM tidings.event").fetchall()
    return row[0].decode("utf-8")


#: JSON text that a program that parses and writes again would change.
TEXTS = [
    '{"b":1,"a":2}',
    '{"a":1,"a":2}',
    '{ "a" :\t[ 1 ,\r\n2 ] }\n',
    "1.0",
    "1e400",
    "-0",
    "-0.0e-0",
    "1E+2",
    "0.1000000000000000000000000000000000001",
    "123456789012345678901234567890123456789012345678901234567890",
    "9007199254740993",
    r'"\u0041\/\"\\\b\f\n\r\t\u00e9"',
    '"A/é日本🎉\u2028\u2029\x7f\u0085\ufffe"',
    r'{"\u0061":1,"a":2}',
    "null",
    '""',
    '{"":{}}',
    "[]",
    " true ",
    "\"50% of %(name)s %s %% {x} $1 'it''s' ; -- \"",
]


@pytest.mark.parametrize("text", TEXTS)
def test_json_text_is_kept_byte_for_byte(db: Sql, text: str):
    record(db, JsonText(text))
    assert kept(db) == text


@pytest.mark.parametrize("text", TEXTS)
def test_raw_sql_keeps_json_text_byte_for_byte(db: Sql, text: str):
    db.execute("SELECT tidings.record('acme', 'invoice.paid', NULL, %s::json)", (text,))
    assert kept(db) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"b": 1, "a": [True, None]}, '{"b":1,"a":[true,null]}'),
        ({"z": "é日本🎉"}, '{"z":"é日本🎉"}'),
        (1.0, "1.0"),
        (-0.0, "-0.0"),
        (0.1 + 0.2, "0.30000000000000004"),
        (1e300, "1e+300"),
        (10**60, "1" + "0" * 60),
        ('a\n"\\', r'"a\n\"\\"'),
        ('{"a": 1}', r'"{\"a\": 1}"'),
        (None, "null"),
        (False, "false"),
        ((1, 2), "[1,2]"),
        ({1: "one", None: 0}, '{"1":"one","null":0}'),
        (r"\u0000", r'"\\u0000"'),
    ],
)
def test_a_python_value_is_written_as_compact_json_in_its_own_order(db: Sql, value: Any, text: str):
    record(db, value)
    assert kept(db) == text


class Loop(list[Any]):
    """A list that holds itself."""

    def __init__(self) -> None:
        self.append(self)


def nested(depth: int) -> list[Any]:
    found: list[Any] = []
    for _ in range(depth):
        found = [found]
    return found


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        [float("-inf")],
        {float("nan"): 1},
        b"bytes",
        {"a": b"bytes"},
        {b"a": 1},
        {("a",): 1},
        {1, 2},
        object(),
        datetime.now(UTC),
        Loop(),
        10**5000,
        nested(sys.getrecursionlimit() * 200),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_that_is_no_json_is_refused_and_says_what_to_pass(db: Sql, value: Any):
    with pytest.raises(InvalidEvent, match=r"cannot be written as JSON: .*; pass plain JSON values or JsonText"):
        record(db, value)


@pytest.mark.parametrize("text", ["", " ", "NaN", "{a:1}", "[1,]", "01", "'a'", '"\t"', '"\\x"', '"\\u12"', "\ufeff1"])
def test_json_text_that_is_no_json_is_refused(db: Sql, text: str):
    with pytest.raises(InvalidEvent, match="json"):
        record(db, JsonText(text))


def test_json_text_that_is_nested_too_deeply_for_the_database_is_refused(db: Sql):
    with pytest.raises(InvalidEvent, match="nested too deeply"):
        record(db, JsonText("[" * 100_000 + "]" * 100_000))


# Size ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("char", ["a", "é", "日", "🎉"])
def test_exactly_the_limit_is_accepted(db: Sql, char: str):
    room = MAX_PAYLOAD_BYTES - 2
    size = len(char.encode())
    text = '"' + char * (room // size) + "a" * (room % size) + '"'
    record(db, JsonText(text))
    assert len(kept(db).encode()) == MAX_PAYLOAD_BYTES


@pytest.mark.parametrize("char", ["a", "é", "日", "🎉"])
def test_one_byte_over_the_limit_is_refused_with_both_numbers(db: Sql, char: str):
    room = MAX_PAYLOAD_BYTES - 1
    size = len(char.encode())
    text = '"' + char * (room // size) + "a" * (room % size) + '"'
    with pytest.raises(PayloadTooLarge, match=r"is 262145 bytes of JSON text; the limit is 262144 \(256 KiB\)"):
        record(db, JsonText(text))


# NUL and surrogates -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        JsonText(r'"\u0000"'),
        JsonText(r'"a\u0000b"'),
        JsonText(r'"\\\u0000"'),
        JsonText(r'"\\\\\u0000\\"'),
        JsonText(r'{"\u0000":1}'),
        JsonText('"\x00"'),
        "\x00",
        {"\x00": 1},
        ["a\x00"],
        "\\\x00",
    ],
)
def test_nul_is_refused_in_a_payload(db: Sql, data: Any):
    with pytest.raises(InvalidEvent, match="NUL"):
        record(db, data)


@pytest.mark.parametrize("field", ["owner_id", "type", "subject", "idempotency_key", "traceparent"])
@pytest.mark.parametrize("text", ["a\x00", "\x00", "\ud800", "a\udfffb", "\ud83d\ude00", 5, b"bytes", True])
def test_a_field_that_is_no_clean_text_is_refused_by_name(db: Sql, field: str, text: Any):
    with pytest.raises(InvalidEvent, match=f"{field} must be text without NUL and without half surrogate pairs"):
        record(db, **{field: text})


@pytest.mark.parametrize(
    "data",
    [
        JsonText(r'"\ud800"'),
        JsonText(r'"\uD800"'),
        JsonText(r'"\udbff x"'),
        JsonText(r'"\udc00"'),
        JsonText(r'"\uDfFf"'),
        JsonText(r'"\udc00\ud800"'),
        JsonText(r'"\ud83d\ud83d\ude00"'),
        JsonText(r'"\ud83d\ude00\ude00"'),
        JsonText(r'"\ud83d\\ude00"'),
        JsonText(r'"\ud83d\\\ude00"'),
        JsonText(r'"\ud83d \ude00"'),
        JsonText(r'"\ud83d\n\ude00"'),
        JsonText(r'"\ud83d\u0041"'),
        JsonText(r'["\ud83d","\ude00"]'),
        JsonText(r'{"\ud83d":1}'),
        JsonText('"\ud83d"'),
        JsonText('"\ud83d\ude00"'),
        JsonText('"\\ud83d\ude00"'),
        "\ud800",
        "\udc00a",
        {"\ud800": 1},
        ["\ud83d\ude00"],
    ],
    ids=ascii,
)
def test_half_of_a_surrogate_pair_is_refused(db: Sql, data: Any):
    with pytest.raises(InvalidEvent, match="half of a surrogate pair"):
        record(db, data)


@pytest.mark.parametrize(
    "text",
    [
        r'"\\u0000"',
        r'"\\\\u0000"',
        r'"\\ud800"',
        r'"\ud83d\ude00"',
        r'"\uD83D\uDE00\ud83d\ude00"',
        r'"\\\ud83d\ude00\\"',
        r'"\udbff\udfff"',
        r'"\ud7ff\ue000\uffff"',
        r'"\u0001"',
        '"u0000 ud800"',
    ],
)
def test_what_only_looks_like_nul_or_half_a_pair_is_accepted(db: Sql, text: str):
    record(db, JsonText(text))
    assert kept(db) == text


#: Pieces of strings: escapes whole and halved, backslashes, quotes, and any character at all.
PIECES = st.one_of(
    st.sampled_from(["\\", "\\\\", '\\"', "\\u", "\\u0000", "\\ud83d", "\\ude00", "\\uDBFF", "ude00", "\\n", "u", "'"]),
    st.text(st.characters(), max_size=3),
)
STRINGS = st.lists(PIECES, max_size=6).map(lambda pieces: '"' + "".join(pieces) + '"')
NUMBERS = st.from_regex(r"\A-?[0-9]{1,3}(\.[0-9]{1,20})?([eE][-+]?[0-9]{1,3})?\Z")
VALUES = st.recursive(
    st.one_of(STRINGS, NUMBERS, st.sampled_from(["null", "true", "NaN", "", "é"])),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map(lambda items: "[" + ",".join(items) + "]"),
        st.lists(st.tuples(STRINGS, inner), max_size=4).map(
            lambda items: "{ " + " ,\n".join(f"{key}: {value}" for key, value in items) + "}"
        ),
    ),
    max_leaves=8,
)


HARD = settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))


@HARD
@given(text=VALUES)
def test_whatever_is_accepted_can_be_read_back_parsed_and_sent(db: Sql, text: str):
    with db.transaction(force_rollback=True):
        try:
            record(db, JsonText(text))
        except InvalidEvent:
            return
        assert kept(db) == text
        assert json.dumps(json.loads(text), ensure_ascii=False).encode("utf-8")


@HARD
@given(text=VALUES.filter(lambda text: "\x00" not in text and text.isprintable()))
def test_what_is_refused_is_exactly_what_jsonb_refuses_too(db: Sql, text: str):
    """`jsonb` takes no NUL and no half pair: an opinion of its own on what can be kept."""

    def accepts(query: str) -> bool:
        try:
            with db.transaction(force_rollback=True):
                db.execute(query, (text,))
        except psycopg.Error:
            return False
        return True

    recorded = accepts("SELECT tidings.record('acme', 'invoice.paid', NULL, %s::json)")
    assert recorded == accepts("SELECT %s::jsonb")


@HARD
@given(
    value=st.recursive(
        st.one_of(
            st.none(),
            st.booleans(),
            st.integers(),
            st.floats(allow_nan=False, allow_infinity=False),
            st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00")),
        ),
        lambda inner: st.one_of(
            st.lists(inner, max_size=3),
            st.dictionaries(
                st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00")), inner, max_size=3
            ),
        ),
        max_leaves=8,
    )
)
def test_every_clean_python_value_comes_back_equal(db: Sql, value: Any):
    with db.transaction(force_rollback=True):
        record(db, value)
        assert json.loads(kept(db)) == value


# The other fields ---------------------------------------------------------------------------------


class Types(StrEnum):
    PAID = "invoice.paid"


def test_a_type_may_be_a_member_of_an_enum(db: Sql):
    record(db, type=Types.PAID)
    assert db.execute("SELECT type FROM tidings.event").fetchall() == [("invoice.paid",)]


def test_an_undeclared_type_is_refused_at_the_call(db: Sql):
    with pytest.raises(UnknownEventType, match=r'"invoice\.piad" was never declared: run `tidings event-types declare'):
        record(db, type="invoice.piad")


@pytest.mark.parametrize("field", ["owner_id", "type"])
def test_a_field_that_must_be_there_is_refused_as_none(db: Sql, field: str):
    with pytest.raises(InvalidEvent, match=field):
        record(db, **{field: None})


class Nowhere(tzinfo):
    """A time zone that does not say where it is."""

    def utcoffset(self, when: datetime | None, /) -> None:
        return None


@pytest.mark.parametrize(
    "at", [datetime(2026, 1, 1), datetime(2026, 1, 1, tzinfo=Nowhere()), date(2026, 1, 1), "2026-01-01T00:00:00Z", 0]
)
def test_a_time_without_a_time_zone_is_refused(db: Sql, at: Any):
    with pytest.raises(InvalidEvent, match=r"occurred_at must be a datetime with a time zone"):
        record(db, occurred_at=at)


def test_a_time_is_kept_to_the_microsecond_whatever_its_zone(db: Sql):
    at = datetime(2026, 7, 14, 5, 5, 5, 123457, tzinfo=timezone(timedelta(hours=-9, minutes=-30)))
    record(db, occurred_at=at)
    assert db.execute("SELECT occurred_at FROM tidings.event").fetchall() == [(at,)]


def test_a_time_outside_the_years_that_receivers_read_is_refused(db: Sql):
    early = datetime.min.replace(tzinfo=timezone(timedelta(hours=14)))
    with pytest.raises(InvalidEvent, match="occurred_at must be a time in the years 1 to 9999"):
        record(db, occurred_at=early)


NIL, ONE = "0" * 32, "1" * 32


@pytest.mark.parametrize(
    "traceparent",
    ["00-nothing", f"00-{NIL}-{ONE[:16]}-01", f"00-{ONE}-{NIL[:16]}-01", f"ff-{ONE}-{ONE[:16]}-01", f"00-{ONE}-A-01"],
)
def test_a_trace_context_of_another_form_is_refused(db: Sql, traceparent: str):
    """As W3C Trace Context has it: no id is all zeros, no version is ff, no letter is a capital."""
    with pytest.raises(InvalidEvent, match="traceparent must have the form of W3C trace context"):
        record(db, traceparent=traceparent)
