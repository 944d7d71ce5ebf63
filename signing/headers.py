"""Read the headers of a signed request, whatever a framework wraps them in.

Why: a plain lookup hides a header that was sent twice, and frameworks differ in which of the two they return.
So all pairs are walked, and what could be read in two ways is refused.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from typing import Protocol, Self

from signing.errors import MalformedHeaderError, MissingHeaderError

MAX_SIGNATURE_CHARS = 8 * 1024
MAX_SIGNATURES = 32

#: Whole seconds since 1970, as signed
TIMESTAMP = re.compile(r"[1-9][0-9]{0,14}", re.ASCII)


class HeaderItems(Protocol):
    """A mapping, or what behaves like one."""

    def items(self) -> Iterable[tuple[str | bytes, str | bytes]]:
        """Return the headers as pairs; a name may come more than once."""


#: Any mapping or list of pairs, of str or bytes: ASGI, WSGI wrappers, requests, httpx, Django, plain dicts.
HeadersLike = HeaderItems | Iterable[tuple[str | bytes, str | bytes]]


class ReceivedHeaders:
    """The values of some headers, every line of them, by lower-case name."""

    __slots__ = ("_lines",)

    def __init__(self, lines: dict[str, list[str]]) -> None:
        self._lines = lines

    @classmethod
    def read(cls, headers: HeadersLike, wanted: Collection[str]) -> Self:
        """Read the headers that are `wanted` (lower case), and nothing else.

        Raises:
            MalformedHeaderError: these are no headers, or one that is wanted is no text.
        """
        lines: dict[str, list[str]] = {}
        for name, value in pairs(headers):
            key = _text(name)
            if key is None or not key.isascii() or (key := key.lower()) not in wanted:
                continue
            text = _text(value)
            if text is None:
                raise MalformedHeaderError(f"the value of {key} is neither str nor bytes: pass headers as received")
            lines.setdefault(key, []).append(text)
        return cls(lines)

    def __contains__(self, name: str) -> bool:
        """Tell whether a header was sent and is not empty."""
        return any(self._lines.get(name, ()))

    def require(self, *names: str) -> None:
        """Refuse a request without these headers.

        Raises:
            MissingHeaderError: names those that are missing or empty.
        """
        missing = [name for name in names if name not in self]
        if missing:
            raise MissingHeaderError(f"missing or empty: {', '.join(missing)}")

    def single(self, name: str, pattern: re.Pattern[str], code: str) -> str:
        """Return the one value of a header that is there.

        Raises:
            MalformedHeaderError: sent twice with two values, too long, or, with this `code`, not of the pattern.
        """
        value, *more = self._lines[name]
        if any(other != value for other in more):
            raise MalformedHeaderError(f"{name} was sent twice, with different values", code="duplicate_header")
        _check_size(name, len(value))
        if not pattern.fullmatch(value):
            raise MalformedHeaderError(f"{name} is malformed", code=code)
        return value

    def tokens(self, name: str, separator: str) -> list[str]:
        """Return what all lines of a header list together, without the empty ones.

        Raises:
            MalformedHeaderError: over 8 KiB, or more than 32 tokens.
        """
        lines = self._lines[name]
        _check_size(name, sum(map(len, lines)))
        tokens = [token for line in lines for token in line.split(separator) if token]
        if len(tokens) > MAX_SIGNATURES:
            raise MalformedHeaderError(f"{name} holds over {MAX_SIGNATURES} signatures", code="header_too_large")
        return tokens


def pairs(headers: object) -> Iterator[tuple[object, object]]:
    """Walk headers of any shape.

    Raises:
        MalformedHeaderError: they have none.
    """
    # multi_items (httpx) keeps repeated headers apart where items joins them.
    items = getattr(headers, "multi_items", None) or getattr(headers, "items", None)
    found = items() if callable(items) else headers
    if not isinstance(found, Iterable):
        raise MalformedHeaderError("the headers are neither a mapping nor pairs: pass headers as received")
    for pair in found:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise MalformedHeaderError("a header is not a pair of name and value: pass headers as received")
        yield pair[0], pair[1]


def _check_size(name: str, size: int) -> None:
    if size > MAX_SIGNATURE_CHARS:
        raise MalformedHeaderError(f"{name} is over {MAX_SIGNATURE_CHARS} characters", code="header_too_large")


def _text(value: object) -> str | None:
    if isinstance(value, bytes):
        return value.decode("latin-1")
    return value if isinstance(value, str) else None
