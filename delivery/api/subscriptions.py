"""Event types, and who subscribes to them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from difflib import get_close_matches
from uuid import UUID

from delivery.api.endpoints import Unit
from delivery.errors import UnknownEventType
from delivery.ids import new_id
from subscriptions.match import MAX_TYPE_LENGTH
from subscriptions.model import Checks, EventType, Exposure, Subscription
from subscriptions.store import Store
from subscriptions.subscribing import SubscriptionRegistry


class EventTypes:
    """Declare types of events. They belong to the platform, not to an owner."""

    def __init__(self, unit: Unit) -> None:
        self._unit = unit

    async def declare(
        self,
        type: str,
        *,
        by: str,
        exposure: Exposure = Exposure.INTERNAL,
        description: str = "",
        schema: str | None = None,
        checks: Checks | None = None,
        change: bool = False,
    ) -> EventType:
        """Declare a type; does nothing when it stands like this, and alters it only with `change`.

        `schema` is the text of a JSON Schema for its data; None leaves what there is, and an empty one takes it
        away. `checks` None leaves what there is, too; a schema that is new is one to reject by.

        Raises:
            InvalidSchema: the schema is none, or there is none to check by.
        """
        async with self._unit() as store:
            standing = next((each for each in await store.types() if each.type == type), EventType(type=type))
            schema = standing.schema if schema is None else schema or None
            if checks is None and schema is None:
                checks = Checks.OFF
            elif checks is None:
                checks = Checks.REJECT if standing.schema is None else standing.checks
            wanted = EventType(type=type, exposure=exposure, description=description, schema=schema, checks=checks)
            return await subscription_registry(store).declare_type(wanted, by=by, change=change)

    async def list(self) -> Sequence[EventType]:
        """List all declared types by name."""
        async with self._unit() as store:
            return await store.types()

    async def check(self, type: str | None) -> None:
        """Refuse the name of a type that nobody declared, in a filter that it would make find nothing.

        Raises:
            UnknownEventType: no such type; the message says which was probably meant.
        """
        if type is None or type.startswith("tidings."):
            return
        known = [each.type for each in await self.list()]
        if type in known:
            return
        name, near = type[:MAX_TYPE_LENGTH], get_close_matches(type, known, n=1)
        guess = f" (did you mean {near[0]!r}?)" if near else ""
        raise UnknownEventType(
            f"event type {name!r} was never declared{guess}: `tidings event-types list` shows those that are,"
            f" `tidings event-types declare {name} --exposure webhook` adds it"
        )


class Subscriptions:
    """Say which events go to which endpoint."""

    def __init__(self, unit: Unit) -> None:
        self._unit = unit

    async def add(
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
        """Send matching events to an endpoint from now on; a repeat of the whole returns the one that stands.

        With `filter` only those with such payloads: `$.amount > 100 && $.currency == "EUR"`.
        """
        async with self._unit() as store:
            return await subscription_registry(store).subscribe(
                owner_id, name, patterns, endpoint_id, by=by, future=future, filter=filter
            )

    async def list(self, owner_id: str | None) -> Sequence[Subscription]:
        """List the owner's subscriptions by name; None = those of handlers for the events of every owner."""
        async with self._unit() as store:
            return await store.subscriptions(owner_id)

    async def remove(self, owner_id: str | None, name: str, *, by: str) -> Subscription:
        """Remove a subscription, such as that of a handler that is no more; deliveries that stand are still made."""
        async with self._unit() as store:
            return await subscription_registry(store).unsubscribe(owner_id, name, by=by)

    async def keep_handler(
        self, name: str, patterns: Collection[str], *, owner_id: str | None, coalesce: bool, by: str
    ) -> Subscription:
        """Subscribe a handler of this process as declared in code, in place of what stood under its name."""
        async with self._unit() as store:
            registry = subscription_registry(store)
            standing = await store.subscription(owner_id, name)
            wanted = (set(patterns), f"handler.{name}", coalesce)
            if standing is not None:
                stands = getattr(standing.target, "kind", None), getattr(standing.target, "coalesce", None)
                if (set(standing.patterns), *stands) == wanted:
                    return standing
                await registry.unsubscribe(owner_id, name, by=by)
            return await registry.subscribe_handler(
                name, patterns, name, by=by, owner_id=owner_id, coalesce=coalesce, future=True
            )


def subscription_registry(store: Store) -> SubscriptionRegistry:
    """Return the rules of declaring and subscribing, over a store."""
    return SubscriptionRegistry(store, make_id=new_id, now=lambda: datetime.now(UTC))
