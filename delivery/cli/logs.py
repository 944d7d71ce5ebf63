"""What is written on standard error while a command runs: lines for people, or one JSON object a line for programs."""

from __future__ import annotations

import json
import logging
import re
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Any

import click

from delivery.cli.hints import complete
from delivery.cli.output import shown

CONSOLE, JSON = FORMATS = ("console", "json")
#: Who is heard: the platform, and what the loop under it has to say.
_HEARD = ("tidings", "asyncio")
#: A value in a message with the word before it that names it, such as `code=%s` or `endpoint %s`.
_VALUE = re.compile(r"(?:\b([a-z]+)=|\b(event|endpoint|job|kind) )?%(?:%|[-+ #0]*[0-9]*(?:\.[0-9]+)?([a-z]))")

_handler: ContextVar[logging.Handler | None] = ContextVar("handler", default=None)


class Lines(logging.Formatter):
    """One line a record, with nothing in it that a terminal obeys."""

    converter = staticmethod(time.gmtime)

    def __init__(self) -> None:
        """Write time, level and message."""
        super().__init__("%(asctime)s.%(msecs)03dZ %(levelname)s %(message)s", "%Y-%m-%dT%H:%M:%S")

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        return shown(" ".join(super().format(record).split("\n")))


class JsonLines(logging.Formatter):
    """One JSON object a record and line, all of it ASCII: `time`, `level`, `logger`, `message`, and what that names.

    A traceback is in `exception`. Values keep their type; those that a message does not name are in its text alone.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        said: dict[str, Any] = {
            "time": f"{moment}.{int(record.msecs):03d}Z",
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        for name, value in _named(record).items():
            said.setdefault(name, value)
        if record.exc_info and record.exc_info[0] is not None:
            said["exception"] = self.formatException(record.exc_info)
        return json.dumps(said)


@contextmanager
def writing() -> Iterator[None]:
    """Write what is logged meanwhile, for people until `use` says otherwise; `is_json` goes by that also afterwards."""
    quiet = logging.getLogger("psycopg.pool")
    heard = [logging.getLogger(name) for name in _HEARD]
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Lines())
    _handler.set(handler)
    silence = logging.NullHandler()  # the loops say that the database is away, once
    levels = [logger.level for logger in heard]
    for logger in heard:
        logger.addHandler(handler)
    quiet.addHandler(silence)
    propagates, quiet.propagate = quiet.propagate, False
    try:
        yield
    finally:
        quiet.propagate = propagates
        quiet.removeHandler(silence)
        for logger, level in zip(heard, levels, strict=True):
            logger.removeHandler(handler)
            logger.setLevel(level)


def use(log_format: str) -> None:
    """Write in this format from now on."""
    handler = _handler.get()
    if handler is not None:
        handler.setFormatter(JsonLines() if log_format == JSON else Lines())


def is_json() -> bool:
    """Say whether a program reads what this command writes on standard error."""
    handler = _handler.get()
    return handler is not None and isinstance(handler.formatter, JsonLines)


def note(text: str, *, level: int = logging.INFO, error: BaseException | None = None) -> None:
    """Print a line about the work, whatever the level is that is logged."""
    if not is_json():
        click.echo(complete(shown(text)), err=True)
        return
    trace = None if error is None else (type(error), error, error.__traceback__)
    record = logging.LogRecord("tidings", level, __file__, 0, "%s", (complete(text),), trace)
    click.echo(JsonLines().format(record), err=True)


def _named(record: logging.LogRecord) -> dict[str, Any]:
    """Return what the message names. Hostile text is only ever a value: the names are those of our own words."""
    if not isinstance(record.msg, str) or not record.args or isinstance(record.args, Mapping):
        return {}
    names = _names(record.msg)
    return {} if len(names) != len(record.args) else dict(_pairs(names, record.args))


def _pairs(names: tuple[tuple[str, str], ...], values: tuple[object, ...]) -> Iterator[tuple[str, Any]]:
    for (name, conversion), value in zip(names, values, strict=True):
        match value:
            case _ if not name:
                pass
            case int() | float():
                yield name, int(value) if conversion == "d" else value
            case _:
                yield name, str(value)


@lru_cache(maxsize=1_000)
def _names(template: str) -> tuple[tuple[str, str], ...]:
    """Return the name before each value of a message, empty where there is none, and how it is converted."""
    return tuple((named or word or "", how) for named, word, how in _VALUE.findall(template) if how)
