"""Turn an event into what goes over the wire.

The body is put together around the stored JSON text, which is never parsed and written again: what was
recorded is what is signed and sent, down to key order, spacing and the digits of numbers.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime

from delivery.channels import Reply
from delivery.events import Event
from subscriptions.headers import is_reserved

#: Of every body that `body` builds.
CONTENT_TYPE = "application/json"

#: Put where a reply echoes a custom header's value, and the length below which it is no secret.
MASK, SHORTEST_MASKED = b"[hidden]", 6

Headers = tuple[tuple[str, str], ...]


def body(event: Event) -> bytes:
    """Build `{"id","type","subject","timestamp","data"}`, in this order, with no spaces of our own.

    The same event always gives the same bytes, so that every try carries the same message.
    """
    subject = "null" if event.subject is None else _quoted(event.subject)
    head = (
        f'{{"id":"{event.id}","type":{_quoted(event.type)},"subject":{subject},'
        f'"timestamp":"{_timestamp(event.occurred_at)}","data":'
    )
    return b"".join((head.encode(), event.data.encode(), b"}"))


def attempt_headers(
    custom: Iterable[tuple[str, str]], signed: Iterable[tuple[str, str]], *, user_agent: str
) -> Headers:
    """Put together every header of one attempt, in sending order.

    `signed` is what the signer returned; `user_agent` is the platform's own, `Tidings/<version>`.
    """
    ours = (("content-type", CONTENT_TYPE), ("user-agent", user_agent), *signed)
    return merge_headers(custom, ours)


def merge_headers(custom: Iterable[tuple[str, str]], signed: Iterable[tuple[str, str]]) -> Headers:
    """Put an owner's headers first and ours last, all names in lower case.

    Custom headers that are reserved, or that ours name too, are dropped: registering refuses them, and what
    was kept before a name became reserved must not reach a receiver as ours either.
    """
    ours = tuple((name.lower(), value) for name, value in signed)
    taken = {name for name, _ in ours}
    theirs = ((name.lower(), value) for name, value in custom if not is_reserved(name))
    return tuple((name, value) for name, value in theirs if name not in taken) + ours


def masked(reply: Reply, custom: Iterable[tuple[str, str]]) -> Reply:
    """Blot out an owner's header values that a receiver echoes, for replies are kept and shown unsealed.

    A value of several words is one to hide as a whole, and by its last word, as in `Bearer <token>`.
    """
    hidden: set[bytes] = set()
    for _, value in custom:
        for text in {value, value.rpartition(" ")[2]}:
            if len(text) >= SHORTEST_MASKED:
                hidden |= {text.encode(), _quoted(text)[1:-1].encode()}
    for secret in sorted(hidden, key=len, reverse=True):
        headers = tuple((name, content.replace(secret, MASK)) for name, content in reply.headers)
        reply = replace(reply, body=_masked_body(reply.body, secret), headers=headers)
    return reply


def _masked_body(body: bytes, secret: bytes) -> bytes:
    """Blot out a secret, also one that the end of what is kept of a body cuts off."""
    body = body.replace(secret, MASK)
    for size in range(len(secret) - 1, SHORTEST_MASKED - 1, -1):
        if body.endswith(secret[:size]):
            return body[:-size] + MASK
    return body


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _timestamp(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
