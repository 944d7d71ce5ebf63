"""Turn an event into what goes over the wire.

The body is put together around the stored JSON text, which is never parsed and written again: what was
recorded is what is signed and sent, down to key order, spacing and the digits of numbers.
"""

from __future__ import annotations

import html
import json
from base64 import b64decode
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import assert_never
from urllib.parse import quote, quote_plus

from delivery.channels import Reply
from delivery.events import Event
from subscriptions.headers import is_reserved
from subscriptions.model import PayloadFormat

#: Put where a reply echoes a custom header's value, and the length below which it is no secret.
MASK, SHORTEST_MASKED = b"[hidden]", 6

#: What stands in a header as it is; the rest is percent-encoded: space, double quote, percent, and all but ASCII.
_PLAIN = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) not in '"%')

#: What some writers of JSON escape besides.
_ESCAPED_IN_GO = {ord(char): f"\\u{ord(char):04x}" for char in "<>&"}
_ESCAPED_IN_DOTNET = {ord(char): f"\\u{ord(char):04X}" for char in "<>&\"'+`"} | {0x5C: "\\\\", 0x09: "\\t"}

Headers = tuple[tuple[str, str], ...]


def written(event: Event, format: PayloadFormat) -> tuple[bytes, Headers]:
    """Write an event as its receiver wants it: the body, and the headers that say what it is.

    The same event always gives the same bytes, so that every try carries the same message.
    """
    match format:
        case PayloadFormat.ENVELOPE:
            return body(event), (("content-type", "application/json"),)
        case PayloadFormat.CLOUDEVENTS:
            return _structured(event), (("content-type", "application/cloudevents+json; charset=utf-8"),)
        case PayloadFormat.RAW:
            return event.data.encode(), (("content-type", "application/json"), *_binary(event))
        case _:
            assert_never(format)


def body(event: Event) -> bytes:
    """Build `{"id","type","subject","timestamp","data"}`, in this order, with no spaces of our own."""
    subject = "null" if event.subject is None else _quoted(event.subject)
    head = (
        f'{{"id":"{event.id}","type":{_quoted(event.type)},"subject":{subject},'
        f'"timestamp":"{_timestamp(event.occurred_at)}","data":'
    )
    return b"".join((head.encode(), event.data.encode(), b"}"))


def _attributes(event: Event) -> list[tuple[str, str]]:
    """List the event's attributes in CloudEvents. Source: CloudEvents 1.0.2, section 3."""
    found = [
        ("specversion", "1.0"),
        ("id", str(event.id)),
        ("source", f"/tidings/{quote(event.owner_id, safe='')}"),
        ("type", event.type),
        ("time", _timestamp(event.occurred_at)),
    ]
    if event.subject:
        found.append(("subject", event.subject))
    if event.traceparent is not None:
        found.append(("traceparent", event.traceparent))
    return found


def _structured(event: Event) -> bytes:
    attributes = "".join(f'"{name}":{_quoted(value)},' for name, value in _attributes(event))
    return b"".join((f'{{{attributes}"datacontenttype":"application/json","data":'.encode(), event.data.encode(), b"}"))


def _binary(event: Event) -> Headers:
    """Write the attributes as headers. Source: CloudEvents 1.0.2, HTTP binding, section 3.1.3.2."""
    return tuple((f"ce-{name}", quote(value, safe=_PLAIN)) for name, value in _attributes(event))


def attempt_headers(
    custom: Collection[tuple[str, str]], of_body: Headers, signed: Iterable[tuple[str, str]], *, user_agent: str
) -> Headers:
    """Put together every header of one attempt, in sending order.

    `of_body` is what `written` returned, `signed` what the signer did; `user_agent` is the platform's own,
    `Tidings/<version>`.
    """
    return merge_headers(custom, (*of_body, ("user-agent", user_agent), *signed))


def merge_headers(custom: Collection[tuple[str, str]], signed: Iterable[tuple[str, str]]) -> Headers:
    """Put an owner's headers first and ours last, all names in lower case.

    Custom headers that are reserved, or that ours name too, are dropped: registering refuses them, and what
    was kept before a name became reserved must not reach a receiver as ours either.
    """
    ours = tuple([(name.lower(), value) for name, value in signed])
    if not custom:
        return ours
    taken = {name for name, _ in ours}
    theirs = ((name.lower(), value) for name, value in custom if not is_reserved(name))
    return tuple((name, value) for name, value in theirs if name.replace("_", "-") not in taken) + ours


def masked(reply: Reply, custom: Collection[tuple[str, str]]) -> Reply:
    """Blot out an owner's header values that a receiver echoes, for replies are kept and shown unsealed.

    A value of several words is one to hide as a whole, and by its last word, as in `Bearer <token>`; of basic
    authentication the password, too. Each is hidden as it stands and as receivers write it in JSON, HTML and URLs.
    """
    if not custom:
        return reply
    hidden = {spelled for _, value in custom for text in _secrets(value) for spelled in _spellings(text)}
    body, headers = reply.body, reply.headers
    said = b"\n".join([content for _, content in headers])
    for secret in sorted(hidden, key=len, reverse=True):
        if secret in said:
            headers = tuple([(name, content.replace(secret, MASK)) for name, content in headers])
        body = _masked_body(body, secret)
    return replace(reply, body=body, headers=headers)


def _secrets(value: str) -> Iterator[str]:
    """List what is secret of a header's value, but for what is so short that it would stand anywhere."""
    scheme, _, rest = value.rpartition(" ")
    found = [value, rest]
    if scheme.strip().lower() == "basic":
        with suppress(ValueError):
            pair = b64decode(rest, validate=True).decode()
            found += [pair, pair.partition(":")[2]]
    return (text for text in found if len(text) >= SHORTEST_MASKED)


def _spellings(text: str) -> set[bytes]:
    in_json = _quoted(text)[1:-1]
    spelled = (
        text,
        in_json,
        in_json.replace("/", "\\/"),  # as PHP writes it
        in_json.translate(_ESCAPED_IN_GO),
        text.translate(_ESCAPED_IN_DOTNET),
        html.escape(text),
        quote(text, safe=""),
        quote_plus(text),
    )
    return {each.encode() for each in spelled}


def _masked_body(body: bytes, secret: bytes) -> bytes:
    """Blot out a secret, also one that the end of what is kept of a body cuts off."""
    body = body.replace(secret, MASK)
    start = secret[:SHORTEST_MASKED]
    at = body.find(start, max(0, len(body) - len(secret) + 1))
    while at >= 0:
        if secret.startswith(body[at:]):
            return body[:at] + MASK
        at = body.find(start, at + 1)
    return body


#: Write text as JSON does, and leave what is not ASCII as it is.
_quoted = json.JSONEncoder(ensure_ascii=False).encode


def _timestamp(at: datetime) -> str:
    in_utc = at if at.tzinfo is UTC else at.astimezone(UTC)
    return in_utc.isoformat(timespec="microseconds")[: -len("+00:00")] + "Z"
