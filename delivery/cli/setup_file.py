"""The set-up as a file of YAML or JSON: read what a person wrote, naming the place of what is refused; write it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn
from uuid import UUID

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from delivery.cli.output import json_text
from delivery.errors import InvalidInput
from delivery.settings import duration
from subscriptions.model import Checks, ClientErrors, EndpointChanges, Exposure, PayloadFormat, PolicyChanges
from subscriptions.rates import Rate
from subscriptions.setup import Setup, WantedEndpoint, WantedOwner, WantedPolicy, WantedSubscription, WantedType

Steps = tuple[str | int, ...]
#: Says where something stands, by the steps that lead to it in the document.
Place = Callable[[Steps], str]
_HEAD = "# What owners want, for `tidings endpoints import`. Values that are `secret` are kept as they are.\n"
_SECRET = {"secret": True}
#: In place of a duration: of its own it has none, and that of its policy, or of the platform, counts.
_OF_POLICY, _OF_PLATFORM = "policy", "platform"
#: In milliseconds: a duration is written in the largest that it is a whole number of.
_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1000, "s"), (1, "ms"))


class FileForm(StrEnum):
    """How it is written."""

    YAML = "yaml"
    JSON = "json"

    @classmethod
    def of(cls, name: str) -> FileForm | None:
        """Tell it by a file's name; None where that says nothing."""
        return {".yaml": cls.YAML, ".yml": cls.YAML, ".json": cls.JSON}.get(Path(name).suffix.lower())


# The shape -----------------------------------------------------------------------------------------------------------


def _value(given: Any) -> str | None:
    """Read a value, or the mark of one that is kept: None."""
    if given == _SECRET:
        return None
    if isinstance(given, str):
        return given
    raise ValueError("write a text in quotes, or {secret: true} for one that is kept as it is")


def _kept(given: Any) -> None:
    if given != _SECRET:
        raise ValueError("write {secret: true}: it is kept as it is, and given by `tidings endpoints update`")


def _whole_ms(given: Any) -> Any:
    """Read a duration; less than a millisecond is lost, as it is where it is kept."""
    if not isinstance(given, str):
        raise ValueError("write it as 10s, 500ms or 1m")
    ms = timedelta(milliseconds=1)
    return duration(given) // ms * ms


def _of_policy(given: Any) -> Any:
    return _OF_POLICY if given == _OF_POLICY else _whole_ms(given)


def _of_platform(given: Any) -> Any:
    return _OF_PLATFORM if given == _OF_PLATFORM else _whole_ms(given)


def _rate(given: Any) -> Any:
    if not isinstance(given, str):
        raise ValueError("write it as 10/s or 100/m")
    return Rate.parse(given)


def _id(given: Any) -> Any:
    try:
        return UUID(given)
    except (ValueError, AttributeError, TypeError):
        raise ValueError("it is no id: write the UUID of an endpoint, or leave it out") from None


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class _Type(_Entry):
    type: str
    exposure: Literal["internal", "webhook"] | None = None
    description: str | None = None
    schema_: str | None = Field(default=None, alias="schema")  # pydantic has a `schema` of its own
    checks: Literal["off", "warn", "reject"] | None = None


class _Policy(_Entry):
    name: str
    ladder: list[Annotated[timedelta, BeforeValidator(_whole_ms)]] | None = None
    attempts: int | None = None
    timeout: Annotated[timedelta | None, BeforeValidator(_whole_ms)] = None
    max_age: Annotated[timedelta | Literal["platform"] | None, BeforeValidator(_of_platform)] = None
    client_errors: Literal["short", "full", "discard"] | None = None


class _Subscription(_Entry):
    name: str
    patterns: list[str]
    filter: str | None = None
    future: bool = False


class _Endpoint(_Entry):
    id: Annotated[UUID | None, BeforeValidator(_id)] = None
    url: str
    description: str | None = None
    policy: str | None = None
    format: Literal["envelope", "cloudevents", "raw"] | None = None
    limit: int | None = None
    rate: Annotated[Rate | None, BeforeValidator(_rate)] = None
    burst: int | None = None
    timeout: Annotated[timedelta | Literal["policy"] | None, BeforeValidator(_of_policy)] = None
    overrides: dict[str, str] | None = None
    headers: dict[str, Annotated[str | None, BeforeValidator(_value)]] | None = None
    tls: dict[Literal["certificate", "authorities"], Annotated[None, BeforeValidator(_kept)]] = Field(
        default_factory=dict
    )
    scheme: Literal["v1", "v1a"] | None = None
    subscriptions: list[_Subscription] = Field(default_factory=list)


class _Owner(_Entry):
    endpoints: list[_Endpoint] = Field(default_factory=list)


class _Document(_Entry):
    tidings: Literal[1]  #: the version of this shape
    event_types: list[_Type] = Field(default_factory=list)
    policies: list[_Policy] = Field(default_factory=list)
    owners: dict[str, _Owner] = Field(default_factory=dict)


# Reading -------------------------------------------------------------------------------------------------------------


def read_setup(raw: bytes, form: FileForm) -> Setup:
    """Read a document.

    Raises:
        InvalidInput: it is none; the message says where.
    """
    try:
        text = raw.decode("utf-8-sig")
        data, place = _read_yaml(text) if form is FileForm.YAML else (_json(text), written)
    except UnicodeDecodeError as error:
        raise InvalidInput(f"the file is not UTF-8 (byte {error.start}): encode it as UTF-8") from None
    except RecursionError:
        raise InvalidInput("the file is nested too deeply") from None
    try:
        document = _Document.model_validate(data)
    except ValidationError as error:
        raise InvalidInput(_refused(error.errors(), place)) from None
    return Setup(
        event_types=tuple(
            WantedType(
                place=place(("event_types", n)),
                type=each.type,
                exposure=None if each.exposure is None else Exposure(each.exposure),
                description=each.description,
                schema=each.schema_,
                checks=None if each.checks is None else Checks(each.checks),
            )
            for n, each in enumerate(document.event_types)
        ),
        policies=tuple(_policy(each, place(("policies", n))) for n, each in enumerate(document.policies)),
        owners=tuple(
            WantedOwner(
                owner_id=owner_id,
                endpoints=tuple(
                    _endpoint(each, ("owners", owner_id, "endpoints", n), place)
                    for n, each in enumerate(owner.endpoints)
                ),
            )
            for owner_id, owner in document.owners.items()
        ),
    )


def _policy(entry: _Policy, place: str) -> WantedPolicy:
    fields = PolicyChanges(
        ladder=None if entry.ladder is None else tuple(entry.ladder),
        max_attempts=entry.attempts,
        timeout=entry.timeout,
        max_age=entry.max_age if isinstance(entry.max_age, timedelta) else None,
        no_max_age=True if entry.max_age == _OF_PLATFORM else None,
        client_errors=None if entry.client_errors is None else ClientErrors(entry.client_errors),
    )
    return WantedPolicy(place=place, name=entry.name, fields=fields)


def _endpoint(entry: _Endpoint, path: Steps, place: Place) -> WantedEndpoint:
    return WantedEndpoint(
        place=place(path),
        id=entry.id,
        url=entry.url,
        fields=EndpointChanges(
            description=entry.description,
            policy=entry.policy,
            format=None if entry.format is None else PayloadFormat(entry.format),
            limit=entry.limit,
            rate=_paced(entry, place(path)),
            timeout=entry.timeout if isinstance(entry.timeout, timedelta) else None,
            no_timeout=True if entry.timeout == _OF_POLICY else None,
            overrides=entry.overrides,
        ),
        headers=None if entry.headers is None else tuple(entry.headers.items()),
        tls=tuple(entry.tls),
        scheme=entry.scheme,
        subscriptions=tuple(
            WantedSubscription(
                place=place((*path, "subscriptions", n)),
                name=each.name,
                patterns=tuple(each.patterns),
                filter=each.filter,
                future=each.future,
            )
            for n, each in enumerate(entry.subscriptions)
        ),
    )


def _paced(entry: _Endpoint, place: str) -> Rate | None:
    if entry.rate is None and entry.burst is not None:
        raise InvalidInput(f"{place}: a burst goes with a rate: give both")
    return entry.rate if entry.rate is None or entry.burst is None else replace(entry.rate, burst=entry.burst)


def written(path: Steps) -> str:
    """Write a path as `owners.acme.endpoints[0]`."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return text.removeprefix(".") or "the file"


def _refused(errors: Sequence[Any], place: Place) -> str:
    """Say what is wrong first, and how much else is."""
    first = errors[0]
    path = tuple(step for step in first["loc"] if step != "[key]")
    match first["type"]:
        case "extra_forbidden":
            path, what = path[:-1], f"there is no field {str(path[-1])[:60]!r} here"
        case "missing":
            path, what = path[:-1], f"the field {path[-1]!r} is missing"
        case "string_type":
            what = "it is no text: put it in quotes"
        case "value_error":
            what = str(first["ctx"]["error"])
        case _:
            what = first["msg"][0].lower() + first["msg"][1:]
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return f"{place(path)}: {what}{more}"


def _read_yaml(text: str) -> tuple[Any, Place]:
    from delivery.cli.yaml_text import read_yaml

    data, line = read_yaml(text)
    return data, lambda path: f"line {line(path)}: {written(path)}"


def _json(text: str) -> Any:
    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        named = dict(found)
        if len(named) < len(found):
            [(twice, _)] = Counter(name for name, _ in found).most_common(1)
            raise InvalidInput(f"the name {twice!r} is there twice in one object: write it once")
        return named

    def refuse(name: str) -> NoReturn:
        raise InvalidInput(f"{name} is no number of JSON: leave it out")

    try:
        return json.loads(text, object_pairs_hook=pairs, parse_constant=refuse)
    except json.JSONDecodeError as error:
        raise InvalidInput(f"line {error.lineno}, column {error.colno}: it is no JSON ({error.msg})") from None
    except InvalidInput:
        raise
    except ValueError:
        raise InvalidInput("a number has more digits than are read: shorten it") from None


# Writing -------------------------------------------------------------------------------------------------------------


def write_setup(setup: Setup, form: FileForm) -> str:
    """Write a document."""
    document = {
        "tidings": 1,
        "event_types": [
            {"type": each.type, "exposure": each.exposure and each.exposure.value, "description": each.description}
            | ({} if each.schema is None else {"schema": each.schema, "checks": each.checks and each.checks.value})
            for each in setup.event_types
        ],
        "policies": [_policy_entry(each) for each in setup.policies],
        "owners": {
            owner.owner_id: {"endpoints": [_endpoint_entry(each) for each in owner.endpoints]} for owner in setup.owners
        },
    }
    if form is FileForm.JSON:
        return json_text(document) + "\n"
    from delivery.cli.yaml_text import write_yaml

    return _HEAD + write_yaml(document)


def _policy_entry(one: WantedPolicy) -> dict[str, Any]:
    fields = one.fields
    return {
        "name": one.name,
        "ladder": [_duration(step) for step in fields.ladder or ()],
        "attempts": fields.max_attempts,
        "timeout": None if fields.timeout is None else _duration(fields.timeout),
        "max_age": _OF_PLATFORM if fields.max_age is None else _duration(fields.max_age),
        "client_errors": fields.client_errors and fields.client_errors.value,
    }


def _endpoint_entry(one: WantedEndpoint) -> dict[str, Any]:
    fields = one.fields
    entry = {
        "id": str(one.id),
        "url": one.url,
        "description": fields.description,
        "policy": fields.policy,
        "format": fields.format and fields.format.value,
        "limit": fields.limit,
        "rate": fields.rate and str(fields.rate),
        "burst": fields.rate and fields.rate.burst,
        "timeout": _OF_POLICY if fields.timeout is None else _duration(fields.timeout),
        "overrides": dict(fields.overrides or {}),
        "headers": {name: dict(_SECRET) for name, _ in one.headers or ()} or None,
        "tls": {name: dict(_SECRET) for name in one.tls} or None,
        "scheme": one.scheme,
        "subscriptions": [
            {"name": each.name, "patterns": list(each.patterns)}
            | ({} if each.filter is None else {"filter": each.filter})
            | ({"future": True} if each.future else {})
            for each in one.subscriptions
        ],
    }
    return {name: value for name, value in entry.items() if value is not None}


def _duration(length: timedelta) -> str:
    ms = length // timedelta(milliseconds=1)
    size, unit = next((size, unit) for size, unit in _UNITS if ms % size == 0)
    return f"{ms // size}{unit}"
