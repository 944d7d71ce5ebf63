"""Where endpoints, subscriptions, types, policies and sealed keys are kept (port).

A store is bound to one transaction by its adapter: everything asked of it happens there, and nothing is
visible to others before it commits. It keeps and finds; the rules are the registry's. Methods that look for
one thing of an owner answer None both when there is none and when it is another owner's.

What moves events (`add_subscription`, `remove_subscription`, `remove_subscriptions_to`, types that are checked) also
raises the version of the routes, in the same transaction: a relay that reads the new version sees the change.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

from subscriptions.model import Endpoint, EventType, RetryPolicy, Subscription


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredKey:
    """One signing key of an endpoint, sealed."""

    id: UUID
    endpoint_id: UUID
    sealed: bytes = field(repr=False)
    scheme: str = "v1"  #: of Standard Webhooks: `v1` is a shared secret, `v1a` a pair of keys
    created_at: datetime
    expires_at: datetime | None = None  #: signs until then; None = until it is rotated


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Who changed what, and when. Holds no key and no header's value."""

    owner_id: str | None  #: None = of no owner: types, policies, handlers for every owner
    what: str  #: such as `endpoint.updated`
    of: str  #: id of the endpoint or subscription, name of the type or policy
    by: str  #: a person, or a rule
    at: datetime
    before: Mapping[str, Any] = field(default_factory=dict)  #: JSON; only the fields that changed
    after: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def about(
        cls,
        thing: Endpoint | Subscription | EventType | RetryPolicy,
        what: str,
        by: str,
        at: datetime,
        *,
        before: Mapping[str, Any] | None = None,
        after: Mapping[str, Any] | None = None,
    ) -> Change:
        """Make the change of one thing."""
        match thing:
            case EventType():
                owner_id, of = None, thing.type
            case RetryPolicy():
                owner_id, of = None, thing.name
            case _:
                owner_id, of = thing.owner_id, str(thing.id)
        return cls(owner_id=owner_id, what=what, of=of, by=by, at=at, before=before or {}, after=after or {})


class Store(Protocol):
    """Keep what owners want."""

    async def declare_type(self, event_type: EventType) -> EventType | None:
        """Add a type and return None, or return the one of this name that stands, which is left as it is.

        Either stays locked until the transaction ends.
        """

    async def update_type(self, event_type: EventType) -> None:
        """Write what is declared of a type that stands."""

    async def types(self) -> Sequence[EventType]:
        """List all declared types by name, the platform's own among them."""

    async def checked_types(self) -> Sequence[EventType]:
        """List the types whose events are checked."""

    async def lock_setup(self) -> None:
        """Wait until no other transaction that said so goes on; they export and import one after another."""

    async def lock_policies(self) -> None:
        """Wait until nobody changes or chooses a policy, and let nobody until this transaction ends."""

    async def hold_policies(self) -> None:
        """Wait until nobody changes a policy, and let nobody until this transaction ends; many may do so at once."""

    async def policies(self) -> Sequence[RetryPolicy]:
        """List the policies that operators made, by name."""

    async def policy(self, name: str) -> RetryPolicy | None:
        """Return one that operators made."""

    async def policy_uses(self) -> Mapping[str, int]:
        """Count the endpoints that are not removed by their policy, of those that go by any."""

    async def add_policy(self, policy: RetryPolicy) -> None:
        """Add a policy, whose name is free."""

    async def update_policy(self, policy: RetryPolicy, now: datetime) -> None:
        """Write a policy that stands; endpoints that go by it count as updated now, which whoever keeps them sees."""

    async def remove_policy(self, name: str) -> None:
        """Remove a policy."""

    async def add_endpoint(self, endpoint: Endpoint) -> None:
        """Add an endpoint. Its headers may hold credentials: the adapter seals them at rest."""

    async def endpoint(self, owner_id: str, endpoint_id: UUID) -> Endpoint | None:
        """Return one endpoint of the owner, also a removed one."""

    async def lock_endpoint(self, owner_id: str, endpoint_id: UUID) -> Endpoint | None:
        """Return one endpoint as `endpoint` does, once no other transaction has it locked.

        It stays locked until this one ends, so that what is decided on it still holds when it is written.
        """

    async def still_fails(self, endpoint_id: UUID, since: datetime) -> bool:
        """Say whether every try of an endpoint has failed since then; it stays so until this transaction ends."""

    async def endpoints(
        self, owner_id: str | None, *, limit: int = 50, after: UUID | None = None
    ) -> Sequence[Endpoint]:
        """List endpoints that are not removed by id, oldest first; page on with `after` = the last id seen.

        `owner_id` None lists those of all owners: for the people who run the platform.
        """

    async def endpoints_between(
        self, owner_id: str | None, first: UUID, last: UUID, *, limit: int
    ) -> Sequence[tuple[UUID, str]]:
        """List ids from `first` to `last`, both included, each with the URL; removed endpoints say so behind it."""

    async def update_endpoint(self, endpoint: Endpoint) -> None:
        """Write every field but `id`, `owner_id` and `created_at` of an endpoint that stands."""

    async def add_subscription(self, subscription: Subscription) -> bool:
        """Add a subscription; False, and nothing added, when its owner has another one of this name.

        Waits for a transaction that is adding or removing the same name. Subscriptions without an owner share
        one set of names of their own.
        """

    async def subscription(self, owner_id: str | None, name: str) -> Subscription | None:
        """Return one subscription of the owner, or of no owner when `owner_id` is None."""

    async def subscriptions(self, owner_id: str | None) -> Sequence[Subscription]:
        """List the subscriptions of the owner by name, or those of no owner when `owner_id` is None."""

    async def remove_subscription(self, owner_id: str | None, name: str) -> Subscription | None:
        """Remove one subscription and return it."""

    async def remove_subscriptions_to(self, endpoint_id: UUID) -> Sequence[Subscription]:
        """Remove every subscription whose target is the endpoint, and return them."""

    async def routing(self, owner_ids: Collection[str]) -> Sequence[Subscription]:
        """Return, in one statement, all subscriptions of these owners and all without an owner.

        Those of disabled endpoints are among them: their deliveries are parked, not dropped.
        """

    async def keys(self, endpoint_id: UUID, now: datetime) -> Sequence[StoredKey]:
        """Return the keys that have not expired at `now`, newest first."""

    async def add_key(self, key: StoredKey) -> None:
        """Add a key."""

    async def expire_keys(self, endpoint_id: UUID, at: datetime) -> None:
        """Let every key of the endpoint expire at `at`, or keep its expiry where that is earlier."""

    async def record_change(self, change: Change) -> None:
        """Keep a change for good."""
