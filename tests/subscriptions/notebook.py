"""The registries over a store in memory, for tests of their rules alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from delivery.classifier import check_overrides
from subscriptions.model import (
    Checks,
    Endpoint,
    EndpointState,
    EndpointTarget,
    EventType,
    Exposure,
    RetryPolicy,
    Subscription,
    TlsIdentity,
)
from subscriptions.policies import PolicyBounds
from subscriptions.policy_registry import PolicyRegistry
from subscriptions.registry import EndpointRegistry
from subscriptions.store import Change, Store, StoredKey
from subscriptions.subscribing import SubscriptionRegistry

URL = "https://example.com/hook"
NOBODY = UUID(int=404)
BAD_OWNERS = ["", "a b", "a\n", "é", "a\x00", "x" * 129, "\x7f"]
BAD_LINES = ["", " ", " a", "a ", "a\nb", "a\x00", "a\x1b[2J", "\ud800"]


class Notebook:
    """A store in memory, for the rules alone: adapters have a suite of their own."""

    def __init__(self) -> None:
        self.declared: dict[str, EventType] = {}
        self.rows: dict[UUID, Endpoint] = {}
        self.wants: dict[tuple[str | None, str], Subscription] = {}
        self.sealed: list[StoredKey] = []
        self.changes: list[Change] = []
        self.made: dict[str, RetryPolicy] = {}
        self.locks: list[str] = []  #: in the order they were taken

    async def declare_type(self, event_type: EventType) -> EventType | None:
        standing = self.declared.get(event_type.type)
        self.declared.setdefault(event_type.type, event_type)
        return standing

    async def update_type(self, event_type: EventType) -> None:
        assert event_type.type in self.declared
        self.declared[event_type.type] = event_type

    async def types(self) -> Sequence[EventType]:
        return [self.declared[name] for name in sorted(self.declared)]

    async def checked_types(self) -> Sequence[EventType]:
        return [each for each in await self.types() if each.checks is not Checks.OFF]

    async def lock_policies(self) -> None:
        self.locks.append("policies are changed")

    async def hold_policies(self) -> None:
        self.locks.append("policies are held")

    async def policies(self) -> Sequence[RetryPolicy]:
        return [self.made[name] for name in sorted(self.made)]

    async def policy(self, name: str) -> RetryPolicy | None:
        return self.made.get(name)

    async def policy_uses(self) -> Mapping[str, int]:
        return Counter(each.policy for each in self.rows.values() if each.state is not EndpointState.REMOVED)

    async def add_policy(self, policy: RetryPolicy) -> None:
        assert policy.name not in self.made
        self.made[policy.name] = policy

    async def update_policy(self, policy: RetryPolicy, now: datetime) -> None:
        assert policy.name in self.made
        self.made[policy.name] = policy

    async def remove_policy(self, name: str) -> None:
        del self.made[name]

    async def add_endpoint(self, endpoint: Endpoint) -> None:
        assert endpoint.id not in self.rows
        self.rows[endpoint.id] = endpoint

    async def endpoint(self, owner_id: str, endpoint_id: UUID) -> Endpoint | None:
        found = self.rows.get(endpoint_id)
        return found if found and found.owner_id == owner_id else None

    async def lock_endpoint(self, owner_id: str, endpoint_id: UUID) -> Endpoint | None:
        self.locks.append("an endpoint")
        return await self.endpoint(owner_id, endpoint_id)

    async def endpoints(
        self, owner_id: str | None, *, limit: int = 50, after: UUID | None = None
    ) -> Sequence[Endpoint]:
        raise NotImplementedError

    async def lock_setup(self) -> None:
        raise NotImplementedError

    async def endpoints_between(
        self, owner_id: str | None, first: UUID, last: UUID, *, limit: int
    ) -> Sequence[tuple[UUID, str]]:
        raise NotImplementedError

    async def update_endpoint(self, endpoint: Endpoint) -> None:
        assert endpoint.id in self.rows
        self.rows[endpoint.id] = endpoint

    async def add_subscription(self, subscription: Subscription) -> bool:
        key = subscription.owner_id, subscription.name
        return self.wants.setdefault(key, subscription) is subscription

    async def subscription(self, owner_id: str | None, name: str) -> Subscription | None:
        return self.wants.get((owner_id, name))

    async def subscriptions(self, owner_id: str | None) -> Sequence[Subscription]:
        return [each for each in self.wants.values() if each.owner_id == owner_id]

    async def remove_subscription(self, owner_id: str | None, name: str) -> Subscription | None:
        return self.wants.pop((owner_id, name), None)

    async def remove_subscriptions_to(self, endpoint_id: UUID) -> Sequence[Subscription]:
        target = EndpointTarget(endpoint_id=endpoint_id)
        gone = [each for each in self.wants.values() if each.target == target]
        for each in gone:
            del self.wants[each.owner_id, each.name]
        return gone

    async def routing(self, owner_ids: Collection[str]) -> Sequence[Subscription]:
        raise NotImplementedError

    async def keys(self, endpoint_id: UUID, now: datetime) -> Sequence[StoredKey]:
        live = [each for each in self.sealed if each.expires_at is None or each.expires_at > now]
        return [each for each in reversed(live) if each.endpoint_id == endpoint_id]

    async def add_key(self, key: StoredKey) -> None:
        self.sealed.append(key)

    async def expire_keys(self, endpoint_id: UUID, at: datetime) -> None:
        self.sealed = [
            replace(each, expires_at=min(at, each.expires_at or at)) if each.endpoint_id == endpoint_id else each
            for each in self.sealed
        ]

    async def record_change(self, change: Change) -> None:
        self.changes.append(change)


class House:
    """Both registries over one notebook, with a clock that is moved by hand."""

    def __init__(self) -> None:
        self.notebook = Notebook()
        self.time = datetime(2026, 1, 1, tzinfo=UTC)
        self.last_id = 0
        self.identities: list[TlsIdentity] = []  #: that were checked
        store: Store = self.notebook
        self.endpoints = EndpointRegistry(
            store,
            seal=self.seal,
            check_overrides=check_overrides,
            check_tls=self.identities.append,
            make_id=self.make_id,
            now=self.now,
        )
        self.subscriptions = SubscriptionRegistry(store, make_id=self.make_id, now=self.now)
        bounds = PolicyBounds(max_age=timedelta(days=14), lease=timedelta(seconds=30))
        self.policies = PolicyRegistry(store, bounds=bounds, now=self.now)

    def now(self) -> datetime:
        return self.time

    def make_id(self) -> UUID:
        self.last_id += 1
        return UUID(int=self.last_id)

    def seal(self, secret: bytes, owner_id: str, endpoint_id: UUID, key_id: UUID) -> bytes:
        """Seal legibly, so that a test can read what was bound to what."""
        return b"|".join([secret[::-1], owner_id.encode(), str(endpoint_id).encode(), str(key_id).encode()])

    async def add(self, owner_id: str = "acme", url: str = URL, **settings: Any) -> Endpoint:
        endpoint, _ = await self.endpoints.add_endpoint(owner_id, url, by="ann", **settings)
        return endpoint

    async def declare(self, name: str, exposure: Exposure = Exposure.WEBHOOK) -> EventType:
        return await self.subscriptions.declare_type(EventType(type=name, exposure=exposure), by="ann")

    async def live(self, endpoint: Endpoint) -> Sequence[StoredKey]:
        return await self.notebook.keys(endpoint.id, self.time)

    def said(self) -> list[str]:
        return [change.what for change in self.notebook.changes]
