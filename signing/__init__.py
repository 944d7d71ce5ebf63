"""Sign webhooks and verify them: all that a receiver needs.

Nothing here reads a file, a socket or a setting.

A sender::

    secret = SigningSecret.generate()
    headers = WebhookSigner([secret]).headers("msg_1", body)

A receiver, with the bytes of the request exactly as they came::

    webhook = WebhookVerifier("whsec_...").verify(body, request.headers)
    order = webhook.json()

The wire format is Standard Webhooks, scheme `v1`, so either side may use any library that speaks it.
"""

from signing.errors import (
    BodyTooLargeError,
    InvalidKeyError,
    MalformedHeaderError,
    MissingHeaderError,
    PayloadDecodeError,
    SignatureMismatchError,
    TimestampError,
    VerificationError,
    WebhookError,
)
from signing.headers import HeadersLike
from signing.keys import SigningSecret, parse_key
from signing.signature import WebhookSigner
from signing.verifier import VerifiedWebhook, WebhookVerifier

__all__ = [
    "BodyTooLargeError",
    "HeadersLike",
    "InvalidKeyError",
    "MalformedHeaderError",
    "MissingHeaderError",
    "PayloadDecodeError",
    "SignatureMismatchError",
    "SigningSecret",
    "TimestampError",
    "VerificationError",
    "VerifiedWebhook",
    "WebhookError",
    "WebhookSigner",
    "WebhookVerifier",
    "parse_key",
]
