from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from subscriptions.errors import InvalidPattern, InvalidType, SubscriptionError
from subscriptions.match import (
    MAX_TYPE_LENGTH,
    Matcher,
    Pattern,
    check_declarable,
    check_type,
    is_reserved,
    matches,
)

BAD_TYPES = [
    "",
    ".",
    "a.",
    ".a",
    "a..b",
    "a b",
    "a-b",
    "a.b\n",
    "\na",
    "a.b\x00",
    "é.paid",
    "a.٣",  # a digit, but not ours
    "a/b",
    " a",
    "a'b",
]


@pytest.mark.parametrize("text", ["a", "A", "_", "7", "invoice.paid", "invoice.line_item.NEW", "a.b.c.d.e.f.g.h"])
def test_a_type_is_segments_of_letters_digits_and_underscores_joined_by_dots(text: str) -> None:
    assert check_type(text) == text
    assert check_declarable(text) == text


@pytest.mark.parametrize("text", [*BAD_TYPES, "*", "a.*"])
def test_anything_else_is_no_type(text: str) -> None:
    with pytest.raises(InvalidType, match="no event type"):
        check_type(text)


def test_a_type_has_at_most_128_characters() -> None:
    assert check_type("a" * MAX_TYPE_LENGTH)
    with pytest.raises(InvalidType, match="shorten it to 128"):
        check_type("a" * (MAX_TYPE_LENGTH + 1))


@pytest.mark.parametrize("text", ["tidings", "tidings.endpoint.disabled"])
def test_the_platforms_own_types_cannot_be_declared(text: str) -> None:
    assert is_reserved(check_type(text))
    with pytest.raises(InvalidType, match="begin yours with another word"):
        check_declarable(text)


@pytest.mark.parametrize("text", ["tidingsx.a", "my.tidings", "a.tidings.b"])
def test_only_the_first_segment_reserves_a_type(text: str) -> None:
    assert not is_reserved(text)
    assert check_declarable(text) == text


@pytest.mark.parametrize(
    "text",
    [
        *BAD_TYPES,
        "**",
        "a.**",
        "in*",
        "invoice.p*",
        "*x",
        "*.",
        ".*",
        "a.*.",
        "*..*",
        "a,b",
        "#",
        "a.>",
        "*\n",
    ],
)
def test_a_star_that_is_no_whole_segment_is_no_pattern(text: str) -> None:
    with pytest.raises(InvalidPattern, match="no pattern"):
        Pattern.parse(text)


def test_a_pattern_has_at_most_128_characters() -> None:
    assert Pattern.parse("a" * 126 + ".*")
    with pytest.raises(InvalidPattern, match="shorten it to 128"):
        Pattern.parse("a" * 127 + ".*")


def test_errors_are_value_errors_and_errors_of_this_package() -> None:
    for error in (InvalidType, InvalidPattern):
        assert issubclass(error, ValueError)
        assert issubclass(error, SubscriptionError)


@pytest.mark.parametrize(
    ("pattern", "wanted", "refused"),
    [
        (
            "invoice.paid",
            ["invoice.paid"],
            ["invoice", "invoice.paid.late", "invoice.Paid", "x.invoice"],
        ),
        ("invoice", ["invoice"], ["invoice.paid", "invoices"]),
        ("*", ["a", "invoice.paid", "a.b.c.d"], ["tidings", "tidings.endpoint.disabled"]),
        ("invoice.*", ["invoice.paid", "invoice.paid.late"], ["invoice", "invoices.paid", "x.invoice.paid"]),
        ("user.*", ["user.created"], ["user_profile.created", "user"]),
        ("a.*.c", ["a.b.c", "a.x.c"], ["a.c", "a.b.b.c", "a.b", "a.b.c.d"]),
        ("a.*.c.*", ["a.b.c.d", "a.b.c.d.e"], ["a.b.c", "a.b.x.d"]),
        ("*.paid", ["invoice.paid", "order.paid"], ["paid", "a.b.paid", "tidings.paid", "invoice.paid.late"]),
        ("*.*", ["a.b", "a.b.c"], ["a", "tidings.a"]),
        ("*.b.*", ["a.b.c", "x.b.c.d"], ["a.b", "a.c.b", "tidings.b.c"]),
        ("a.*.*", ["a.b.c", "a.b.c.d"], ["a.b", "a"]),
        ("tidings.*", ["tidings.endpoint.disabled", "tidings.a"], ["tidings", "tidingsx.a", "a.tidings.b"]),
        ("tidings.*.disabled", ["tidings.endpoint.disabled"], ["tidings.disabled"]),
        ("tidings", ["tidings"], ["tidings.a"]),
        ("a.tidings.*", ["a.tidings.b"], ["tidings.b"]),
    ],
)
def test_what_a_pattern_wants(pattern: str, wanted: list[str], refused: list[str]) -> None:
    parsed = Pattern.parse(pattern)
    assert [name for name in wanted + refused if matches(parsed, name)] == wanted


def test_a_matcher_finds_each_thing_once_however_many_of_its_patterns_match() -> None:
    wants = [("a.b", 1), ("a.*", 1), ("*", 1), ("a.b", 2), ("*.b", 3), ("c", 4)]
    matcher = Matcher((Pattern.parse(text), thing) for text, thing in wants)
    assert matcher.find("a.b") == {1, 2, 3}
    assert matcher.find("c") == {1, 4}
    assert matcher.find("tidings.b") == frozenset()


def test_a_matcher_of_nothing_finds_nothing() -> None:
    assert Matcher[int](()).find("a.b") == frozenset()


segments = st.sampled_from(["a", "b", "c", "tidings", "A", "a_b"])
types = st.lists(segments, min_size=1, max_size=5).map(".".join)
patterns = st.lists(segments | st.just("*"), min_size=1, max_size=5).map(".".join).map(Pattern.parse)


def wants_by_the_book(pattern: str, name: str) -> bool:
    """The rules as one regular expression: another way to say the same."""
    *front, last = pattern.split(".")
    parts = [r"\w+" if segment == "*" else segment for segment in front]
    parts.append(r"\w+(\.\w+)*" if last == "*" else last)
    is_own = name == "tidings" or name.startswith("tidings.")
    return (not is_own or pattern.startswith("tidings")) and re.fullmatch(r"\.".join(parts), name) is not None


@given(pattern=patterns, name=types)
def test_matching_follows_the_rules_read_literally(pattern: Pattern, name: str) -> None:
    assert matches(pattern, name) == wants_by_the_book(pattern.text, name)


@given(pattern=patterns, name=types)
def test_a_pattern_written_as_an_expression_wants_the_same(pattern: Pattern, name: str) -> None:
    assert (re.fullmatch(pattern.expression, name) is not None) == matches(pattern, name)


@given(wanted=st.lists(st.tuples(patterns, st.integers(0, 5)), max_size=30), name=types)
def test_a_matcher_finds_what_asking_each_pattern_finds(wanted: list[tuple[Pattern, int]], name: str) -> None:
    naive = {thing for pattern, thing in wanted if matches(pattern, name)}
    assert Matcher(wanted).find(name) == naive


@given(name=types)
def test_a_type_is_its_own_pattern(name: str) -> None:
    pattern = Pattern.parse(name)
    assert pattern.is_exact
    assert matches(pattern, name)


@given(text=st.text(max_size=20))
def test_whatever_is_a_type_is_a_pattern_without_a_star(text: str) -> None:
    try:
        is_type = check_type(text) == text
    except InvalidType:
        is_type = False
    try:
        is_exact = Pattern.parse(text).is_exact
    except InvalidPattern:
        is_exact = False
    assert is_type == is_exact
