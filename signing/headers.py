"""Read the three headers of a signed request, whatever a framework wraps them in.

Why: a plain lookup hides a header that was sent twice, and frameworks differ in which of the two they return.
So all pairs are walked, and what could be read in two ways is refused.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, Self

from signing.errors import MalformedHeaderError, MissingHeaderError
from signing.signature import MESSAGE_ID

MAX_SIGNATURE_CHARS = 8 * 1024
MAX_SIGNATURES = 32

_TIMESTAMP = re.compile(r"[1-9][0-9]{0,14}", re.ASCII)
_FIELDS = ("id", "timestamp", "signature")


class HeaderItems(Protocol):
    """A mapping, or what behaves like one."""

    def items(self) -> Iterable[tuple[str | bytes, str | bytes]]:
        """Return the headers as pairs; a name may come more than once."""


#: Any mapping or list of pairs, of str or bytes: ASGI, WSGI wrappers, requests, httpx, Django, plain dicts.
HeadersLike = HeaderItems | Iterable[tuple[str | bytes, str | bytes]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedHeaders:
    """What the headers of one family say; nothing of it is verified yet."""

    id: str
    timestamp: str  #: decimal digits, as signed
    signatures: tuple[tuple[str, str], ...]  #: (scheme, base64) in the order sent; malformed ones left out

    @classmethod
    def read(cls, headers: HeadersLike, prefixes: Sequence[str]) -> Self:
        """Read the first family (`prefixes`, lower case) that is complete; families are never mixed.

        Raises:
            MissingHeaderError: no family is complete.
            MalformedHeaderError: a header of the family is malformed, ambiguous or too large.
        """
        values = _values(headers, {prefix + field for prefix in prefixes for field in _FIELDS})
        prefix = _family(values, prefixes)
        return cls(
            id=_single(values, prefix + "id", MESSAGE_ID, "malformed_id"),
            timestamp=_single(values, prefix + "timestamp", _TIMESTAMP, "malformed_timestamp"),
            signatures=tuple(_signatures(values[prefix + "signature"], prefix + "signature")),
        )

    def of(self, scheme: str) -> list[str]:
        """Return the signatures made by this scheme."""
        return [signature for name, signature in self.signatures if name == scheme]


def _values(headers: HeadersLike, wanted: set[str]) -> dict[str, list[str]]:
    values: dict[str, list[str]] = {}
    for name, value in _pairs(headers):
        key = _text(name)
        if key is None or not key.isascii() or (key := key.lower()) not in wanted:
            continue
        text = _text(value)
        if text is None:
            raise MalformedHeaderError(f"the value of {key} is neither str nor bytes: pass headers as received")
        values.setdefault(key, []).append(text)
    return values


def _pairs(headers: object) -> Iterator[tuple[object, object]]:
    # multi_items (httpx) keeps repeated headers apart where items joins them.
    items = getattr(headers, "multi_items", None) or getattr(headers, "items", None)
    pairs = items() if callable(items) else headers
    if not isinstance(pairs, Iterable):
        raise MalformedHeaderError("the headers are neither a mapping nor pairs: pass headers as received")
    for pair in pairs:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise MalformedHeaderError("a header is not a pair of name and value: pass headers as received")
        yield pair[0], pair[1]


def _text(value: object) -> str | None:
    if isinstance(value, bytes):
        return value.decode("latin-1")
    return value if isinstance(value, str) else None


def _family(values: dict[str, list[str]], prefixes: Sequence[str]) -> str:
    present = {name for name, texts in values.items() if any(texts)}
    for prefix in prefixes:
        if all(prefix + field in present for field in _FIELDS):
            return prefix
    begun = next((p for p in prefixes if any(p + field in present for field in _FIELDS)), prefixes[0])
    missing = ", ".join(begun + field for field in _FIELDS if begun + field not in present)
    raise MissingHeaderError(f"missing or empty: {missing}")


def _single(values: dict[str, list[str]], name: str, pattern: re.Pattern[str], code: str) -> str:
    value, *more = values[name]
    if any(other != value for other in more):
        raise MalformedHeaderError(f"{name} was sent twice, with different values", code="duplicate_header")
    if not pattern.fullmatch(value):
        raise MalformedHeaderError(f"{name} is malformed", code=code)
    return value


def _signatures(lines: list[str], name: str) -> Iterator[tuple[str, str]]:
    if sum(map(len, lines)) > MAX_SIGNATURE_CHARS:
        raise MalformedHeaderError(f"{name} is over {MAX_SIGNATURE_CHARS} characters", code="header_too_large")
    tokens = [token for line in lines for token in line.split(" ") if token]
    if len(tokens) > MAX_SIGNATURES:
        raise MalformedHeaderError(f"{name} holds over {MAX_SIGNATURES} signatures", code="header_too_large")
    for token in tokens:
        scheme, _, signature = token.partition(",")
        if signature:
            yield scheme, signature
