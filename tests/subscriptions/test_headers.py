"""Headers that an owner adds are refused when they are registered, not when they are sent."""

from __future__ import annotations

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from subscriptions.errors import InvalidEndpoint
from subscriptions.headers import (
    MAX_HEADER_BYTES,
    MAX_HEADERS,
    RESERVED,
    RESERVED_PREFIXES,
    check_headers,
    is_reserved,
)


def accepts(name: str, value: str) -> bool:
    try:
        check_headers([(name, value)])
    except InvalidEndpoint:
        return False
    return True


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("X-Tenant", "acme"),
        ("authorization", "Bearer abc.def"),
        ("x-empty", ""),
        ("x-inner", "a \t b"),
        ("x!#$%&'*+-.^_`|~9", "~!"),
        ("x", "v"),
    ],
)
def test_headers_that_can_be_sent_are_accepted(name: str, value: str) -> None:
    check_headers([(name, value)])


@pytest.mark.parametrize("name", ["", " ", "a b", "a:b", "a\n", "é", "a\r\nb", "(x)", "x\x00", "x\u0661"])
def test_a_name_that_is_no_token_is_refused(name: str) -> None:
    with pytest.raises(InvalidEndpoint, match="is not a name"):
        check_headers([(name, "v")])


@pytest.mark.parametrize("value", [" v", "v ", "\tv", "v\t", " ", "a\r\nb: c", "a\nb", "a\x00b", "é", "a\x7f", "v\n"])
def test_a_value_that_the_wire_refuses_is_refused_and_not_repeated(value: str) -> None:
    with pytest.raises(InvalidEndpoint, match="'x-key' cannot be sent") as caught:
        check_headers([("x-key", value)])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", sorted(RESERVED | {prefix + "z" for prefix in RESERVED_PREFIXES}))
def test_a_reserved_name_is_refused_by_name_in_any_case(name: str) -> None:
    for spelling in (name, name.upper(), name.title(), name.replace("-", "_")):
        assert is_reserved(spelling)
        with pytest.raises(InvalidEndpoint, match=f"'{spelling}' is reserved"):
            check_headers([(spelling, "v")])


def test_names_near_reserved_ones_are_the_owners() -> None:
    for name in ("x-forwarded", "webhook", "x-host", "hosts", "authorization", "x-webhook-id"):
        assert not is_reserved(name)


def test_the_same_name_twice_is_refused_whatever_its_case() -> None:
    with pytest.raises(InvalidEndpoint, match="twice"):
        check_headers([("X-Key", "a"), ("x-key", "b")])


def test_fifty_headers_are_accepted_and_one_more_is_not() -> None:
    headers = [(f"x-{i}", "v") for i in range(MAX_HEADERS)]
    check_headers(headers)
    with pytest.raises(InvalidEndpoint, match="at most 50"):
        check_headers([*headers, ("x-more", "v")])


def test_a_header_may_be_4_kib_long_with_its_name() -> None:
    check_headers([("x-key", "v" * (MAX_HEADER_BYTES - 5))])
    with pytest.raises(InvalidEndpoint, match="too long") as caught:
        check_headers([("x-key", "v" * (MAX_HEADER_BYTES - 4))])
    assert "vvv" not in str(caught.value)


def test_a_hostile_name_is_shortened_and_escaped() -> None:
    with pytest.raises(InvalidEndpoint) as caught:
        check_headers([("\x1b[2J\n" + "é" * 5000, "v")])
    assert str(caught.value).isascii()
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 500


@given(st.text(max_size=8), st.text(max_size=8))
def test_whatever_is_accepted_can_go_on_the_wire(name: str, value: str) -> None:
    if accepts(name, value):
        h11.Request(method="POST", target="/", headers=[("host", "h"), (name, value)])
