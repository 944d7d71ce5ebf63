"""Compile subscriptions into job kinds and routes, and events into jobs. Pure.

A route is one target of one owner's events: an endpoint, or a handler. However many patterns and
subscriptions lead to it, an event goes there once.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from types import MappingProxyType
from typing import assert_never
from uuid import UUID, uuid5

from delivery.events import Event
from delivery.jobs import Backoff, EnqueueOptions, Handler, JobKind, NewJob, default_backoff
from delivery.outbox import OutboxRow
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

    @property
    def exposures(self) -> Collection[Exposure]:
        """Say which events may take this route."""
        return (Exposure.WEBHOOK,) if self.endpoint_id else tuple(Exposure)


def route_to(target: Target) -> Route:
    """Make the route that leads to a target."""
    match target:
        case EndpointTarget(endpoint_id=endpoint_id):
            return Route(sort_key=endpoint_lane(endpoint_id), endpoint_id=endpoint_id)
        case HandlerTarget(kind=kind, coalesce=coalesce):
            return Route(sort_key=kind, endpoint_id=None, coalesce=coalesce)
        case _:
            assert_never(target)


class Routes:
    """Where the events of one owner go. Immutable but for what it remembers."""

    __slots__ = ("_matcher", "_memo")

    def __init__(self, matcher: Matcher[Route]) -> None:
        self._matcher = matcher
        self._memo: dict[tuple[str, Exposure], tuple[Route, ...]] = {}

    def targets(self, event_type: str, exposure: Exposure) -> tuple[Route, ...]:
        """List the targets of an event, each once, by sort key; internal events never reach an endpoint."""
        asked = event_type, exposure
        known = self._memo.get(asked)
        if known is None:
            known = self._find(event_type, exposure)
            if len(self._memo) >= MEMO_SIZE:
                del self._memo[next(iter(self._memo))]
            self._memo[asked] = known
        return known

    def _find(self, event_type: str, exposure: Exposure) -> tuple[Route, ...]:
        found: dict[str, Route] = {}
        for route in self._matcher.find(event_type):
            # Two routes of one sort key differ in `coalesce` only: the one that loses nothing wins.
            if exposure in route.exposures and (route.sort_key not in found or not route.coalesce):
                found[route.sort_key] = route
        return tuple(found[key] for key in sorted(found))


def compile_routes(subscriptions: Sequence[Subscription]) -> Routes:
    """Compile the subscriptions of one owner, and those without an owner, into its routes.

    Raises:
        InvalidPattern: a subscription holds what was never a pattern. None is skipped: events would be lost.
    """
    return Routes(
        Matcher(
            (Pattern.parse(text), route_to(subscription.target))
            for subscription in subscriptions
            for text in subscription.patterns
        )
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
) -> Plan:
    """Plan the jobs of a claimed batch, at most `chunk` (from 1) of them.

    Events with up to half a chunk of targets go whole, in the order given, so that none of them waits behind
    a big fan-out. Half of the chunk, and what they leave of the rest, is for the big ones, of which the last
    is cut. The first event of either size always moves on, so none waits for ever. `not_before` holds back
    the deliveries to the endpoints it names.

    Raises:
        KeyError: the routes of an event's owner were not compiled.
    """
    shares = _share([(row.event, _left(row, routes_by_owner[row.event.owner_id])) for row in rows], chunk)
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
        kept=tuple((share.event.id, share.targets[-1].sort_key) for share in shares if not share.is_whole),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Share:
    """What one event gets of a chunk."""

    event: Event
    targets: tuple[Route, ...]
    is_whole: bool  #: nothing is left of its way


def _left(row: OutboxRow, routes: Routes) -> tuple[Route, ...]:
    targets = routes.targets(row.event.type, row.exposure)
    if row.after_target is None:
        return targets
    return targets[bisect_right(targets, row.after_target, key=_sort_key) :]


def _sort_key(route: Route) -> str:
    return route.sort_key


def _share(ways: Sequence[tuple[Event, tuple[Route, ...]]], chunk: int) -> list[_Share]:
    half = chunk // 2
    has_big = any(len(targets) > half for _, targets in ways)
    room = chunk - half if has_big else chunk
    shares, left = [], chunk
    for event, targets in ways:
        if len(targets) <= min(half, room):
            shares.append(_Share(event=event, targets=targets, is_whole=True))
            room, left = room - len(targets), left - len(targets)
    for event, targets in ways:
        if left and len(targets) > half:
            cut = targets[:left]
            shares.append(_Share(event=event, targets=cut, is_whole=len(cut) == len(targets)))
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
