"""What was recorded is what goes out, byte for byte."""

from __future__ import annotations

import json
from base64 import b64encode
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delivery.channels import Reply
from delivery.envelope import attempt_headers, body, masked, merge_headers, written
from delivery.events import Event
from subscriptions.headers import RESERVED, RESERVED_PREFIXES, basic
from subscriptions.model import PayloadFormat

ID = UUID("0196f1b4-7a00-7000-8000-0123456789ab")
AT = datetime(2026, 3, 1, 12, 30, 15, 120, tzinfo=UTC)


def event(
    data: str = "{}",
    *,
    named: str = "invoice.paid",
    subject: str | None = "inv_1",
    occurred_at: datetime = AT,
) -> Event:
    return Event(id=ID, owner_id="acme", type=named, subject=subject, occurred_at=occurred_at, data=data)


def test_the_envelope_is_compact_and_in_a_fixed_order() -> None:
    assert body(event('{"total":1}')) == (
        b'{"id":"0196f1b4-7a00-7000-8000-0123456789ab","type":"invoice.paid","subject":"inv_1",'
        b'"timestamp":"2026-03-01T12:30:15.000120Z","data":{"total":1}}'
    )


@pytest.mark.parametrize(
    "data",
    [
        '{"b":1,"a":2}',
        '{"total":1.0,"rate":1e400,"tiny":-0.0E-7}',
        "123456789012345678901234567890.10",
        r'{"text":"\u00e9\/\ud83d\ude00\n"}',
        '{"a":1,"a":2}',
        '{ "a" :\t[ 1 ,\n 2 ] }',
        " [1] ",
        '{"text":"é😀\u2028"}',
        "null",
        '"}"',
        "[]",
    ],
)
def test_data_is_kept_byte_for_byte(data: str) -> None:
    sent = body(event(data))
    assert sent.endswith(b'"data":' + data.encode() + b"}")
    assert json.loads(sent)["data"] == json.loads(data)


def test_no_subject_is_null() -> None:
    assert b'"subject":null,' in body(event(subject=None))


def test_an_empty_subject_is_no_missing_one() -> None:
    assert b'"subject":"",' in body(event(subject=""))


@pytest.mark.parametrize(
    ("at", "text"),
    [
        (datetime(2026, 3, 1, tzinfo=UTC), "2026-03-01T00:00:00.000000Z"),
        (datetime(2026, 3, 1, 1, 0, tzinfo=timezone(timedelta(hours=2))), "2026-02-28T23:00:00.000000Z"),
        (datetime(1, 1, 1, 0, 0, 0, 999_999, tzinfo=UTC), "0001-01-01T00:00:00.999999Z"),
    ],
)
def test_the_timestamp_is_utc_with_its_microseconds(at: datetime, text: str) -> None:
    assert json.loads(body(event(occurred_at=at)))["timestamp"] == text


@given(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(st.characters(exclude_categories=["Cs"])),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abé", max_size=3), inner, max_size=3),
        max_leaves=8,
    ),
    st.booleans(),
)
def test_whatever_is_in_it_the_envelope_parses(named: str, subject: str | None, data: object, escaped: bool) -> None:
    parsed = json.loads(body(event(json.dumps(data, ensure_ascii=escaped), named=named, subject=subject)))
    assert list(parsed) == ["id", "type", "subject", "timestamp", "data"]
    assert (parsed["id"], parsed["type"], parsed["subject"], parsed["data"]) == (
        str(ID),
        named,
        subject,
        data,
    )


# Headers


def test_custom_headers_go_first_and_ours_last() -> None:
    assert merge_headers([("X-Tenant", "a"), ("X-Env", "b")], [("Webhook-Id", "1")]) == (
        ("x-tenant", "a"),
        ("x-env", "b"),
        ("webhook-id", "1"),
    )


@pytest.mark.parametrize("name", sorted(RESERVED | {prefix + "id" for prefix in RESERVED_PREFIXES}))
def test_a_reserved_header_that_was_kept_is_dropped_in_any_case(name: str) -> None:
    custom = [(name, "theirs"), (name.upper(), "theirs"), (name.replace("-", "_"), "theirs"), ("x-kept", "theirs")]
    assert merge_headers(custom, []) == (("x-kept", "theirs"),)


def test_a_custom_header_never_stands_beside_one_of_ours() -> None:
    assert merge_headers([("TraceParent", "theirs")], [("traceparent", "ours")]) == (("traceparent", "ours"),)
    assert merge_headers([("CE_Id", "theirs")], [("ce-id", "ours")]) == (("ce-id", "ours"),)


def test_an_attempt_says_what_it_carries_and_who_sends_it() -> None:
    signed = {"webhook-id": "1", "webhook-signature": "v1,x"}
    custom, of_body = [("User-Agent", "theirs"), ("x-a", "1")], (("content-type", "application/json"),)
    headers = attempt_headers(custom, of_body, signed.items(), user_agent="Tidings/1.2")
    assert headers == (
        ("x-a", "1"),
        ("content-type", "application/json"),
        ("user-agent", "Tidings/1.2"),
        ("webhook-id", "1"),
        ("webhook-signature", "v1,x"),
    )


# Formats


DATA = '{"b": 1,  "a": "\\u0041"}'


def test_the_envelope_is_the_body_that_is_built() -> None:
    assert written(event(DATA), PayloadFormat.ENVELOPE) == (body(event(DATA)), (("content-type", "application/json"),))


def test_a_structured_cloudevent_holds_the_data_byte_for_byte() -> None:
    """Source: CloudEvents 1.0.2, JSON format, sections 2 and 3."""
    traced = replace(event(DATA, subject='in/v "1" é'), owner_id="acme/eu", traceparent="00-ab-cd-01")
    content, headers = written(traced, PayloadFormat.CLOUDEVENTS)
    assert headers == (("content-type", "application/cloudevents+json; charset=utf-8"),)
    assert content.endswith(b',"data":' + DATA.encode() + b"}")
    assert json.loads(content) == {
        "specversion": "1.0",
        "id": str(ID),
        "source": "/tidings/acme%2Feu",
        "type": "invoice.paid",
        "time": "2026-03-01T12:30:15.000120Z",
        "subject": 'in/v "1" é',
        "traceparent": "00-ab-cd-01",
        "datacontenttype": "application/json",
        "data": {"b": 1, "a": "A"},
    }


def test_raw_is_the_data_alone_with_the_attributes_in_headers() -> None:
    """Source: CloudEvents 1.0.2, HTTP binding, section 3.1."""
    content, headers = written(event(DATA, subject='a "b" 50% é€'), PayloadFormat.RAW)
    assert content == DATA.encode()
    assert headers == (
        ("content-type", "application/json"),
        ("ce-specversion", "1.0"),
        ("ce-id", str(ID)),
        ("ce-source", "/tidings/acme"),
        ("ce-type", "invoice.paid"),
        ("ce-time", "2026-03-01T12:30:15.000120Z"),
        ("ce-subject", "a%20%22b%22%2050%25%20%C3%A9%E2%82%AC"),
    )


@pytest.mark.parametrize("kind", PayloadFormat)
@pytest.mark.parametrize("subject", [None, ""])
def test_an_event_about_nothing_has_no_subject_in_cloudevents(kind: PayloadFormat, subject: str | None) -> None:
    content, headers = written(event("1", subject=subject), kind)
    assert "ce-subject" not in dict(headers)
    assert kind is not PayloadFormat.CLOUDEVENTS or "subject" not in json.loads(content)


@given(st.text(max_size=30), st.text(max_size=30), st.sampled_from(PayloadFormat))
def test_whatever_is_in_it_every_format_is_the_same_each_time_and_its_headers_can_be_sent(
    named: str, subject: str, kind: PayloadFormat
) -> None:
    made = replace(event("[]", named=named, subject=subject), owner_id="a%b")
    content, headers = written(made, kind)
    assert (content, headers) == written(made, kind)
    assert all(value.isascii() and value.isprintable() and value == value.strip() for _, value in headers)
    if kind is not PayloadFormat.RAW:
        json.loads(content)


@pytest.mark.parametrize(
    ("custom", "echoed", "kept"),
    [
        ([("Authorization", "Bearer t0ken-1")], b"you sent Bearer t0ken-1", b"you sent [hidden]"),
        ([("Authorization", "Bearer t0ken-1")], b"token=t0ken-1&x", b"token=[hidden]&x"),
        ([("X-Key", 'a"quote\\d')], b'{"x-key": "a\\"quote\\\\d"}', b'{"x-key": "[hidden]"}'),
        ([("X-Key", "abcdef"), ("X-Longer", "abcdefghi")], b"abcdefghi abcdef", b"[hidden] [hidden]"),
        ([("X-Key", "0123456789")], b"cut off at 01234567", b"cut off at [hidden]"),
        ([("X-Tenant", "acme")], b"acme is down", b"acme is down"),
    ],
)
def test_what_a_receiver_echoes_of_an_owners_headers_is_hidden(
    custom: list[tuple[str, str]], echoed: bytes, kept: bytes
) -> None:
    reply = masked(Reply(status=400, headers=((b"x-said", echoed),), body=echoed), custom)
    assert reply.body == kept
    assert b"t0ken-1" not in reply.headers[0][1]


@pytest.mark.parametrize(
    "echoed",
    [
        r"s\/cr+t\"<&>'",  # PHP
        r"s/cr+t\"\u003c\u0026\u003e'",  # Go
        r"s/cr\u002Bt\u0022\u003C\u0026\u003E\u0027",  # .NET
        "s/cr+t&quot;&lt;&amp;&gt;&#x27;",
        "s%2Fcr%2Bt%22%3C%26%3E%27",
    ],
)
def test_a_secret_is_hidden_however_the_receiver_writes_it(echoed: str) -> None:
    custom = [("x-key", "s/cr+t\"<&>'")]
    assert masked(Reply(status=400, body=f"x={echoed}.".encode()), custom).body == b"x=[hidden]."


def test_the_password_of_basic_authentication_is_hidden() -> None:
    reply = Reply(status=401, body=b"bob gave hunter-2, as bob:hunter-2, " + b64encode(b"bob:hunter-2"))
    assert masked(reply, [basic("bob", "hunter-2")]).body == b"bob gave [hidden], as [hidden], [hidden]"
