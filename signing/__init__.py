"""Sign webhooks and verify them: all that a receiver needs.

Nothing here reads a file, a socket or a setting.

A sender::

    secret = SigningSecret.generate()
    headers = WebhookSigner([secret]).headers("msg_1", body)

A receiver, with the bytes of the request exactly as they came::

    webhook = WebhookVerifier("whsec_...").verify(body, request.headers)
    order = webhook.json()

The same call reads other senders' signatures: `WebhookVerifier(secret, reader=GITHUB)`.

The wire format is Standard Webhooks, so either side may use any library that speaks it. Scheme `v1` has one shared
secret (`SigningSecret`); `v1a` is ed25519, with a `SigningKey` for the sender and a `PublicKey` for receivers.
"""

from signing.ed25519 import PublicKey, SigningKey, jwks
from signing.errors import (
    BodyTooLargeError,
    DuplicateWebhookError,
    InvalidKeyError,
    MalformedHeaderError,
    MissingHeaderError,
    PayloadDecodeError,
    RawBodyError,
    SignatureMismatchError,
    TimestampError,
    VerificationError,
    WebhookError,
    WebhookInProgressError,
)
from signing.headers import HeadersLike
from signing.keys import ReceiverKey, SenderKey, SigningSecret, parse_key
from signing.payload import VerifiedWebhook
from signing.readers import GITHUB, SHOPIFY, SLACK, STRIPE, SVIX
from signing.replay import AsyncReplayStore, MemoryReplayStore, ReplayGuard, ReplayStore
from signing.signature import WebhookSigner
from signing.verifier import Diagnosis, WebhookVerifier

__all__ = [
    "GITHUB",
    "SHOPIFY",
    "SLACK",
    "STRIPE",
    "SVIX",
    "AsyncReplayStore",
    "BodyTooLargeError",
    "Diagnosis",
    "DuplicateWebhookError",
    "HeadersLike",
    "InvalidKeyError",
    "MalformedHeaderError",
    "MemoryReplayStore",
    "MissingHeaderError",
    "PayloadDecodeError",
    "PublicKey",
    "RawBodyError",
    "ReceiverKey",
    "ReplayGuard",
    "ReplayStore",
    "SenderKey",
    "SignatureMismatchError",
    "SigningKey",
    "SigningSecret",
    "TimestampError",
    "VerificationError",
    "VerifiedWebhook",
    "WebhookError",
    "WebhookInProgressError",
    "WebhookSigner",
    "WebhookVerifier",
    "jwks",
    "parse_key",
]
