"""Print for people and for programs. Whatever came from outside is hostile: it is escaped wherever it is printed."""

from __future__ import annotations

import json
import re
import secrets
import shutil
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import click

from delivery.cli.hints import complete
from delivery.events import JsonText

if TYPE_CHECKING:
    from rich.console import Console

JsonObject = dict[str, Any]

#: Wide enough that nothing is cut where the output is no terminal.
_NO_TERMINAL_WIDTH = 4000
#: Columns with such headings are never broken: what is in them is copied, or looked down along.
_WHOLE = ("id", "state", "at", "attempts", "url")
#: Other columns are not made narrower than this, in characters; between columns are these.
_NARROW, _GAP = 12, 2
_MINUTE, _HOUR, _DAY = 60, 3600, 86_400


class Form(StrEnum):
    """What the output is for."""

    PEOPLE = "people"
    JSON = "json"  # one document
    JSONL = "jsonl"  # one document a line


# Text ----------------------------------------------------------------------------------------------------------------


def shown(text: object) -> str:
    """Return one line that a terminal only prints: controls, invisibles and direction marks are written as escapes."""
    return "".join(char if char.isprintable() else _escaped(char) for char in str(text))


def shown_block(text: object) -> list[str]:
    """Return the lines of a text, each as `shown`."""
    return [shown(line) for line in str(text).replace("\r\n", "\n").split("\n")]


def decoded(raw: bytes) -> str:
    """Return bytes of a receiver as text; what is no UTF-8 is written as `\\xNN`."""
    return raw.decode("utf-8", "backslashreplace")


def moment(instant: datetime | None) -> str | None:
    """Return an instant as ISO 8601 in UTC."""
    return None if instant is None else instant.astimezone(UTC).isoformat().replace("+00:00", "Z")


def instant_shown(instant: datetime | None) -> str:
    """Return an instant for people, to the second, in UTC."""
    return "-" if instant is None else instant.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def span(length: timedelta) -> str:
    """Return a duration in its two largest units, such as `2 h 5 min`; below ten seconds with a decimal."""
    seconds = max(0.0, length.total_seconds())
    if seconds < 10:
        return f"{seconds:.1f}".removesuffix(".0") + " s"
    whole = round(seconds)
    sizes = ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min"), (1, "s"))
    at = next(position for position, (size, _) in enumerate(sizes) if whole >= size)
    parts = []
    for size, unit in sizes[at : at + 2]:
        number, whole = divmod(whole, size)
        if number:
            parts.append(f"{number} {unit}")
    return " ".join(parts)


def size(number: int) -> str:
    """Return a number of bytes in the unit that suits it, such as `12.3 MB`."""
    for power, unit in ((4, "TB"), (3, "GB"), (2, "MB")):
        if number >= 1024**power:
            return f"{number / 1024**power:.1f} {unit}"
    return f"{number / 1024:.0f} kB"


def counted(number: int, what: str) -> str:
    """Return a number of things, such as `1 delivery`, `2 deliveries`."""
    if number == 1:
        return f"1 {what}"
    return f"{number} {what[:-1]}ies" if re.search("[^aeiou]y$", what) else f"{number} {what}s"


def _escaped(char: str) -> str:
    code = ord(char)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


# For programs --------------------------------------------------------------------------------------------------------


def json_text(document: Any, *, indent: int | None = 2) -> str:
    """Return a document as JSON; `JsonText` in it stands as it was recorded, with every digit."""
    kept: list[str] = []
    place = secrets.token_hex(8)  # no text from outside can know it

    def keep(value: Any) -> Any:
        match value:
            case JsonText():
                kept.append(str(value))
                return f"{place}.{len(kept) - 1}"
            case dict():
                return {name: keep(each) for name, each in value.items()}
            case list() | tuple():
                return [keep(each) for each in value]
            case _:
                return value

    text = json.dumps(keep(document), ensure_ascii=False, indent=indent)
    text = re.sub(rf'"{place}\.(\d+)"', lambda found: re.sub(r"[\r\n\t]", " ", kept[int(found[1])]), text)
    return "".join(char if char.isprintable() or char == "\n" else _json_escape(char) for char in text)


def write_json(document: Any, form: Form = Form.JSON) -> None:
    """Print one JSON document."""
    click.echo(json_text(document, indent=2 if form is Form.JSON else None))


def _json_escape(char: str) -> str:
    code = ord(char)
    if code < 0x10000:
        return f"\\u{code:04x}"
    high, low = divmod(code - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"


# For people ----------------------------------------------------------------------------------------------------------


def write_line(text: str = "") -> None:
    """Print a line of ours; what is not ours in it went through `shown`."""
    click.echo(complete(text))


def write_note(text: str) -> None:
    """Print a line about the work, beside its result."""
    click.echo(complete(shown(text)), err=True)


def write_fields(fields: Iterable[tuple[str, object]]) -> None:
    """Print names and values under each other; None is left out."""
    lines = [(name, complete(shown(value))) for name, value in fields if value is not None]
    width = max((len(name) for name, _ in lines), default=0)
    for name, value in lines:
        click.echo(f"{name:<{width}}  {value}".rstrip())


def write_block(text: object, *, indent: str = "    ", most: int = 20) -> None:
    """Print a text of several lines, at most so many."""
    lines = shown_block(text)
    for line in lines[:most]:
        click.echo(f"{indent}{line}".rstrip())
    if len(lines) > most:
        click.echo(f"{indent}... {len(lines) - most} lines more: --json has them all")


def write_table(headings: Sequence[str], rows: Iterable[Sequence[object]], *, empty: str) -> None:
    """Print a table, or `empty` where there are no rows."""
    filled = [[shown("-" if cell is None else cell) for cell in row] for row in rows]
    if not filled:
        click.echo(complete(empty))
        return
    from rich.cells import cell_len
    from rich.table import Table
    from rich.text import Text

    table, narrowest = Table(box=None, pad_edge=False, header_style="bold"), 0
    for heading, cells in zip(headings, zip(*filled, strict=True), strict=True):
        whole = heading.lower().endswith(_WHOLE)
        table.add_column(Text(heading), overflow="fold", no_wrap=whole)
        widest = max(map(cell_len, (heading, *cells)))
        narrowest += _GAP + (widest if whole else min(widest, _NARROW))
    for row in filled:
        table.add_row(*(Text(cell) for cell in row))
    console = _console(narrowest)
    with console.capture() as capture:
        console.print(table)
    # Through click, as everything else: it minds encodings and streams that a test has put in place.
    for line in capture.get().splitlines():
        click.echo(line.rstrip())


def _console(narrowest: int) -> Console:
    """Return a console that cuts nothing: a terminal that is too narrow wraps the lines by itself."""
    from rich.console import Console

    terminal = sys.stdout.isatty()
    return Console(
        file=sys.stdout,
        width=max(shutil.get_terminal_size().columns, narrowest) if terminal else _NO_TERMINAL_WIDTH,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
    )
