"""The text of a key: what is refused, and its bytes."""

import base64

from signing.errors import InvalidKeyError


def check_text(text: object) -> str:
    """Return what may be a key's text, or say what it is instead.

    Raises:
        InvalidKeyError: no text, empty, or with white space at an end.
    """
    if isinstance(text, list | tuple | set | frozenset):
        raise InvalidKeyError(f"a {type(text).__name__} is no key: give several one by one, WebhookVerifier(*keys)")
    if not isinstance(text, str):
        raise InvalidKeyError(f"a key is text such as whsec_..., not {type(text).__name__}: is the setting missing?")
    if not text:
        raise InvalidKeyError("the key is empty: is the setting missing?")
    if text != text.strip():
        raise InvalidKeyError("the key has a space or line break at an end: strip it (files often end with one)")
    return text


def without_prefix(text: str, prefix: str) -> str:
    """Return what follows the prefix.

    Raises:
        InvalidKeyError: another prefix, or none.
    """
    if text.startswith(prefix):
        return text.removeprefix(prefix)
    if text.lower().startswith(prefix):
        raise InvalidKeyError(f"the prefix {prefix} is in lower case: copy the key as it was shown")
    raise InvalidKeyError(f"this kind of key starts with {prefix}: copy all of it")


def decoded(text: str) -> bytes:
    """Decode standard base64, padded or not, that stands for its bytes in exactly one way.

    Raises:
        InvalidKeyError: it does not; never repeats the text.
    """
    digits = text.rstrip("=")
    padded = digits + "=" * (-len(digits) % 4)
    raw = strictly_decoded(padded)
    if raw is None or text not in (digits, padded):
        raise InvalidKeyError("the key is not standard base64 (A-Z a-z 0-9 + /) after its prefix: copy all of it")
    return raw


def strictly_decoded(text: str) -> bytes | None:
    """Decode padded standard base64; None where it is none, or not the one text for its bytes."""
    try:
        raw = base64.b64decode(text, validate=True)
    except ValueError:
        return None
    return raw if base64.b64encode(raw).decode("ascii") == text else None
