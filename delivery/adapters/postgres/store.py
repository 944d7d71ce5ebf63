"""Keep endpoints, subscriptions, types, policies, sealed keys and the record of changes, in a caller's transaction."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection
from psycopg.rows import DictRow, dict_row

from delivery.adapters.postgres.credentials import (
    Credentials,
    CredentialSeal,
    opened_credentials,
    sealed_credentials,
)
from delivery.adapters.postgres.crew import LANES_CHANNEL
from delivery.adapters.postgres.faults import mapped
from delivery.adapters.postgres.health import streak_of, tell
from delivery.adapters.postgres.partitions import Turn
from delivery.adapters.postgres.rows import (
    Columns,
    change_columns,
    change_of,
    endpoint_columns,
    endpoint_of,
    key_columns,
    key_of,
    policy_columns,
    policy_of,
    subscription_columns,
    subscription_of,
    type_columns,
    type_of,
)
from delivery.adapters.postgres.statements import statement
from delivery.compiler import endpoint_lane
from delivery.errors import ConfigurationError, NotFound
from delivery.health import BY, DISABLED, ENABLED, HealthRules
from delivery.sealing import SealError
from subscriptions.model import Checks, Endpoint, EndpointState, EventType, RetryPolicy, Subscription, UnopenedHeaders
from subscriptions.store import Change, StoredKey

log = logging.getLogger("tidings.store")


class PostgresStore:
    """`subscriptions.store.Store`, bound to one open transaction.

    An endpoint's lane follows its limit, rate and state, in the same transaction. Credentials are sealed at rest. Where
    they do not open (the key is gone), the endpoint has `UnopenedHeaders`, and a warning names it.

    Every method raises InvalidInput for text that PostgreSQL cannot keep, TransactionConflict for a deadlock
    or a lost serialisation, and Unavailable where the database does not answer: roll back then.
    """

    def __init__(self, tx: AsyncConnection[Any], seal: CredentialSeal, open_sealed: CredentialSeal) -> None:
        """Work in `tx`, which the caller commits; `open_sealed` raises SealError for what does not open."""
        self._tx, self._seal, self._open = tx, seal, open_sealed

    # Types ------------------------------------------------------------------------------------------------------

    async def declare_type(self, event_type: EventType) -> EventType | None:
        """Add a type, or return the one that stands."""
        if added := await self._rows("declare_type", type_columns(event_type)):
            await self._rerouted(added if event_type.checks is not Checks.OFF else [])
            return None
        [row] = await self._rows("lock_type", {"type": event_type.type})  # types never go
        return type_of(row)

    async def update_type(self, event_type: EventType) -> None:
        """Write what is declared of it; relays hear of it, for it may be checked otherwise."""
        await self._run("update_type", type_columns(event_type))
        await self._run("raise_routes_version", {})

    async def types(self) -> Sequence[EventType]:
        """List all declared types."""
        return [type_of(row) for row in await self._rows("list_types", {})]

    async def checked_types(self) -> Sequence[EventType]:
        """List the types whose events are checked."""
        return [type_of(row) for row in await self._rows("checked_types", {})]

    # Policies ---------------------------------------------------------------------------------------------------

    async def lock_policies(self) -> None:
        """Take the lock of those who change policies, until the transaction ends."""
        await self._run("lock_policies", {"turn": Turn.POLICIES})

    async def hold_policies(self) -> None:
        """Keep policies from being changed, until the transaction ends."""
        await self._run("hold_policies", {"turn": Turn.POLICIES})

    async def policies(self) -> Sequence[RetryPolicy]:
        """List the policies that operators made."""
        return [policy_of(row) for row in await self._rows("list_policies", {"name": None})]

    async def policy(self, name: str) -> RetryPolicy | None:
        """Return one that operators made."""
        rows = await self._rows("list_policies", {"name": name})
        return policy_of(rows[0]) if rows else None

    async def policy_uses(self) -> Mapping[str, int]:
        """Count endpoints by their policy."""
        return {row["policy"]: row["number"] for row in await self._rows("count_policies", {})}

    async def add_policy(self, policy: RetryPolicy) -> None:
        """Add a policy."""
        await self._run("add_policy", policy_columns(policy))

    async def update_policy(self, policy: RetryPolicy, now: datetime) -> None:
        """Write a policy, and its endpoints anew."""
        await self._run("update_policy", policy_columns(policy) | {"updated_at": now})

    async def remove_policy(self, name: str) -> None:
        """Remove a policy."""
        await self._run("remove_policy", {"name": name})

    # Endpoints --------------------------------------------------------------------------------------------------

    async def lock_setup(self) -> None:
        """Take the lock of those who export or import, until the transaction ends."""
        await self._run("lock_setup", {"turn": Turn.SET_UP})

    async def add_endpoint(self, endpoint: Endpoint) -> None:
        """Add an endpoint and its lane."""
        await self._run("add_endpoint", self._columns(endpoint))
        await self._set_lane(endpoint, switch=endpoint.state is EndpointState.DISABLED)

    async def endpoint(self, owner_id: str, endpoint_id: UUID) -> Endpoint | None:
        """Return one endpoint of the owner."""
        rows = await self._rows("read_endpoint", {"id": endpoint_id, "owner_id": owner_id})
        return endpoint_of(rows[0], self._opened(rows[0])) if rows else None

    async def lock_endpoint(self, owner_id: str, endpoint_id: UUID) -> Endpoint | None:
        """Return one endpoint of the owner, locked."""
        rows = await self._rows("lock_endpoint", {"id": endpoint_id, "owner_id": owner_id})
        return endpoint_of(rows[0], self._opened(rows[0])) if rows else None

    async def endpoints(
        self, owner_id: str | None, *, limit: int = 50, after: UUID | None = None
    ) -> Sequence[Endpoint]:
        """List endpoints that are not removed."""
        rows = await self._rows("list_endpoints", {"owner_id": owner_id, "after": after, "limit": limit})
        return [endpoint_of(row, self._opened(row)) for row in rows]

    async def endpoints_between(
        self, owner_id: str | None, first: UUID, last: UUID, *, limit: int
    ) -> Sequence[tuple[UUID, str]]:
        """List ids and URLs."""
        asked = {"owner_id": owner_id, "first": first, "last": last, "limit": limit}
        rows = await self._rows("find_endpoints", asked)
        return [(row["id"], row["url"] + (", removed" if row["state"] == "removed" else "")) for row in rows]

    async def update_endpoint(self, endpoint: Endpoint) -> None:
        """Write an endpoint; its lane follows, and the lane's process hears of it when this commits.

        Raises:
            NotFound: the owner has no such endpoint.
        """
        rows = await self._rows("update_endpoint", self._columns(endpoint))
        if not rows:
            raise NotFound(f"no endpoint {endpoint.id} of this owner: add it first")
        limit_changed, state_changed = rows[0]["limit_changed"], rows[0]["state_changed"]
        if state_changed:
            await self._tell_state(endpoint)
        elif endpoint.state is EndpointState.DISABLED and endpoint.state_by != BY:  # it is not probed any more
            await self._run("end_failures", {"id": endpoint.id, "is_forced": True})
        if limit_changed or state_changed:
            lane_id = await self._set_lane(endpoint, switch=state_changed)
            await self._run("notify", {"channel": LANES_CHANNEL, "payload": str(lane_id)})

    async def still_fails(self, endpoint_id: UUID, since: datetime) -> bool:
        """Say whether no try has succeeded since then."""
        return bool(await self._rows("still_fails", {"id": endpoint_id, "since": since}))

    async def _tell_state(self, endpoint: Endpoint) -> None:
        """Tell the owner by an event. A streak ends, but that of an endpoint that is disabled for it and probed."""
        if endpoint.state is EndpointState.DISABLED and endpoint.state_by == BY:
            rows = await self._rows("await_probe", {"id": endpoint.id, "pause": HealthRules().probe_first})
        else:
            rows = await self._rows("end_failures", {"id": endpoint.id, "is_forced": True})
        streak = streak_of(rows[0]) if rows else None
        said = {"by": endpoint.state_by, "reason": endpoint.state_reason}
        with mapped():
            if endpoint.state is EndpointState.ENABLED:
                await tell(self._tx, endpoint.id, ENABLED, None, by=endpoint.state_by)
            elif endpoint.state is EndpointState.DISABLED:
                await tell(self._tx, endpoint.id, DISABLED, streak, **said)

    async def _set_lane(self, endpoint: Endpoint, *, switch: bool) -> int:
        """Make the lane or set its limit and rate; its switch only if asked, for switching on also ends a pause.

        A removed endpoint's lane is on: what is still in it is cancelled when its turn comes.
        """
        key = endpoint_lane(endpoint.id)
        lane = {"key": key, "owner_id": endpoint.owner_id, "job_limit": endpoint.limit}
        rate = endpoint.rate
        paced = {"rate": rate and rate.a_second, "burst": rate and rate.burst}
        [row] = await self._rows("limit_lane", lane | paced)
        if switch and endpoint.state is EndpointState.REMOVED:
            await self._run("close_lane", {"key": key})
        elif switch:
            await self._run("switch_lane", {"key": key, "is_on": endpoint.state is EndpointState.ENABLED})
        return int(row["id"])

    def _columns(self, endpoint: Endpoint) -> Columns:
        return endpoint_columns(endpoint, sealed_credentials(endpoint, self._seal))

    def _opened(self, row: DictRow) -> Credentials:
        try:
            return opened_credentials(row, self._open)
        except (SealError, ConfigurationError) as error:
            log.warning("the credentials of endpoint %s cannot be opened: %s", row["id"], error)
            return UnopenedHeaders.of(row["credentials"]), None

    # Subscriptions ----------------------------------------------------------------------------------------------

    async def add_subscription(self, subscription: Subscription) -> bool:
        """Add a subscription, unless the name is taken."""
        added = await self._rows("add_subscription", subscription_columns(subscription))
        await self._rerouted(added)
        return bool(added)

    async def subscription(self, owner_id: str | None, name: str) -> Subscription | None:
        """Return one subscription."""
        rows = await self._rows("read_subscription", {"owner_id": owner_id, "name": name})
        return subscription_of(rows[0]) if rows else None

    async def subscriptions(self, owner_id: str | None) -> Sequence[Subscription]:
        """List subscriptions by name."""
        return [subscription_of(row) for row in await self._rows("list_subscriptions", {"owner_id": owner_id})]

    async def remove_subscription(self, owner_id: str | None, name: str) -> Subscription | None:
        """Remove one subscription."""
        rows = await self._rows("remove_subscription", {"owner_id": owner_id, "name": name})
        await self._rerouted(rows)
        return subscription_of(rows[0]) if rows else None

    async def remove_subscriptions_to(self, endpoint_id: UUID) -> Sequence[Subscription]:
        """Remove every subscription to the endpoint."""
        rows = await self._rows("remove_subscriptions_to", {"endpoint_id": endpoint_id})
        await self._rerouted(rows)
        return [subscription_of(row) for row in rows]

    async def routing(self, owner_ids: Collection[str]) -> Sequence[Subscription]:
        """Return what the events of these owners are routed by."""
        rows = await self._rows("read_routing", {"owner_ids": list(owner_ids)})
        return [subscription_of(row) for row in rows]

    async def _rerouted(self, changed: Sequence[DictRow]) -> None:
        if changed:
            await self._run("raise_routes_version", {})

    # Keys and changes -------------------------------------------------------------------------------------------

    async def keys(self, endpoint_id: UUID, now: datetime) -> Sequence[StoredKey]:
        """Return the keys that have not expired."""
        return [key_of(row) for row in await self._rows("read_keys", {"endpoint_id": endpoint_id, "now": now})]

    async def add_key(self, key: StoredKey) -> None:
        """Add a key."""
        await self._run("add_key", key_columns(key))

    async def expire_keys(self, endpoint_id: UUID, at: datetime) -> None:
        """Let keys expire, never later than they would."""
        await self._run("expire_keys", {"endpoint_id": endpoint_id, "at": at})

    async def record_change(self, change: Change) -> None:
        """Keep a change."""
        await self._run("record_change", change_columns(change))

    async def history(self, of: str, *, limit: int = 50) -> Sequence[Change]:
        """List the changes of one thing, newest first, whoever owns it: each says whose it is."""
        return [change_of(row) for row in await self._rows("list_changes", {"of": of, "limit": limit})]

    async def _run(self, name: str, parameters: Columns) -> None:
        with mapped():
            await self._tx.execute(statement(name), parameters)

    async def _rows(self, name: str, parameters: Columns) -> list[DictRow]:
        with mapped():
            async with self._tx.cursor(row_factory=dict_row) as cursor:
                await cursor.execute(statement(name), parameters)
                return await cursor.fetchall()
