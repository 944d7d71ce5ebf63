"""What can go wrong, as a sender or a receiver sees it.

::

    WebhookError
    ├── InvalidKeyError (ValueError)    a key was refused, when it was configured
    ├── VerificationError               the request is not to be trusted      .code  .http_status
    │   ├── MissingHeaderError      400 missing_header
    │   ├── MalformedHeaderError    400 malformed_id, malformed_timestamp, malformed_headers,
    │   │                               duplicate_header, header_too_large
    │   ├── TimestampError          400 timestamp_too_old, timestamp_too_new
    │   ├── SignatureMismatchError  401 no_match
    │   └── BodyTooLargeError       413 body_too_large
    ├── PayloadDecodeError          400 undecodable_payload: verified, but not JSON or not the model
    ├── DuplicateWebhookError       200 already_done: acknowledge, so that the sender stops
    ├── WebhookInProgressError      503 in_progress: being handled right now; try again      .retry_after
    └── RawBodyError                500 raw_body_lost: a fault of the receiver, which read the body before

A message is one line, safe to send back, and holds no key, body, header value or expected signature.
`code` is stable: count and branch on it, not on the message.
"""


class WebhookError(Exception):
    """Base of everything that signing and verifying raise on purpose."""


class InvalidKeyError(WebhookError, ValueError):
    """A key cannot be used as given."""


class VerificationError(WebhookError):
    """The request did not prove who sent it; nothing of it may be believed."""

    code: str = "unverified"  #: what was wrong, for metrics and branches
    http_status: int = 400  #: what to answer the sender

    def __init__(self, message: str, *, code: str | None = None) -> None:
        super().__init__(message)
        if code is not None:
            self.code = code


class MissingHeaderError(VerificationError):
    """A header that carries the signature is absent or empty."""

    code = "missing_header"


class MalformedHeaderError(VerificationError):
    """A header that carries the signature cannot be read in exactly one way."""

    code = "malformed_headers"


class TimestampError(VerificationError):
    """The request was signed too long ago, or too far ahead: a replay, or a clock that is wrong."""

    code = "timestamp_too_old"


class SignatureMismatchError(VerificationError):
    """No signature was made by one of our keys over these bytes."""

    code = "no_match"
    http_status = 401


class BodyTooLargeError(VerificationError):
    """The body is over the limit, and was not looked at."""

    code = "body_too_large"
    http_status = 413


class PayloadDecodeError(WebhookError):
    """The request is genuine, but its body is not what was asked for."""

    code: str = "undecodable_payload"  #: for metrics and branches
    http_status: int = 400  #: what to answer the sender


class DuplicateWebhookError(WebhookError):
    """The webhook was handled before: acknowledge it, and do nothing."""

    code: str = "already_done"  #: for metrics and branches
    http_status: int = 200  #: what to answer the sender, so that it stops


class WebhookInProgressError(WebhookError):
    """The same webhook is being handled, here or elsewhere: have it sent again."""

    code: str = "in_progress"  #: for metrics and branches
    http_status: int = 503  #: what to answer the sender
    retry_after: int = 5  #: seconds, for a Retry-After header

    def __init__(self, message: str, *, retry_after: int = 5) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class RawBodyError(WebhookError):
    """The bytes of the body are gone, so nothing can be verified: the message says who took them."""

    code: str = "raw_body_lost"  #: for metrics and branches
    http_status: int = 500  #: what to answer the sender: it will be right once the receiver is mended
