"""Signed requests for the tests of receivers."""

import json
import time
from datetime import datetime
from typing import Any, NamedTuple

from signing.ed25519 import PublicKey, SigningKey
from signing.errors import InvalidKeyError
from signing.keys import SigningSecret, parse_key
from signing.signature import WebhookSigner


class SignedRequest(NamedTuple):
    """What a sender would send: hand both to a test client as they are."""

    body: bytes
    headers: dict[str, str]


def signed_request(
    body: Any,
    key: str | SigningSecret | SigningKey,
    *,
    id: str = "msg_test",
    now: float | datetime | None = None,
) -> SignedRequest:
    """Sign a request as a sender of Standard Webhooks does.

    `body` is bytes, text, or anything that JSON can hold. `now` is when it is signed (seconds since 1970, or an
    aware datetime; the present, unless given): give one that is long past to see it refused::

        body, headers = signed_request({"type": "invoice.paid"}, "whsec_...")
        assert client.post("/webhooks", content=body, headers=headers).status_code == 204

    Raises:
        InvalidKeyError: no key that signs.
        ValueError: an id, a time or a body that cannot be sent.
    """
    parsed = parse_key(key) if isinstance(key, str) else key
    if isinstance(parsed, PublicKey):
        raise InvalidKeyError("a public key cannot sign: give the tests a key pair of their own")
    if isinstance(body, str):
        body = body.encode()
    elif not isinstance(body, bytes):
        body = json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()
    at = time.time() if now is None else now
    timestamp = at if isinstance(at, datetime) else int(at)
    headers = WebhookSigner([parsed]).headers(id, body, timestamp=timestamp)
    return SignedRequest(body, {"content-type": "application/json", **headers})
