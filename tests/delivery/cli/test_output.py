"""What is printed: hostile text is escaped, JSON is exact, durations and instants are readable. Pure."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delivery.cli.output import (
    counted,
    decoded,
    instant_shown,
    json_text,
    moment,
    shown,
    shown_block,
    size,
    span,
    write_table,
)
from delivery.events import JsonText

HOSTILE = "\x1b[2J\x1b]0;owned\x07\x9b31m\u202eevil\u2066\u2028\x00\r\ud800\U000e0041[bold]x[/bold]"


@given(st.text())
def test_what_is_shown_has_nothing_that_a_terminal_obeys(text: str):
    assert all(char.isprintable() for char in shown(text))


def test_a_text_that_is_plain_is_shown_as_it_is():
    assert shown("Grüße, 世界 [bold]") == "Grüße, 世界 [bold]"


def test_controls_and_direction_marks_are_shown_as_escapes():
    assert shown("a\x1b[2Jb\u202ec\U000e0041\n") == r"a\x1b[2Jb\u202ec\U000e0041\x0a"


def test_a_block_keeps_its_lines_and_nothing_else():
    assert shown_block("a\r\nb\x07\nc\rd") == ["a", r"b\x07", r"c\x0dd"]


def test_bytes_that_are_no_text_are_shown_as_escapes():
    assert decoded(b"ok \xff\xfe") == r"ok \xff\xfe"


def test_a_table_prints_no_markup_and_no_control_of_others(capsys):
    write_table(("ID", "Text"), [(1, HOSTILE), (2, None)], empty="none")
    printed = capsys.readouterr().out
    assert all(char.isprintable() or char == "\n" for char in printed)
    assert "[bold]x[/bold]" in printed
    assert len(printed.splitlines()) == 3


def test_a_wide_table_is_not_cut_where_there_is_no_terminal(capsys):
    write_table(("ID", "Text"), [("1", "x" * 500)], empty="none")
    assert "x" * 500 in capsys.readouterr().out


def test_a_table_without_rows_says_what_to_do(capsys):
    write_table(("ID",), [], empty="none yet: add one")
    assert capsys.readouterr().out == "none yet: add one\n"


@given(
    st.recursive(
        st.none() | st.booleans() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_json_says_what_was_given_and_holds_nothing_that_a_terminal_obeys(document: object):
    for indent in (None, 2):
        text = json_text(document, indent=indent)
        assert json.loads(text) == document
        assert all(char.isprintable() or char == "\n" for char in text)
    assert "\n" not in json_text(document, indent=None)


def test_json_text_stands_as_it_was_recorded():
    kept = JsonText('{"n": 1.10000000000000000001, "big": 12345678901234567890123, "n": 2}')
    assert json_text({"data": kept}, indent=None) == f'{{"data": {kept}}}'


def test_json_text_on_several_lines_stays_on_one_where_a_line_is_a_document():
    text = json_text([JsonText('{\n\t"a":\r\n1\n}')], indent=None)
    assert "\n" not in text
    assert json.loads(text) == [{"a": 1}]


def test_no_text_from_outside_is_taken_for_recorded_json():
    assert json.loads(json_text(["0.0", "\x000", JsonText("1")])) == ["0.0", "\x000", 1]


@pytest.mark.parametrize(
    ("length", "text"),
    [
        (timedelta(0), "0 s"),
        (timedelta(seconds=-5), "0 s"),
        (timedelta(milliseconds=250), "0.2 s"),
        (timedelta(seconds=5), "5 s"),
        (timedelta(seconds=59.7), "1 min"),
        (timedelta(minutes=5), "5 min"),
        (timedelta(hours=2, minutes=5, seconds=9), "2 h 5 min"),
        (timedelta(days=5, hours=7, minutes=1), "5 d 7 h"),
        (timedelta(days=14), "14 d"),
        (timedelta(days=1, minutes=3), "1 d"),
    ],
)
def test_a_duration_is_told_in_its_two_largest_units(length: timedelta, text: str):
    assert span(length) == text


def test_instants_are_in_utc():
    there = datetime(2026, 1, 31, 13, 0, 0, 500_000, tzinfo=timezone(timedelta(hours=1)))
    assert moment(there) == "2026-01-31T12:00:00.500000Z"
    assert instant_shown(there) == "2026-01-31 12:00:00Z"
    assert (moment(None), instant_shown(None)) == (None, "-")
    assert moment(datetime(2026, 1, 31, tzinfo=UTC)) == "2026-01-31T00:00:00Z"


def test_things_are_counted():
    assert [counted(n, "delivery") for n in (0, 1, 2)] == ["0 deliveries", "1 delivery", "2 deliveries"]
    assert [counted(2, each) for each in ("event", "relay")] == ["2 events", "2 relays"]


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 kB"), (2048, "2 kB"), (2**20, "1.0 MB"), (3 * 2**29, "1.5 GB"), (2**41, "2.0 TB")]
)
def test_sizes_are_read_in_a_unit_that_suits_them(number: int, text: str):
    assert size(number) == text
