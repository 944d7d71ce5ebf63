"""What a person may write for a duration, an instant, a header, JSON; whatever is refused ends in exit code 2."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, NoReturn

import click
from click.shell_completion import CompletionItem

from delivery.cli import completing
from delivery.cli.ids import Sort, read_id
from delivery.errors import InvalidInput
from delivery.events import MAX_PAYLOAD_BYTES, JsonText
from delivery.jobs import JobState

#: Ids of jobs and deliveries are numbers that PostgreSQL calls bigint.
MAX_JOB_ID = 2**63 - 1
STATE = click.Choice([state.value for state in JobState])
#: What a delivery is left in when it ends or fails.
OUTCOME_STATE = click.Choice([state.value for state in JobState if state.is_final or state is JobState.RETRYABLE])
FINAL_STATE = click.Choice([state.value for state in JobState if state.is_final])


Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


class Written(click.ParamType):  # type: ignore[type-arg] # generic in the newest click only
    """A value as a person writes it."""

    def __init__(self, name: str, read: Callable[[str], Any], complete: Complete | None = None) -> None:
        """Read with `read`, which raises InvalidInput for what it refuses; `complete` says what may be meant."""
        self.name = name
        self._read = read
        self._complete = complete

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Read it; a default may be the value itself."""
        if not isinstance(value, str):
            return value
        try:
            return self._read(value)
        except InvalidInput as error:
            self.fail(str(error), param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Tell a shell what may be meant."""
        return [] if self._complete is None else self._complete(ctx, param, incomplete)


def _duration(text: str) -> timedelta:
    from delivery.settings import duration

    return duration(text)


def _durations(text: str) -> tuple[timedelta, ...]:
    return tuple(_duration(each) for each in text.split(","))


def _address(text: str) -> str:
    from delivery.settings import address

    address(text)
    return text


def _moment(text: str) -> datetime:
    """Read an instant in ISO 8601, in UTC where it names no time zone, or a duration ago."""
    try:
        return datetime.now(UTC) - _duration(text)
    except InvalidInput:
        pass  # then it is an instant
    try:
        instant = datetime.fromisoformat(text.strip())
        return (instant if instant.tzinfo else instant.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise InvalidInput(
            f"{text[:40]!r} is no instant: write 2026-01-31T12:00:00Z, or 2h for two hours ago"
        ) from None


def _header(text: str) -> tuple[str, str]:
    """Part name and value; a refusal does not repeat the value, which may be a credential."""
    name, colon, value = text.partition(":")
    if not colon or not name.strip():
        raise InvalidInput("a header is written 'Name: value'")
    return name.strip(), value.strip()


def _override(text: str) -> tuple[str, str]:
    code, _, verdict = text.partition("=")
    if not code.strip() or not verdict.strip():
        raise InvalidInput(f"{text[:40]!r} is no override: write it as http_409=delivered")
    return code.strip(), verdict.strip()


def _rate(text: str) -> Any:
    from subscriptions.errors import InvalidEndpoint
    from subscriptions.rates import Rate

    try:
        return Rate.parse(text)
    except InvalidEndpoint as error:
        raise InvalidInput(str(error)) from None


def _job_id(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,19}", text, re.ASCII) or not 1 <= int(text) <= MAX_JOB_ID:
        raise InvalidInput(f"{text[:40]!r} is no id: deliveries and jobs have numbers, which `list` shows")
    return int(text)


def _http_status(text: str) -> tuple[int, int]:
    """Read a status, or all that begin with a digit; returns the least and the greatest."""
    found = re.fullmatch(r"([1-9])([0-9]{2}|[xX]{2})", text.strip(), re.ASCII)
    if found is None:
        raise InvalidInput(f"{text[:40]!r} is no HTTP status: write 503, or 5xx for all that begin with 5")
    first = int(found[1]) * 100
    return (first, first + 99) if found[2].lower() == "xx" else (int(found[0]), int(found[0]))


def _filled(text: str) -> str:
    """Refuse an empty one: `--dsn "$UNSET"` must not mean some other place."""
    if not text.strip():
        raise InvalidInput("it is empty: give a value, or leave the option out")
    return text


def _filter(text: str) -> str:
    from subscriptions.errors import InvalidFilter
    from subscriptions.filters import parse_filter

    try:
        return parse_filter(text).text
    except InvalidFilter as error:
        raise InvalidInput(str(error)) from None


ADDRESS = Written("host:port", _address)
DURATION = Written("duration", _duration)
DURATIONS = Written("durations", _durations)
MOMENT = Written("when", _moment)
HEADER = Written("header", _header)
OVERRIDE = Written("override", _override)
RATE = Written("rate", _rate)
JOB_ID = Written("id", _job_id)
ENDPOINT = Written("id", partial(read_id, Sort.ENDPOINT), completing.endpoints)
EVENT = Written("id", partial(read_id, Sort.EVENT), completing.events)
FILTER = Written("filter", _filter)
FILLED = Written("text", _filled)
HTTP_STATUS = Written("status", _http_status)


def encoded(text: str) -> bytes:
    """Return an argument as the shell gave it."""
    return text.encode("utf-8", "surrogateescape")


def payload(raw: bytes) -> JsonText:
    """Return JSON text with every byte kept.

    Raises:
        InvalidInput: it is not UTF-8, no JSON, or larger than an event may be.
    """
    if len(raw) > MAX_PAYLOAD_BYTES:
        raise InvalidInput(
            f"the data is larger than {MAX_PAYLOAD_BYTES} bytes of JSON: record a reference to it instead"
        )
    try:
        text = raw.decode("utf-8")
        json.loads(text, parse_int=str, parse_float=str, parse_constant=_refuse_constant)
    except UnicodeDecodeError as error:
        raise InvalidInput(f"the data is not UTF-8 (byte {error.start}): encode it as UTF-8") from None
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise InvalidInput(f"the data is no JSON ({error.msg} at {place}): write for example '{{\"n\": 1}}'") from None
    except RecursionError:
        raise InvalidInput("the data is nested too deeply: flatten it") from None
    return JsonText(text)


def check_range(since: datetime | None, until: datetime | None) -> None:
    """Refuse a range that nothing can be in.

    Raises:
        InvalidInput: it ends before it begins.
    """
    if since is not None and until is not None and since >= until:
        raise InvalidInput("--since is not before --until: nothing can be between them")


def _refuse_constant(name: str) -> NoReturn:
    raise InvalidInput(f"the data is no JSON ({name} is no number of JSON): leave it out, or write null")
