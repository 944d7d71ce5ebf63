"""Compile subscriptions into job kinds and routes, and events into jobs. Pure.

A route is one target of one owner's events: an endpoint, or a handler. However many patterns and
subscriptions lead to it, an event goes there once.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple, assert_never
from uuid import UUID, uuid5

from delivery.attempts import Report
from delivery.events import Event
from delivery.jobs import Backoff, EnqueueOptions, Handler, JobKind, NewJob, default_backoff
from delivery.outbox import OutboxRow
from delivery.sieve import Sieve
from subscriptions.match import Matcher, Pattern
from subscriptions.model import EndpointTarget, Exposure, HandlerTarget, Subscription, Target
from subscriptions.policies import MAX_ATTEMPTS

#: The job kind of every delivery.
DELIVER = "webhook.deliver"
#: Before the name of a handler, in its job kind.
HANDLER_PREFIX = "handler."
#: Jobs that one transaction of the relay enqueues at most.
CHUNK = 2000
#: Answers that the routes of one owner remember: (event type, exposure) pairs.
MEMO_SIZE = 512

_ENDPOINT = "endpoint:"
_HANDLERS = UUID("5b0d3a7e-52a5-4f0e-9a06-6a4d3f1c7e90")  # the name space of handlers' ids
_NEVER_HELD: Mapping[UUID, datetime] = MappingProxyType({})


def endpoint_lane(endpoint_id: UUID) -> str:
    """Name the lane of an endpoint's deliveries."""
    return f"{_ENDPOINT}{endpoint_id}"


def deliver_kind(handler: Handler, *, limit: int = 10, max_age: timedelta = timedelta(days=14)) -> JobKind:
    """Declare `webhook.deliver`.

    When a delivery is given up is for its endpoint's policy, so for the handler, to say: the budget of the
    kind is the greatest that one may grant. The timeout is a backstop behind the longest of one attempt, 30 s.
    """
    return JobKind(
        name=DELIVER,
        handler=handler,
        max_attempts=MAX_ATTEMPTS,
        timeout=timedelta(seconds=60),
        limit=limit,
        cautious=True,
        identity=("event_id", "endpoint_id"),
        max_age=max_age,
    )


def handler_kind(
    name: str,
    handler: Handler,
    *,
    max_attempts: int = 10,
    timeout: timedelta = timedelta(seconds=60),
    backoff: Backoff = default_backoff,
    limit: int = 10,
    max_age: timedelta | None = None,
) -> JobKind:
    """Declare `handler.<name>`, which runs with the id of one event; all its jobs share one lane."""
    return JobKind(
        name=f"{HANDLER_PREFIX}{name}",
        queue=f"{HANDLER_PREFIX}{name}",
        handler=handler,
        max_attempts=max_attempts,
        timeout=timeout,
        backoff=backoff,
        limit=limit,
        identity=("event_id", "handler_id"),
        max_age=max_age,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One target of an owner's events."""

    #: Names the target for good, and gives the targets of an event their order; an endpoint's is its lane.
    sort_key: str
    endpoint_id: UUID | None  #: None = a handler, whose kind is the sort key
    coalesce: bool = False  #: of a handler: one job a subject for events relayed together
    filters: tuple[str, ...] = ()  #: over payloads, of which one must hold; none = whatever the payload is
    failed: Report | None = None  #: of one event: why nobody knows whether it should go there

    @property
    def exposures(self) -> Collection[Exposure]:
        """Say which events may take this route."""
        return (Exposure.WEBHOOK,) if self.endpoint_id else tuple(Exposure)


def route_to(target: Target, filter: str | None = None) -> Route:
    """Make the route that leads to a target; those to handlers have no filter."""
    match target:
        case EndpointTarget(endpoint_id=endpoint_id):
            filters = () if filter is None else (filter,)
            return Route(sort_key=endpoint_lane(endpoint_id), endpoint_id=endpoint_id, filters=filters)
        case HandlerTarget(kind=kind, coalesce=coalesce):
            return Route(sort_key=kind, endpoint_id=None, coalesce=coalesce)
        case _:
            assert_never(target)


class _Found(NamedTuple):
    targets: tuple[Route, ...]
    is_sifted: bool


class Routes:
    """Where the events of one owner go. Immutable but for what it remembers."""

    __slots__ = ("_matcher", "_memo", "has_filters")

    def __init__(self, matcher: Matcher[Route], *, has_filters: bool = False) -> None:
        self._matcher = matcher
        self._memo: dict[tuple[str, Exposure], _Found] = {}
        self.has_filters = has_filters  #: some events have to be read to know where they go

    def targets(self, event_type: str, exposure: Exposure) -> tuple[Route, ...]:
        """List the targets of an event, each once, by sort key; internal events never reach an endpoint."""
        return self._of(event_type, exposure).targets

    def is_sifted(self, event_type: str, exposure: Exposure) -> bool:
        """Say whether events of the type have to be read to know where they go."""
        return self.has_filters and self._of(event_type, exposure).is_sifted

    def _of(self, event_type: str, exposure: Exposure) -> _Found:
        asked = event_type, exposure
        known = self._memo.get(asked)
        if known is None:
            known = self._find(event_type, exposure)
            if len(self._memo) >= MEMO_SIZE:
                del self._memo[next(iter(self._memo))]
            self._memo[asked] = known
        return known

    def _find(self, event_type: str, exposure: Exposure) -> _Found:
        found: dict[str, Route] = {}
        for route in self._matcher.find(event_type):
            if exposure in route.exposures:
                found[route.sort_key] = _merged(found.get(route.sort_key), route)
        targets = tuple(found[key] for key in sorted(found))
        return _Found(targets, any(route.filters for route in targets))


def _merged(standing: Route | None, route: Route) -> Route:
    """Make one of two routes of one sort key: what either of them lets pass goes there."""
    if standing is None:
        return route
    filters = tuple(sorted({*standing.filters, *route.filters})) if standing.filters and route.filters else ()
    return replace(route, coalesce=standing.coalesce and route.coalesce, filters=filters)


def compile_routes(subscriptions: Sequence[Subscription]) -> Routes:
    """Compile the subscriptions of one owner, and those without an owner, into its routes.

    Raises:
        InvalidPattern: a subscription holds what was never a pattern. None is skipped: events would be lost.
    """
    return Routes(
        Matcher(
            (Pattern.parse(text), route_to(subscription.target, subscription.filter))
            for subscription in subscriptions
            for text in subscription.patterns
        ),
        has_filters=any(subscription.filter is not None for subscription in subscriptions),
    )


def compile_owners(owner_ids: Collection[str], subscriptions: Sequence[Subscription]) -> dict[str, Routes]:
    """Compile the routes of each owner out of the subscriptions of all of them and those without an owner."""
    every: list[Subscription] = [each for each in subscriptions if each.owner_id is None]
    own: dict[str, list[Subscription]] = {owner_id: [] for owner_id in owner_ids}
    for each in subscriptions:
        if each.owner_id in own:
            own[each.owner_id].append(each)
    return {owner_id: compile_routes([*theirs, *every]) for owner_id, theirs in own.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to do with one claimed batch, in one transaction. Rows in neither list wait as they are."""

    jobs: tuple[NewJob, ...]
    relayed: tuple[UUID, ...]  #: ids of events whose every target is served
    kept: tuple[tuple[UUID, str], ...]  #: (event id, sort key of the last target that is served)


def job_for(event: Event, route: Route, *, run_at: datetime | None = None) -> NewJob:
    """Make the job that takes an event along a route.

    It is unique by event and target all its life, whoever enqueues it again. A handler's job is the
    platform's, not the owner's.
    """
    return _job(event, str(event.id), route, run_at)


def _job(event: Event, event_id: str, route: Route, run_at: datetime | None) -> NewJob:
    if route.endpoint_id is None:
        args = {"event_id": event_id, "handler_id": str(uuid5(_HANDLERS, route.sort_key)), "type": event.type}
        return NewJob(kind=route.sort_key, args=args, options=EnqueueOptions(run_at=run_at, unique_by_args=True))
    return NewJob(
        kind=DELIVER,
        args={"event_id": event_id, "endpoint_id": route.sort_key.removeprefix(_ENDPOINT), "type": event.type},
        options=_options(route.sort_key, event.owner_id, run_at),
        discarded=route.failed,
    )


@lru_cache(maxsize=50_000)
def _options(lane: str, owner_id: str, run_at: datetime | None) -> EnqueueOptions:
    return EnqueueOptions(run_at=run_at, unique_by_args=True, lane=lane, owner_id=owner_id)


def jobs_for(
    rows: Sequence[OutboxRow],
    routes_by_owner: Mapping[str, Routes],
    *,
    chunk: int = CHUNK,
    not_before: Mapping[UUID, datetime] = _NEVER_HELD,
    sieve: Sieve | None = None,
) -> Plan:
    """Plan the jobs of a claimed batch, at most `chunk` (from 1) of them.

    Events with up to half a chunk of targets go whole, in the order given, so that none of them waits behind
    a big fan-out. Half of the chunk, and what they leave of the rest, is for the big ones, of which the last
    is cut. The first event of either size always moves on, so none waits for ever. `not_before` holds back
    the deliveries to the endpoints it names. `sieve` works out filters, in the order given, until it is spent;
    what is left of an event then waits. Where it cannot say whether a delivery is wanted, that ends as discarded.

    Raises:
        KeyError: the routes of an event's owner were not compiled.
    """
    ways = [_left(row, routes_by_owner[row.event.owner_id], sieve) for row in rows]
    shares = _share([way for way in ways if way is not None], chunk)
    latest = _latest(shares)
    jobs = [
        _job(event, event_id, route, not_before.get(route.endpoint_id) if not_before and route.endpoint_id else None)
        for event, event_id, targets in [(share.event, str(share.event.id), share.targets) for share in shares]
        for route in targets
        if not latest or latest.get(_group(event, route), event) is event
    ]
    return Plan(
        jobs=tuple(jobs),
        relayed=tuple(share.event.id for share in shares if share.is_whole),
        kept=tuple((share.event.id, share.served) for share in shares if share.served is not None),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Share:
    """What one event gets of a chunk."""

    event: Event
    targets: tuple[Route, ...]
    served: str | None = None  #: something is left of its way, behind this sort key

    @property
    def is_whole(self) -> bool:
        """Say whether nothing is left of its way."""
        return self.served is None


def _left(row: OutboxRow, routes: Routes, sieve: Sieve | None) -> _Share | None:
    """Say where an event goes that was served up to some target; None where nothing of it can be said now."""
    targets = routes.targets(row.event.type, row.exposure)
    if row.after_target is not None:
        targets = targets[bisect_right(targets, row.after_target, key=_sort_key) :]
    if sieve is None or not routes.is_sifted(row.event.type, row.exposure):
        return _Share(event=row.event, targets=targets)
    return _sifted(row.event, targets, sieve)


def _sifted(event: Event, targets: tuple[Route, ...], sieve: Sieve) -> _Share | None:
    wanted: list[Route] = []
    for number, route in enumerate(targets):
        if route.filters and sieve.is_spent:
            return _Share(event=event, targets=tuple(wanted), served=targets[number - 1].sort_key) if number else None
        verdict = not route.filters or sieve.judge(event.id, route.filters)
        if verdict:
            wanted.append(route if verdict is True else replace(route, failed=verdict))
    return _Share(event=event, targets=tuple(wanted))


def _sort_key(route: Route) -> str:
    return route.sort_key


def _share(ways: Sequence[_Share], chunk: int) -> list[_Share]:
    half = chunk // 2
    has_big = any(len(way.targets) > half for way in ways)
    room = chunk - half if has_big else chunk
    shares, left = [], chunk
    for way in ways:
        if len(way.targets) <= min(half, room):
            shares.append(way)
            room, left = room - len(way.targets), left - len(way.targets)
    for way in ways:
        if left and len(way.targets) > half:
            cut = way.targets[:left]
            served = way.served if len(cut) == len(way.targets) else cut[-1].sort_key
            shares.append(_Share(event=way.event, targets=cut, served=served))
            left -= len(cut)
    return shares


_Group = tuple[str, str, str]


def _group(event: Event, route: Route) -> _Group | None:
    """Name the events of which this route takes only the latest; None = it takes each."""
    if not route.coalesce or event.subject is None:
        return None
    return route.sort_key, event.owner_id, event.subject


def _latest(shares: Sequence[_Share]) -> dict[_Group | None, Event]:
    found: dict[_Group | None, Event] = {}
    for share in shares:
        for route in share.targets:
            group = _group(share.event, route)
            if group and _age(share.event) >= _age(found.get(group, share.event)):
                found[group] = share.event
    return found


def _age(event: Event) -> tuple[datetime, UUID]:
    return event.occurred_at, event.id
