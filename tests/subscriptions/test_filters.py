"""Filters over payloads: what they mean, and what is refused."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from subscriptions.comparing import MAX_STEPS, Work
from subscriptions.errors import FilterFailed, InvalidFilter
from subscriptions.filters import MAX_FILTER_LENGTH, parse_filter, read_payload
from subscriptions.jsonpath import MAX_DEPTH, MAX_PARTS

ORDER = {
    "amount": 150.5,
    "whole": 150,
    "currency": "EUR",
    "paid": True,
    "test": False,
    "zero": 0,
    "note": None,
    "empty": {},
    "flags": [True, False, None, 0, 1],
    "items": [{"sku": "a", "qty": 1}, {"sku": "b", "qty": 2, "parts": [{"n": 1}, {"n": 7}]}],
    "customer": {"country": "DE", "tags": ["vip", True, 3], "same": ["vip", True, 3], "ones": ["vip", 1, 3]},
    "a b": {"c.d": "x"},
    "id": 9007199254740993,
}


def holds(text: str, payload: Any = ORDER) -> bool:
    return parse_filter(text).matches(payload)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("$.amount > 100", True),
        ("@.amount > 100", True),
        ("$.amount <= 150.5 && $.whole >= 150", True),
        ('$.currency == "EUR"', True),
        ("$.currency == 'USD' || $.paid == true", True),
        ("!($.currency == 'EUR' || $.paid)", False),
        ("$.items[?@.sku == 'b' && @.qty > 1]", True),
        ("$.items[?@.sku == 'a' && @.qty > 1]", False),
        ("$.items[-1].sku == 'b'", True),
        ("$.items[0:1].sku", True),
        ("$.items[*].parts[?@.n > 6]", True),
        ("$..n", True),
        ("$..[?@.n == 7]", True),
        ("$..n && !$..m", True),
        ("count($.items[*]) == 2", True),
        ("length($.currency) == 3", True),
        ("length($.items) > length($.customer.tags)", False),
        ("value($..country) == 'DE'", True),
        ("$['a b']['c.d'] == 'x'", True),
        ("$.currency >= 'E' && $.currency < 'F'", True),
        ("$.customer.tags == $.customer.same", True),
        ("$.items[?@.qty == $.items[1].qty]", True),
        ("  $.paid  ", True),
    ],
)
def test_a_filter_compares_places_and_asks_what_is_there(text: str, wanted: bool):
    assert holds(text) is wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("$.flags[0] == true", True),
        ("$.flags[?@ == false]", True),
        ("$.flags[4] == true", False),
        ("$.flags[3] == false", False),
        ("$.customer.tags == $.customer.ones", False),
        ("$.paid == 1", False),
        ("$.whole == 150.0", True),
    ],
)
def test_one_and_true_are_two_things_in_lists_too(text: str, wanted: bool):
    """Booleans in arrays: frain-dev/convoy#2524."""
    assert holds(text) is wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("$.amount > 100 && $.currency == 'EUR' && $.paid == true && !$.gone", True),
        ("$.amount > 100 && $.currency == 'USD' || $.test == false", True),
        ("($.amount > 1000 || $.paid) && ($.test || $.zero == 0)", True),
    ],
)
def test_several_comparisons_stand_beside_each_other(text: str, wanted: bool):
    """Several operators at the top: frain-dev/convoy#2168."""
    assert holds(text) is wanted


@pytest.mark.parametrize(("at", "sku"), [(0, "a"), (1, "b"), (-2, "a")])
def test_a_place_in_a_list_is_named_by_its_position(at: int, sku: str):
    """Positions in arrays: frain-dev/convoy#2086."""
    assert holds(f"$.items[{at}].sku == '{sku}'")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("$.note == null", True),
        ("$.note", True),
        ("$.gone == null", False),
        ("$.gone", False),
        ("$.gone != 1", True),
        ("$.gone == $.lost", True),
        ("$.gone < 1 || $.gone > 1", False),
        ("$.note < 1 || $.note > 1", False),
        ("$.zero && $.test && $.empty", True),
        ("$.amount.deeper.still == 1", False),
        ("$.items[7].sku == 'a'", False),
        ("length($.gone) == 0", False),
        ("$.currency > 5", False),
    ],
)
def test_what_is_not_there_and_what_is_null_are_two_things_and_no_errors(text: str, wanted: bool):
    """Null: frain-dev/convoy#2585."""
    assert holds(text) is wanted


@pytest.mark.parametrize(
    ("payload", "text", "wanted"),
    [
        ("5", "$ > 4", True),
        ("5", "$.amount", False),
        ("null", "$ == null", True),
        ('"EUR"', "@ == 'EUR'", True),
        ("[1, 2]", "$[?@ > 1]", True),
        ("[]", "$[0]", False),
        ("true", "$ == true", True),
        ('{"a": 1, "a": 2}', "$.a == 2", True),
        ('{"a": 1e400}', "$.a > 1e300", True),
        ('{"a": -1e400}', "$.a < -1e300", True),
        ('{"a": ' + "9" * 5000 + "}", "$.a > 1e300", True),
        ('{"a": 9007199254740993}', "$.a == 9007199254740993", True),
        ('{"a": 9007199254740993}', "$.a == 9007199254740992", False),
        ('{"a": -0.0}', "$.a == 0", True),
        (r'{"\u0061": "\ud83d\ude00"}', "$.a == '😀'", True),
    ],
)
def test_any_payload_may_be_asked_about(payload: str, text: str, wanted: bool):
    assert holds(text, read_payload(payload)) is wanted


def test_a_payload_that_is_nested_too_deeply_fails_and_harms_nothing():
    with pytest.raises(FilterFailed, match="nested too deeply"):
        read_payload("[" * 120_000 + "]" * 120_000)
    deep: Any = 1
    for _ in range(50_000):
        deep = [deep]
    assert holds("$[0][0]", deep)
    with pytest.raises(FilterFailed, match="nested too deeply"):
        holds("$[0] == $[1]", [deep, [deep]])


@pytest.mark.parametrize("text", ['{"a": NaN', "{", '{"a": 1}}'])
def test_what_is_no_json_fails(text: str):
    with pytest.raises(FilterFailed, match="cannot be read"):
        read_payload(text)


@pytest.mark.parametrize(
    "text",
    [
        "$[?@ == 'x']",
        "$..[?@.a == 'x']",
        "count($..*) == 1",
        "$[?count($[*]) == 0]",
        "$[?$[?$[?@ == 'x']]]",
        "$[0,0,0][0,0,0]",
    ],
)
def test_an_evaluation_ends_however_much_it_would_look_at(text: str):
    work = Work()
    big = [[number] * 3 for number in range(MAX_STEPS // 2)]
    if text == "$[0,0,0][0,0,0]":
        assert parse_filter(text).matches(big, work)
    else:
        with pytest.raises(FilterFailed, match="more than"):
            parse_filter(text).matches(big, work)
    assert work.steps <= MAX_STEPS + 1 + len(big)


@pytest.mark.parametrize(
    ("text", "payload"),
    [
        ("$[?$..nowhere]", [0] * 100_000),
        ("$[?$[1:].nowhere]", [0] * 100_000),
        ("$.l[?$.a == $.b]", {"a": dict.fromkeys(map(str, range(3_000))), "l": [0] * 1_000}),
        (f"$..[{','.join(repr(str(name)) for name in range(90))}]", [[]] * 3_000),
    ],
)
def test_what_is_only_passed_over_costs_something_too(text: str, payload: Any):
    if isinstance(payload, dict):
        payload["b"] = {**payload["a"], "x": None}
        del payload["b"]["0"]
    with pytest.raises(FilterFailed, match="more than"):
        parse_filter(text).matches(payload)


def test_long_texts_cost_what_they_take():
    work, text = Work(), "x" * 200_000
    assert parse_filter("$[0] == $[1]").matches([text, text[:-1] + "x"], work)
    assert work.steps > 100


def test_evaluations_share_their_work_but_not_their_bound():
    work = Work(steps=10 * MAX_STEPS)
    assert parse_filter("$.paid").matches(ORDER, work)
    assert work.steps > 10 * MAX_STEPS


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "empty"),
        ("   ", "empty"),
        ("amount > 100", "not understood at character 1"),
        ("$.amount >", "not understood"),
        ("$.amount > 100 &&", "not understood"),
        ("$.amount = 100", "not understood"),
        ("$.amount > 100 and $.paid", "not understood"),
        ("$.items[", "not understood"),
        ("$.items[?@.sku == 'x'", "not understood"),
        ("true", "not understood|neither true nor false"),
        ("'x'", "not understood|neither true nor false"),
        ("5", "not understood|neither true nor false"),
        ("$.items[*].qty == 1", "not understood"),
        ("length($.a)", "not understood|neither true nor false"),
        ("$.paid && length($.a)", "not understood|neither true nor false"),
        ("sum($.items[*].qty) > 3", "not understood"),
        ("$.a], [?$.b", "not understood|ends before"),
        ("$.a][?$.b", "ends before its text"),
        ("$.a, $.b", "not understood|ends before"),
        ("match($.currency, 'E.*')", r"regular expressions \(match\) are not available"),
        ("$.paid && search($.currency, '(a+)+$')", r"regular expressions \(search\) are not available"),
        ("$.amount > 1e400", "larger than a number"),
        ("$.amount > " + "9" * 900, "larger than a number"),
        ("$.amount > 1.5e400", "larger than a number"),
        ("$.amount == NaN", "not understood"),
        ("$[99999999999999999999]", "not understood"),
        ("$.a\n&& $.b", "one line"),
        ("$.a == '\x00'", "one line"),
        ("$" + ".a" * MAX_FILTER_LENGTH, f"shorten it to {MAX_FILTER_LENGTH}"),
        ("(" * 17 + "$.a" + ")" * 17, f"{MAX_DEPTH} levels"),
        ("(" * 490 + "$.a" + ")" * 490, f"{MAX_DEPTH} levels"),
        ("!" * 900 + "$.a", f"{MAX_DEPTH} levels|not understood"),
        ("!(" * (MAX_DEPTH + 1) + "$.a" + ")" * (MAX_DEPTH + 1), f"{MAX_DEPTH} levels"),
        ("$" + "[?@" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1), f"{MAX_DEPTH} levels"),
        ("$[" + ",".join(["0"] * (MAX_PARTS + 1)) + "]", f"more than {MAX_PARTS} parts"),
    ],
)
def test_what_is_no_filter_is_refused_with_what_to_do(text: str, says: str):
    with pytest.raises(InvalidFilter, match=says) as refused:
        parse_filter(text)
    assert "\n" not in str(refused.value)
    assert ":" in str(refused.value)


def test_a_filter_within_its_bounds_is_taken():
    assert holds(" && ".join(["$.paid"] * (MAX_DEPTH // 2))) is True
    assert holds("(" * MAX_DEPTH + "$.paid" + ")" * MAX_DEPTH)
    assert holds(" || ".join(["$.nowhere"] * (MAX_PARTS // 2 - 2) + ["$.paid"])) is True
    assert holds(" && ".join(["$.paid"] * (MAX_PARTS // 2 - 2) + ["$.nowhere"])) is False
    assert holds("$.currency != '" + "(" * 50 + "\\'[\"['") is True
    assert holds("$.currency == '" + "x" * (MAX_FILTER_LENGTH - 20) + "'") is False


@given(st.text(alphabet="$@.[]()?!&|=<>'\"*,:-0123456789 abeilnorstu", max_size=60))
def test_no_text_does_more_than_be_refused(text: str):
    with suppress(InvalidFilter):
        parse_filter(text).matches(ORDER)


PLACES = st.sampled_from(["$.a", "$.b[0]", "@.c.d", "$.gone", "$.b[-1]"])
CONSTANTS = st.sampled_from(["1", "0", "-1.5", "'x'", "true", "false", "null"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(["x", ""]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=3),
    max_leaves=8,
)


@given(JSON, PLACES, st.sampled_from(["==", "!=", "<", "<=", ">", ">="]), CONSTANTS)
def test_opposites_never_hold_together(payload: Any, place: str, operator: str, constant: str):
    payload = json.loads(json.dumps(payload))
    equal, unequal = holds(f"{place} == {constant}", payload), holds(f"{place} != {constant}", payload)
    assert equal is not unequal
    assert holds(f"{place} {operator} {constant}", payload) is not holds(f"!({place} {operator} {constant})", payload)
    less, greater = holds(f"{place} < {constant}", payload), holds(f"{place} > {constant}", payload)
    assert [less, equal, greater].count(True) <= 1
    assert holds(f"{place} <= {constant}", payload) is (less or equal)
    assert holds(f"{place} >= {constant}", payload) is (greater or equal)
