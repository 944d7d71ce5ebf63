"""Judge what came of one attempt.

The rules are data: `TABLE` has one row for every outcome code, whether a status (`http_503`) or a fault
(`timeout`). A policy says what becomes of the `short` ones; an endpoint may override rows by code; the receiver may
answer with a `webhook-delivery` header, which is its explicit word and stands above all. A row never looks at the
attempts that are left: what happens next is `backoff`'s. Each verdict's `outcome` is the word that its attempt is
kept with.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType
from typing import ClassVar, assert_never

from delivery.channels import Fault, FaultCode, PermanentError, Reply, RetryableError
from delivery.errors import InvalidInput
from delivery.values import valueclass
from subscriptions.model import ClientErrors


class Ladder(StrEnum):
    """Which of a policy's two ladders a failure climbs."""

    FULL = "full"
    SHORT = "short"  # a deploy or a key change may explain it: for minutes, not for days


@valueclass
class Delivered:
    """The receiver accepted it."""

    outcome: ClassVar[str] = "delivered"

    code: str
    rule: str
    disable: bool = False  #: it accepted this one and asked for no more


@dataclass(frozen=True, slots=True, kw_only=True)
class Retryable:
    """It failed, and may go through later; spends an attempt."""

    outcome: ClassVar[str] = "retryable"

    code: str
    rule: str
    ladder: Ladder = Ladder.FULL
    counts: bool = True  #: against the endpoint's health


@dataclass(frozen=True, slots=True, kw_only=True)
class Snoozed:
    """The receiver said "not now"; spends no attempt."""

    outcome: ClassVar[str] = "snoozed"

    code: str
    rule: str
    retry_after: str | None = None  #: the header as received; hostile


@dataclass(frozen=True, slots=True, kw_only=True)
class Again:
    """A kept connection was closed under the request: run again at once, once in a row; spends no attempt."""

    outcome: ClassVar[str] = "retryable"

    code: str
    rule: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Permanent:
    """Trying again cannot help."""

    outcome: ClassVar[str] = "permanent"

    code: str
    rule: str
    disable: bool = False  #: the endpoint, too


@dataclass(frozen=True, slots=True, kw_only=True)
class Ours:
    """Our own trouble; spends no attempt and says nothing about the endpoint."""

    outcome: ClassVar[str] = "ours"

    code: str
    rule: str


Verdict = Delivered | Retryable | Snoozed | Again | Permanent | Ours


class Judgement(StrEnum):
    """The classes of the table; an override may name those up to `disable`."""

    DELIVERED = "delivered"
    RETRYABLE = "retryable"
    SHORT = "short"  # retryable, on the short ladder
    SNOOZED = "snoozed"
    PERMANENT = "permanent"
    DISABLE = "disable"  # permanent, and the endpoint is disabled
    AGAIN = "again"
    OURS = "ours"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One rule of the table."""

    rule: str  #: its name, shown with each attempt that it decided
    codes: frozenset[str]
    judgement: Judgement
    counts: bool = True  #: against the endpoint's health, where it is retryable
    retry_after: bool | None = None  #: only with, or only without, a Retry-After header; None = either way
    fixed: bool = False  #: no endpoint can override it


def _http(*statuses: int | range) -> frozenset[str]:
    flat = (each for one in statuses for each in (one if isinstance(one, range) else (one,)))
    return frozenset(f"http_{status}" for status in flat)


_REFUSAL = _http(400, 402, 405, 406, range(411, 419), 422, 426, 428, 431, 451)
_DEPLOY = _http(401, 403, 404, 407, 409, 421, 423, 424)
_NAMED_4XX = _REFUSAL | _DEPLOY | _http(408, 410, 425, 429)
_NO_FINAL_STATUS = Row(
    rule="status below 200 or above 599",
    codes=_http(range(100, 200), range(600, 1000)),
    judgement=Judgement.RETRYABLE,
)

_STATUS_ROWS = (
    # A 2xx is never anything but delivered: sending again what was accepted would break a promise.
    Row(rule="2xx", codes=_http(range(200, 300)), judgement=Judgement.DELIVERED, fixed=True),
    Row(rule="3xx", codes=_http(range(300, 400)), judgement=Judgement.PERMANENT),
    Row(rule="408/425", codes=_http(408, 425), judgement=Judgement.RETRYABLE),
    Row(rule="410", codes=_http(410), judgement=Judgement.DISABLE),
    Row(rule="429", codes=_http(429), judgement=Judgement.SNOOZED),
    Row(rule="401/403/404/407/409/421/423/424", codes=_DEPLOY, judgement=Judgement.SHORT),
    Row(
        rule="400/402/405/406/411-418/422/426/428/431/451",
        codes=_REFUSAL,
        judgement=Judgement.PERMANENT,
    ),
    Row(rule="other 4xx", codes=_http(range(400, 500)) - _NAMED_4XX, judgement=Judgement.SHORT),
    Row(rule="501/505", codes=_http(501, 505), judgement=Judgement.PERMANENT),
    Row(rule="503 with Retry-After", codes=_http(503), judgement=Judgement.SNOOZED, retry_after=True),
    Row(rule="503", codes=_http(503), judgement=Judgement.RETRYABLE, retry_after=False),
    Row(rule="5xx", codes=_http(range(500, 600)) - _http(501, 503, 505), judgement=Judgement.RETRYABLE),
    _NO_FINAL_STATUS,
)

_FAULT_ROWS = (
    Row(
        rule="timeout",
        codes=frozenset({FaultCode.TIMEOUT, FaultCode.CONNECT_TIMEOUT}),
        judgement=Judgement.RETRYABLE,
    ),
    Row(
        rule="connection failed",
        codes=frozenset(
            {
                FaultCode.CONNECTION_REFUSED,
                FaultCode.CONNECTION_CLOSED,
                FaultCode.CONNECTION_RESET,
                FaultCode.UNREACHABLE,
            }
        ),
        judgement=Judgement.RETRYABLE,
    ),
    Row(rule="no such host", codes=frozenset({FaultCode.DNS_NOT_FOUND}), judgement=Judgement.RETRYABLE),
    # Nobody can tell a broken zone from a resolver of ours that is down, so the endpoint is not blamed.
    Row(
        rule="DNS failed for now",
        codes=frozenset({FaultCode.DNS_TEMPORARY}),
        judgement=Judgement.RETRYABLE,
        counts=False,
    ),
    # What the operator's proxy forbids may be allowed tomorrow, and the endpoint is not to blame.
    Row(
        rule="refused by the egress proxy",
        codes=frozenset({FaultCode.PROXY_REFUSED}),
        judgement=Judgement.RETRYABLE,
        counts=False,
    ),
    Row(
        rule="TLS failed",
        codes=frozenset({FaultCode.TLS_EXPIRED, FaultCode.TLS_HOSTNAME, FaultCode.TLS_UNTRUSTED, FaultCode.TLS_ERROR}),
        judgement=Judgement.RETRYABLE,
    ),
    Row(
        rule="no HTTP/1.1 answer",
        codes=frozenset(
            {
                FaultCode.PROTOCOL_ERROR,
                FaultCode.HTTP2_ANSWERED,
                FaultCode.UPGRADE_ANSWERED,
                FaultCode.INTERIM_FLOOD,
                FaultCode.HEAD_TOO_LARGE,
                FaultCode.HEAD_INCOMPLETE,
            }
        ),
        judgement=Judgement.RETRYABLE,
    ),
    Row(
        rule="kept connection closed",
        codes=frozenset({FaultCode.CONNECTION_REUSED_CLOSED}),
        judgement=Judgement.AGAIN,
        fixed=True,
    ),
    Row(
        rule="never to be sent",
        codes=frozenset({FaultCode.BLOCKED_ADDRESS, FaultCode.INVALID_URL, FaultCode.INVALID_HEADERS}),
        judgement=Judgement.PERMANENT,
        fixed=True,
    ),
    Row(
        rule="our own trouble",
        codes=frozenset(
            {FaultCode.PROXY_FAILED, FaultCode.CHANNEL_BUSY, FaultCode.UNREADABLE_KEY, FaultCode.INTERNAL_ERROR}
        ),
        judgement=Judgement.OURS,
        fixed=True,
    ),
)

#: Every rule; each outcome code is in exactly one row, or in two that a Retry-After header tells apart.
TABLE: tuple[Row, ...] = _STATUS_ROWS + _FAULT_ROWS

#: What the receiver's `webhook-delivery` header may say; anything else is ignored.
HEADER_WORDS: Mapping[str, Judgement] = MappingProxyType(
    {"abort-message": Judgement.PERMANENT, "disable": Judgement.DISABLE}
)

#: What an override may turn an outcome into.
OVERRIDES: tuple[Judgement, ...] = (
    Judgement.DELIVERED,
    Judgement.RETRYABLE,
    Judgement.SHORT,
    Judgement.SNOOZED,
    Judgement.PERMANENT,
    Judgement.DISABLE,
)

_ROWS: Mapping[tuple[str, bool], Row] = MappingProxyType(
    {
        (str(code), hinted): row
        for row in TABLE
        for code in row.codes
        for hinted in (True, False)
        if row.retry_after in {None, hinted}
    }
)
#: The rows on the short ladder, as a policy has them that wants them otherwise.
_CLIENT_ERRORS: Mapping[tuple[str, ClientErrors], Row] = MappingProxyType(
    {
        (row.rule, client_errors): replace(row, rule=f"{row.rule}, client errors {client_errors}", judgement=judgement)
        for row in TABLE
        if row.judgement is Judgement.SHORT
        for client_errors, judgement in (
            (ClientErrors.FULL, Judgement.RETRYABLE),
            (ClientErrors.DISCARD, Judgement.PERMANENT),
        )
    }
)
_FINAL_STATUSES = _http(range(200, 600))
_NO_OVERRIDES: Mapping[str, str] = MappingProxyType({})


def classify(
    answer: Reply | Fault | RetryableError | PermanentError,
    overrides: Mapping[str, str] = _NO_OVERRIDES,
    client_errors: ClientErrors = ClientErrors.SHORT,
) -> Verdict:
    """Judge one attempt; says nothing about how many attempts are left.

    `client_errors` is the policy's: what becomes of the rows on the short ladder.
    `overrides` maps outcome codes to names of `OVERRIDES`, and stands above it. Those that `check_overrides` would
    refuse are ignored, so that nothing kept with an endpoint can lift a block or resend what was accepted.
    """
    match answer:
        case Reply():
            return _classify_reply(answer, overrides, client_errors)
        case Fault(code=code):
            return _verdict(_row(code, overrides), code)
        case RetryableError():
            return _retryable(answer)
        case PermanentError(code=code, disable_endpoint=disable):
            return Permanent(code=code, rule="channel: permanent", disable=disable)
        case _:
            assert_never(answer)


def check_overrides(overrides: Mapping[str, str]) -> None:
    """Refuse overrides that name no outcome or class, or that would break a promise.

    Raises:
        InvalidInput: the first such override, named.
    """
    for code, name in overrides.items():
        if refusal := _refusal(code, name):
            raise InvalidInput(f"override {_shown(code)}: {refusal}")


def _retryable(error: RetryableError) -> Retryable | Snoozed:
    if error.retry_after is None:
        return Retryable(code=error.code, rule="channel: retryable")
    seconds = max(0, math.ceil(error.retry_after.total_seconds()))
    return Snoozed(code=error.code, rule="channel: retry after", retry_after=str(seconds))


def _classify_reply(reply: Reply, overrides: Mapping[str, str], client_errors: ClientErrors) -> Verdict:
    code = f"http_{reply.status}"
    retry_after = reply.header("retry-after") or None
    row = _row(code, overrides, hinted=retry_after is not None)
    if row.judgement is Judgement.SHORT:
        row = _CLIENT_ERRORS.get((row.rule, client_errors), row)
    word = (reply.header("webhook-delivery") or "").strip().lower()
    asked = HEADER_WORDS.get(word)
    if row.judgement is Judgement.DELIVERED:
        return Delivered(code=code, rule=row.rule, disable=asked is Judgement.DISABLE)
    if asked is not None:
        row = Row(rule=f"header webhook-delivery: {word}", codes=frozenset({code}), judgement=asked)
    return _verdict(row, code, retry_after)


def _row(code: str, overrides: Mapping[str, str], *, hinted: bool = False) -> Row:
    name = overrides.get(code)
    if name is not None and _refusal(code, name) is None:
        rule = f"override {code}: {name}"
        return Row(rule=rule, codes=frozenset({code}), judgement=Judgement(name))
    return _ROWS.get((code, hinted), _NO_FINAL_STATUS)


def _verdict(row: Row, code: str, retry_after: str | None = None) -> Verdict:
    code, rule = str(code), row.rule
    match row.judgement:
        case Judgement.DELIVERED:
            return Delivered(code=code, rule=rule)
        case Judgement.RETRYABLE | Judgement.SHORT:
            ladder = Ladder.SHORT if row.judgement is Judgement.SHORT else Ladder.FULL
            return Retryable(code=code, rule=rule, ladder=ladder, counts=row.counts)
        case Judgement.SNOOZED:
            return Snoozed(code=code, rule=rule, retry_after=retry_after)
        case Judgement.PERMANENT | Judgement.DISABLE:
            return Permanent(code=code, rule=rule, disable=row.judgement is Judgement.DISABLE)
        case Judgement.AGAIN:
            return Again(code=code, rule=rule)
        case Judgement.OURS:
            return Ours(code=code, rule=rule)
        case _:
            assert_never(row.judgement)


def _refusal(code: str, name: str) -> str | None:
    row = _ROWS.get((code, False))
    if row is None:
        return "no such outcome; use http_<status> or a fault's code, such as http_404 or timeout"
    if row.fixed:
        return "this outcome cannot be overridden; leave it out"
    if name not in OVERRIDES:
        return f"no class {_shown(name)}; use one of {', '.join(OVERRIDES)}"
    if name == Judgement.DELIVERED and code not in _FINAL_STATUSES:
        return "nobody accepted anything, so it cannot be delivered; use another class"
    return None


def _shown(text: str) -> str:
    return ascii(text[:60])
