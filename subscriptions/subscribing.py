"""The rules of declaring types and of subscribing to them, over the store port."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from datetime import datetime
from uuid import UUID

from subscriptions.errors import Conflict, InvalidSchema, InvalidSubscription, InvalidType, NotFound
from subscriptions.filters import parse_filter
from subscriptions.lines import MAX_LINE, MAX_NAME, check_line
from subscriptions.match import check_declarable, check_wanted, parse_patterns
from subscriptions.model import (
    Checks,
    Endpoint,
    EndpointTarget,
    EventType,
    Exposure,
    HandlerTarget,
    Subscription,
    Target,
    describe,
)
from subscriptions.registry import BAD_OWNER, OWNER, locked, not_removed
from subscriptions.schemas import parse_schema
from subscriptions.store import Change, Store

#: Subscriptions with a filter that an endpoint may have.
MAX_FILTERS = 10

_HANDLER = re.compile(r"[a-z0-9_]+(?:\.[a-z0-9_]+)*")


class SubscriptionRegistry:
    """Declare types of events, and subscribe endpoints and handlers to them."""

    def __init__(self, store: Store, *, make_id: Callable[[], UUID], now: Callable[[], datetime]) -> None:
        self._store, self._make_id, self._now = store, make_id, now

    async def declare_type(self, event_type: EventType, *, by: str, change: bool = False) -> EventType:
        """Declare a type of event; does nothing when it stands like this already.

        `change` lets what is declared of it be altered.

        Raises:
            InvalidType: no type, one of the platform's own, or a description that is not one short line.
            InvalidSchema: the schema is none, or is missing where it is to be checked.
            Conflict: it stands otherwise, and `change` was not asked for.
        """
        check_line("by", by, MAX_NAME, InvalidType)
        name = check_declarable(event_type.type)
        if event_type.description:
            check_line("description", event_type.description, MAX_LINE, InvalidType)
        if event_type.schema is not None:
            parse_schema(event_type.schema)
        elif event_type.checks is not Checks.OFF:
            raise InvalidSchema(f"{name!r} has no schema to check by: give one, or leave checks off")
        standing = await self._store.declare_type(event_type)
        if standing == event_type:
            return event_type
        if standing and not change:
            about = f" ({standing.description})" if standing.description else ""
            raise Conflict(f"{name!r} is declared as {standing.exposure}{about}: alter it with --change")
        what, before = ("type.updated", describe(standing)) if standing else ("type.declared", {})
        if standing:
            await self._store.update_type(event_type)
        after = describe(event_type)
        await self._store.record_change(Change.about(event_type, what, by, self._now(), before=before, after=after))
        return event_type

    async def subscribe(
        self,
        owner_id: str,
        name: str,
        patterns: Collection[str],
        endpoint_id: UUID,
        *,
        by: str,
        future: bool = False,
        filter: str | None = None,
    ) -> Subscription:
        """Send the owner's events of matching types to its endpoint, from the moment this commits.

        Patterns and subscriptions may overlap: an endpoint gets each event once. A repeat of the whole
        subscription returns the one that stands. `future` also takes patterns that no declared type matches.
        With `filter` only events with such payloads go there (`subscriptions.filters`).

        Raises:
            InvalidSubscription: a bad name, or no patterns or too many.
            InvalidPattern: one of the patterns is none.
            InvalidFilter: the filter is none, or beyond its bounds.
            UnknownType: one of them matches no declared type that may leave, and `future` is off.
            NotFound: the owner has no such endpoint.
            Conflict: the endpoint was removed, or the owner has another subscription of this name.
        """
        parsed = parse_patterns(patterns)
        if filter is not None:
            parse_filter(filter)
        endpoint = not_removed(await locked(self._store, owner_id, endpoint_id))
        if filter is not None:
            await self._check_filters(endpoint, name)
        if not future:
            types = await self._store.types()
            usable = [each.type for each in types if each.exposure is Exposure.WEBHOOK]
            check_wanted(parsed, usable, [each.type for each in types])
        texts = tuple(pattern.text for pattern in parsed)
        return await self._add(owner_id, name, texts, EndpointTarget(endpoint_id=endpoint.id), by, filter)

    async def _check_filters(self, endpoint: Endpoint, name: str) -> None:
        """See that it may have one more: each is worked out for every event, while the events of others wait."""
        standing = await self._store.subscriptions(endpoint.owner_id)
        target = EndpointTarget(endpoint_id=endpoint.id)
        filtered = [each.name for each in standing if each.target == target and each.filter is not None]
        if name not in filtered and len(filtered) >= MAX_FILTERS:
            raise InvalidSubscription(
                f"endpoint {endpoint.id} has {len(filtered)} subscriptions with a filter, and no more are allowed: join"
                " filters by `||` in one subscription, or use another endpoint"
            )

    async def subscribe_handler(
        self,
        name: str,
        patterns: Collection[str],
        handler: str,
        *,
        by: str,
        owner_id: str | None = None,
        coalesce: bool = False,
        future: bool = False,
    ) -> Subscription:
        """Run the handler `handler.<handler>` for events of matching types, internal ones too.

        `owner_id` None is for the events of every owner. `coalesce` runs it once a subject for events that
        are relayed together, with the latest; where several subscriptions want an event, only if all say so.
        Repeats and errors are those of `subscribe`, but for the endpoint's.
        """
        if owner_id is not None and not OWNER.fullmatch(owner_id):
            raise InvalidSubscription(BAD_OWNER)
        if len(handler) > MAX_NAME or not _HANDLER.fullmatch(handler):
            raise InvalidSubscription(f"{handler[:60]!r} is no handler's name: use a-z, 0-9, _ and dots between")
        parsed = parse_patterns(patterns)
        if not future:
            check_wanted(parsed, [each.type for each in await self._store.types()])
        target = HandlerTarget(kind=f"handler.{handler}", coalesce=coalesce)
        return await self._add(owner_id, name, tuple(pattern.text for pattern in parsed), target, by)

    async def unsubscribe(self, owner_id: str | None, name: str, *, by: str) -> Subscription:
        """Remove a subscription; deliveries that stand already are still made.

        Raises:
            NotFound: the owner has no subscription of this name.
        """
        check_line("by", by, MAX_NAME, InvalidSubscription)
        check_line("name", name, MAX_NAME, InvalidSubscription)
        is_owner = owner_id is None or OWNER.fullmatch(owner_id)
        gone = await self._store.remove_subscription(owner_id, name) if is_owner else None
        if gone is None:
            whose = "the platform" if owner_id is None else f"owner {owner_id[:MAX_NAME]!r}"
            raise NotFound(f"{whose} has no subscription {name!r}: `tidings subscriptions list` shows an owner's")
        change = Change.about(gone, "subscription.removed", by, self._now(), before=describe(gone))
        await self._store.record_change(change)
        return gone

    async def _add(
        self,
        owner_id: str | None,
        name: str,
        patterns: tuple[str, ...],
        target: Target,
        by: str,
        filter: str | None = None,
    ) -> Subscription:
        check_line("by", by, MAX_NAME, InvalidSubscription)
        check_line("name", name, MAX_NAME, InvalidSubscription)
        now = self._now()
        wanted = Subscription(
            id=self._make_id(),
            owner_id=owner_id,
            name=name,
            patterns=patterns,
            filter=filter,
            target=target,
            created_at=now,
        )
        if await self._store.add_subscription(wanted):
            change = Change.about(wanted, "subscription.added", by, now, after=describe(wanted))
            await self._store.record_change(change)
            return wanted
        standing = await self._store.subscription(owner_id, name)
        if standing and (set(standing.patterns), standing.filter, standing.target) == (set(patterns), filter, target):
            return standing
        raise Conflict(f"the name {name!r} is taken by another subscription: choose another, or remove that one")
