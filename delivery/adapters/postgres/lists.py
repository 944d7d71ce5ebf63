"""Write lists as arrays in PostgreSQL's text form, many times as fast as the driver does.

The driver looks at every element to choose a type of array for the server. Our statements name the type of each array
themselves, so it is left to them.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from types import NoneType
from typing import Any
from uuid import UUID

from psycopg import DataError
from psycopg.adapt import Dumper


def _quoted(text: str) -> str:
    if "\\" in text or '"' in text:
        text = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'


class _Writers(dict[type, Callable[[Any], str]]):
    """Ways to write an element, by its type or one that it is derived from."""

    def __missing__(self, kind: type) -> Callable[[Any], str]:
        for base in kind.__mro__:
            if (writer := self.get(base)) is not None:
                self[kind] = writer
                return writer
        raise TypeError(f"no array of {kind.__name__} is written here")


_WRITERS = _Writers(
    {
        NoneType: lambda _: "NULL",
        str: _quoted,
        int: int.__repr__,
        bool: lambda flag: "t" if flag else "f",
        float: float.__repr__,
        bytes: lambda octets: f'"\\\\x{octets.hex()}"',
        UUID: lambda uuid: f"{uuid.int:032x}",
        datetime: lambda time: f'"{time}"',
    }
)


class ListDumper(Dumper):
    """Dump a list of texts, numbers, flags, bytes, UUIDs or times, and None among them.

    Raises:
        DataError: a text holds NUL, which PostgreSQL keeps in none.
        TypeError: a list of anything else.
    """

    oid = 0  # whatever the statement says that it is

    def dump(self, obj: list[Any]) -> bytes:
        """Return the text of the array."""
        writers = _WRITERS
        array = f"{{{','.join([writers[type(value)](value) for value in obj])}}}".encode()
        if 0 in array:
            raise DataError("a text holds the character NUL: remove it")
        return array
