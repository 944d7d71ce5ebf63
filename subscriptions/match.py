"""Does this subscription want this event type? Pure.

A type is dotted: `invoice`, `invoice.paid`. A pattern is a type in which whole segments may be `*`:

- a `*` stands for exactly one segment: `a.*.c`, `*.paid`;
- but as the last segment for one or more: `invoice.*` is everything below `invoice`, not `invoice` itself;
- so `*` alone is every type.

Types of the platform itself (`tidings`, `tidings.*`) are matched only by patterns that begin with the literal
`tidings`, so that nobody receives them by accident. Upper and lower case differ.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Hashable, Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Generic, TypeVar

from subscriptions.errors import InvalidPattern, InvalidSubscription, InvalidType, UnknownType

#: The longest type and the longest pattern, in characters.
MAX_TYPE_LENGTH = 128

#: How many patterns one subscription may have.
MAX_PATTERNS = 100

#: First segment of the platform's own types.
RESERVED = "tidings"

_TYPE = re.compile(r"[a-zA-Z0-9_]+(?:\.[a-zA-Z0-9_]+)*")
_PATTERN = re.compile(r"(?:[a-zA-Z0-9_]+|\*)(?:\.(?:[a-zA-Z0-9_]+|\*))*")

T = TypeVar("T", bound=Hashable)


def check_type(text: str) -> str:
    """Return `text` if it is the name of an event type.

    Raises:
        InvalidType: it is not.
    """
    if len(text) > MAX_TYPE_LENGTH:
        raise InvalidType(f"the event type has {len(text)} characters; shorten it to {MAX_TYPE_LENGTH}")
    if not _TYPE.fullmatch(text):
        raise InvalidType(f"{text!r} is no event type; write segments of a-z, A-Z, 0-9 and _ joined by dots")
    return text


def is_reserved(event_type: str) -> bool:
    """Say whether the type is one of the platform's own."""
    return event_type.split(".", 1)[0] == RESERVED


def check_declarable(text: str) -> str:
    """Return `text` if an application may declare it as an event type.

    Raises:
        InvalidType: it is no type, or one of the platform's own.
    """
    if is_reserved(check_type(text)):
        raise InvalidType(f"{text!r} is one of the platform's own types; begin yours with another word")
    return text


@dataclass(frozen=True, slots=True)
class Pattern:
    """Which event types; made by `parse`."""

    text: str
    segments: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> Pattern:
        """Read a pattern.

        Raises:
            InvalidPattern: `text` is none.
        """
        if len(text) > MAX_TYPE_LENGTH:
            raise InvalidPattern(f"the pattern has {len(text)} characters; shorten it to {MAX_TYPE_LENGTH}")
        if not _PATTERN.fullmatch(text):
            raise InvalidPattern(f"{text!r} is no pattern; write a type, with * in place of whole segments")
        return cls(text, tuple(text.split(".")))

    @property
    def is_exact(self) -> bool:
        """Say whether the pattern names a single type."""
        return "*" not in self.segments

    @property
    def expression(self) -> str:
        """Write it as a regular expression that Python and PostgreSQL read alike; to be matched against whole types."""
        given = ["[^.]+" if segment == "*" else segment for segment in self.segments]
        if self.segments[-1] == "*":
            given[-1] = ".+"
        guard = rf"(?!{RESERVED}(?:\.|$))" if self.segments[0] != RESERVED else ""
        return "^" + guard + r"\.".join(given) + "$"


def matches(pattern: Pattern, event_type: str) -> bool:
    """Say whether the pattern wants events of `event_type`."""
    return _fits(pattern.segments, event_type.split("."))


def _fits(wanted: tuple[str, ...], given: list[str]) -> bool:
    is_open = wanted[-1] == "*"
    if len(given) < len(wanted) or (len(given) > len(wanted) and not is_open):
        return False
    if given[0] == RESERVED and wanted[0] != RESERVED:
        return False
    # Segments past the end of `wanted` are those that its last `*` takes besides its own.
    return all(want in ("*", have) for want, have in zip(wanted, given, strict=False))


def parse_patterns(texts: Collection[str]) -> tuple[Pattern, ...]:
    """Read the patterns of one subscription, each once, in the order given.

    Raises:
        InvalidPattern: one of them is none.
        InvalidSubscription: there are none, or too many.
    """
    if isinstance(texts, str):
        raise InvalidSubscription(f"the patterns are one text, {texts[:60]!r}: give a list of texts")
    if not 1 <= len(texts) <= MAX_PATTERNS:
        raise InvalidSubscription(f"{len(texts)} patterns are not allowed: give 1 to {MAX_PATTERNS}")
    return tuple(dict.fromkeys(Pattern.parse(text) for text in texts))


def check_wanted(patterns: Iterable[Pattern], usable: Collection[str], unusable: Collection[str] = ()) -> None:
    """Refuse a pattern that no type in `usable` matches: most likely a typing error.

    `unusable` are types that are declared, but out of reach; they only make the message better.

    Raises:
        UnknownType: the first such pattern, and what was probably meant.
    """
    for pattern in patterns:
        if any(matches(pattern, name) for name in usable):
            continue
        if any(matches(pattern, name) for name in unusable):
            raise UnknownType(
                f"{pattern.text!r} matches internal types only, which never leave: declare them with exposure"
                " webhook, or subscribe with --future"
            )
        near = get_close_matches(pattern.text, usable, n=1)
        guess = f" (did you mean {near[0]!r}?)" if near else ""
        raise UnknownType(f"{pattern.text!r} matches no declared type{guess}: declare one, or subscribe with --future")


class Matcher(Generic[T]):
    """Many patterns compiled together, each with the thing that wants it.

    Exact patterns cost one look-up whatever their number; wildcards cost one comparison for each distinct
    pattern, not for each thing. Nothing is remembered between calls: whoever asks often keeps the answers.
    """

    __slots__ = ("_exact", "_wild")

    def __init__(self, wanted: Iterable[tuple[Pattern, T]]) -> None:
        exact: dict[str, set[T]] = {}
        wild: dict[tuple[str, ...], set[T]] = {}
        for pattern, thing in wanted:
            if pattern.is_exact:
                exact.setdefault(pattern.text, set()).add(thing)
            else:
                wild.setdefault(pattern.segments, set()).add(thing)
        self._exact, self._wild = exact, wild

    def find(self, event_type: str) -> frozenset[T]:
        """Return everything with at least one pattern that wants `event_type`, each once."""
        given = event_type.split(".")
        found = [things for wanted, things in self._wild.items() if _fits(wanted, given)]
        return frozenset(self._exact.get(event_type, ())).union(*found)
