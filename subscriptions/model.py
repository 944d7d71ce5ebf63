"""What an owner wants, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Literal
from uuid import UUID

from subscriptions.rates import Rate


class Exposure(StrEnum):
    """How far events of a type may go."""

    INTERNAL = "internal"  # handlers in this process only; never leaves
    WEBHOOK = "webhook"  # may be sent to endpoints


class Checks(StrEnum):
    """What becomes of an event whose data does not fit the schema of its type."""

    OFF = "off"  # nobody looks
    WARN = "warn"  # it is logged, and goes on
    REJECT = "reject"  # a recorder refuses it, and a relay sets it aside


@dataclass(frozen=True, slots=True, kw_only=True)
class EventType:
    """A type of event, declared once."""

    type: str  #: dotted, such as `invoice.paid`
    exposure: Exposure = Exposure.INTERNAL
    description: str = ""
    schema: str | None = None  #: JSON Schema of its data
    checks: Checks = Checks.OFF


class ClientErrors(StrEnum):
    """What a policy makes of answers that a deploy or a key change explains: 401, 404, and every 4xx without a rule."""

    SHORT = "short"  # tried again along the short ladder
    FULL = "full"  # tried again along the ladder, as a 500 is
    DISCARD = "discard"  # discarded at once


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How a delivery is tried. Source: the ladder of the Standard Webhooks example, continued."""

    name: str
    ladder: tuple[timedelta, ...]  #: delay after the 1st, 2nd ... failure; the last one repeats
    max_attempts: int  #: failures before the delivery is discarded as exhausted
    short_ladder: tuple[timedelta, ...]  #: for answers that a deploy or a key change explains (401, 404 ...)
    short_attempts: int  #: this many such answers in a row discard the delivery
    snooze_first: timedelta = timedelta(seconds=5)  #: first own step after "not now" (429); doubles
    snooze_last: timedelta = timedelta(minutes=10)  #: the own step grows no further
    retry_after_cap: timedelta = timedelta(hours=10)  #: a receiver's Retry-After counts up to this
    cooldown: timedelta = timedelta(minutes=5)  #: while the endpoint keeps failing, new deliveries start this late
    jitter: float = 0.1  #: each delay is spread by this share both ways
    timeout: timedelta = timedelta(seconds=10)  #: of one attempt to an endpoint that has none of its own
    max_age: timedelta | None = None  #: a delivery older than this is discarded as expired; None = the platform's
    client_errors: ClientErrors = ClientErrors.SHORT


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyChanges:
    """What to change about a policy that operators made; None leaves a field as it is."""

    ladder: tuple[timedelta, ...] | None = None
    max_attempts: int | None = None
    timeout: timedelta | None = None
    max_age: timedelta | None = None
    no_max_age: Literal[True] | None = None  #: takes it back: the platform's counts
    client_errors: ClientErrors | None = None


class EndpointState(StrEnum):
    """Whether deliveries to an endpoint go out."""

    ENABLED = "enabled"
    DISABLED = "disabled"  # its deliveries are parked
    REMOVED = "removed"  # its deliveries were cancelled; kept for the record


class PayloadFormat(StrEnum):
    """How an event is written for a receiver."""

    ENVELOPE = "envelope"  # Tidings' own: id, type, subject, timestamp, data
    CLOUDEVENTS = "cloudevents"  # CloudEvents 1.0, structured: the attributes in the body, around the data
    RAW = "raw"  # CloudEvents 1.0, binary: the data alone, the attributes in `ce-` headers


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsIdentity:
    """Who we are to a receiver, and whom we trust to be it. Texts are PEM; one without any is none."""

    certificate: str | None = field(default=None, repr=False)  #: ours, with its chain
    key: str | None = field(default=None, repr=False)  #: of the certificate, not encrypted
    authorities: str | None = field(default=None, repr=False)  #: trusted in place of the system's

    def __bool__(self) -> bool:
        return self != TlsIdentity()


class UnopenedHeaders(tuple[tuple[str, str], ...]):
    """Headers that could not be opened, and a TLS identity with them: empty to look at, written back as they are kept.

    So an endpoint whose key is gone can still be looked at, disabled, removed, or given new ones. Nothing is
    sent without them.
    """

    sealed: bytes

    @classmethod
    def of(cls, sealed: bytes) -> UnopenedHeaders:
        """Stand for headers that are sealed like this."""
        made = cls()
        made.sealed = sealed
        return made


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where deliveries go."""

    id: UUID
    owner_id: str
    url: str  #: canonical form
    description: str = ""
    policy: str = "standard"  #: name of a `RetryPolicy`, built in or made by operators
    #: Sent with each delivery, before ours; may hold credentials.
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    tls: TlsIdentity | None = None  #: of connections to it; None = the system's authorities, and no certificate
    format: PayloadFormat = PayloadFormat.ENVELOPE
    limit: int = 10  #: deliveries in flight at once, over all processes
    rate: Rate | None = None  #: how often a try may start, over all processes; None = as often as there are deliveries
    timeout: timedelta | None = None  #: of one attempt, DNS to last byte; None = that of its policy
    overrides: Mapping[str, str] = field(default_factory=dict)  #: classifier rows: outcome code -> class name
    state: EndpointState = EndpointState.ENABLED
    state_reason: str | None = None  #: why it is disabled
    state_by: str | None = None  #: who said so: a person, or a rule such as `http_410`
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointChanges:
    """What to change about an endpoint; None leaves a field as it is."""

    url: str | None = None
    description: str | None = None
    policy: str | None = None
    headers: tuple[tuple[str, str], ...] | None = field(default=None, repr=False)  #: replaces all of them
    tls: TlsIdentity | None = None  #: replaces all of it; an empty one leaves none
    format: PayloadFormat | None = None
    limit: int | None = None
    rate: Rate | None = None  #: `NO_RATE` leaves none
    timeout: timedelta | None = None
    no_timeout: Literal[True] | None = None  #: takes it back: that of its policy counts
    overrides: Mapping[str, str] | None = None  #: replaces all of them


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointTarget:
    """Deliver to an endpoint, signed."""

    endpoint_id: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlerTarget:
    """Run a named handler in a process of the platform."""

    kind: str  #: the job kind it compiles into, `handler.<name>`
    coalesce: bool = False  #: one job per subject in a relayed batch, for the latest event


Target = EndpointTarget | HandlerTarget


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """Which events go to which target."""

    id: UUID
    owner_id: str | None  #: None = events of every owner (handlers only)
    name: str
    patterns: tuple[str, ...]
    filter: str | None = None  #: over payloads (`subscriptions.filters`); None = whatever they are
    target: Target
    created_at: datetime


def describe(thing: Endpoint | Subscription | EventType | RetryPolicy) -> dict[str, Any]:
    """Return the thing as JSON, for lists and records: of an endpoint's credentials the names only."""
    shown = {each.name: _json(getattr(thing, each.name)) for each in fields(thing)}
    if isinstance(thing, Endpoint):
        shown["headers"] = [name for name, _ in thing.headers]
        shown["tls"] = described_tls(thing.tls)
    return shown


def described_tls(tls: TlsIdentity | None) -> list[str]:
    """Name what there is of a TLS identity."""
    given = {"certificate": tls.certificate, "authorities": tls.authorities} if tls else {}
    return [name for name, text in given.items() if text is not None]


def _json(value: Any) -> Any:
    match value:
        case None | int() | float():
            return value
        case tuple():
            return [_json(each) for each in value]
        case Mapping():
            return dict(value)
        case datetime():
            return value.isoformat()
        case _ if is_dataclass(value):
            return {each.name: _json(getattr(value, each.name)) for each in fields(value)}
        case _:
            return str(value)
