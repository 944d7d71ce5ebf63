"""Texts of one line, as people write them: names, reasons, descriptions."""

from __future__ import annotations

#: Characters of a name, and of a description or reason.
MAX_NAME, MAX_LINE = 128, 500


def check_line(what: str, text: str, longest: int, error: type[Exception]) -> None:
    """Refuse what is empty, too long, not printable or has space at its ends, by this error."""
    if not 1 <= len(text) <= longest or not text.isprintable() or text != text.strip():
        raise error(f"{what!r} is not usable: give one line of 1 to {longest} characters, no space at its ends")
