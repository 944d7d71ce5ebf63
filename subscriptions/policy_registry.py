"""The rules of making, changing and removing retry policies, and of choosing one, over the store port.

Policies belong to the platform, as types of events do: an operator makes them, and endpoints of every owner may
choose them. What is done to them comes one after another (`Store.lock_policies`), before any endpoint is locked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from datetime import datetime
from typing import Any

from subscriptions.errors import Conflict, InvalidEndpoint, InvalidPolicy, NotFound
from subscriptions.lines import MAX_NAME, check_line
from subscriptions.model import Endpoint, PolicyChanges, RetryPolicy, describe
from subscriptions.policies import POLICIES, PolicyBounds, check_policy, custom_policy
from subscriptions.store import Change, Store

#: Names that a refusal lists.
_NAMED = 20
#: What an operator says of a policy; the rest follows from it.
_SAID = ("ladder", "max_attempts", "timeout", "max_age", "client_errors")


class PolicyRegistry:
    """Add, change and remove policies; those that are built in stay as they are."""

    def __init__(self, store: Store, *, bounds: PolicyBounds, now: Callable[[], datetime]) -> None:
        self._store, self._bounds, self._now = store, bounds, now

    async def add(self, policy: RetryPolicy, *, by: str) -> RetryPolicy:
        """Add a policy that `custom_policy` made; a repeat of the whole returns the one that stands.

        Raises:
            InvalidPolicy: a value is refused.
            Conflict: another one has the name.
        """
        check_line("by", by, MAX_NAME, InvalidPolicy)
        check_policy(policy, self._bounds)
        await self._store.lock_policies()
        standing = POLICIES.get(policy.name) or await self._store.policy(policy.name)
        if standing == policy:
            return policy
        if standing is not None:
            raise Conflict(
                f"there is a policy {policy.name!r} already: choose another name, or change that one by"
                " `tidings policies update`, where it is not built in"
            )
        await self._store.add_policy(policy)
        await self._record(policy, "policy.added", by, after=describe(policy))
        return policy

    async def update(self, name: str, changes: PolicyChanges, *, by: str) -> RetryPolicy:
        """Change a policy and return it: endpoints that chose it go by the new values from their next try on.

        Raises:
            InvalidPolicy: a value is refused.
            NotFound: there is none of this name.
            Conflict: it is built in.
        """
        before = await self._own(name, by)
        given: dict[str, Any] = {each: getattr(before, each) for each in _SAID}
        wanted = {each.name: getattr(changes, each.name) for each in fields(changes)}
        given |= {key: value for key, value in wanted.items() if value is not None}
        if given.pop("no_max_age", None):
            given["max_age"] = None
        after = custom_policy(name, **given)
        if after == before:
            return before
        check_policy(after, self._bounds)
        await self._store.update_policy(after, self._now())
        changed = [key for key in describe(after) if getattr(before, key) != getattr(after, key)]
        old, new = ({key: describe(each)[key] for key in changed} for each in (before, after))
        await self._record(after, "policy.updated", by, before=old, after=new)
        return after

    async def remove(self, name: str, *, by: str) -> RetryPolicy:
        """Remove a policy that no endpoint goes by, and return it.

        Raises:
            NotFound: there is none of this name.
            Conflict: it is built in, or endpoints go by it; the message says how many.
        """
        gone = await self._own(name, by)
        if number := (await self._store.policy_uses()).get(name, 0):
            endpoints = "1 endpoint goes" if number == 1 else f"{number} endpoints go"
            raise Conflict(
                f"{endpoints} by the policy {name!r}: let them go by another one first, by `tidings endpoints update ID"
                " --policy NAME`"
            )
        await self._store.remove_policy(name)
        await self._record(gone, "policy.removed", by, before=describe(gone))
        return gone

    async def _own(self, name: str, by: str) -> RetryPolicy:
        check_line("by", by, MAX_NAME, InvalidPolicy)
        if name in POLICIES:
            raise Conflict(f"the policy {name!r} is built in and stays as it is: add one of your own beside it")
        await self._store.lock_policies()
        return await policy_named(self._store, name)

    async def _record(self, policy: RetryPolicy, what: str, by: str, **values: Any) -> None:
        await self._store.record_change(Change.about(policy, what, by, self._now(), **values))


async def policy_named(store: Store, name: str) -> RetryPolicy:
    """Return a policy, built in or not.

    Raises:
        NotFound: there is none of this name; the message lists those there are.
    """
    found = POLICIES.get(name) or await store.policy(name)
    if found is None:
        raise NotFound(await _no_policy(store, name))
    return found


async def policy_of(store: Store, endpoint: Endpoint) -> RetryPolicy | None:
    """Return the policy that an endpoint names; None where it was removed after its last endpoint."""
    return POLICIES.get(endpoint.policy) or await store.policy(endpoint.policy)


async def check_choice(store: Store, name: str) -> None:
    """See that an endpoint may go by a policy, which then stays until this transaction ends. Lock no endpoint before.

    Raises:
        InvalidEndpoint: there is none of this name; the message lists those there are.
    """
    if name in POLICIES:
        return
    await store.hold_policies()
    if await store.policy(name) is None:
        raise InvalidEndpoint(await _no_policy(store, name))


async def _no_policy(store: Store, name: str) -> str:
    names = [*POLICIES, *(each.name for each in await store.policies())]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"no policy {name[:60]!r}: use one of {', '.join(names[:_NAMED])}{more}"
