"""What the glue of every framework does alike: which errors are answered, and how."""

from signing.errors import (
    BodyTooLargeError,
    DuplicateWebhookError,
    PayloadDecodeError,
    RawBodyError,
    VerificationError,
    WebhookInProgressError,
)

#: Errors that are an answer to the sender. Any other is a fault of the receiver.
ANSWERED = (VerificationError, PayloadDecodeError, DuplicateWebhookError, WebhookInProgressError)
Answered = VerificationError | PayloadDecodeError | DuplicateWebhookError | WebhookInProgressError


def answer(error: Answered) -> tuple[int, dict[str, str], str]:
    """Return status, headers and text of the answer to an error; an acknowledgement where it is done already."""
    headers = {"retry-after": str(error.retry_after)} if isinstance(error, WebhookInProgressError) else {}
    return error.http_status, headers, f"{error.code}: {error}"


def is_failure(status: int) -> bool:
    """Tell whether the sender will send it again, so that it must be handled again."""
    return not 200 <= status < 300


def stated_length(text: str | bytes | None) -> int | None:
    """Return what Content-Length says; None where it says nothing that can be relied on."""
    return int(text) if text and len(text) <= 15 and text.isdigit() and text.isascii() else None


def check_present(body: bytes, stated: int | None, whose: str) -> None:
    """Refuse to verify an empty body that came with bytes.

    Raises:
        RawBodyError: somebody read it before; the message says `whose` fault that usually is.
    """
    if stated and not body:
        raise RawBodyError(f"the body is empty, though Content-Length says {stated}: {whose}")


def too_large(most: int) -> BodyTooLargeError:
    """Return the error for a body over the limit of the framework."""
    return BodyTooLargeError(f"the body is over {most} bytes")
