"""Retry policies: how endpoints' deliveries are tried."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from delivery.api.endpoints import Unit
from subscriptions.model import ClientErrors, PolicyChanges, RetryPolicy
from subscriptions.policies import POLICIES, STANDARD, PolicyBounds, custom_policy
from subscriptions.policy_registry import PolicyRegistry, policy_named
from subscriptions.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyUse:
    """A policy, and how many endpoints of all owners go by it; those that are removed do not count."""

    policy: RetryPolicy
    endpoints: int


class Policies:
    """Make, look at, change, remove. They belong to the platform, not to an owner; some are built in and stay."""

    def __init__(self, unit: Unit, bounds: PolicyBounds) -> None:
        self._unit, self._bounds = unit, bounds

    async def add(
        self,
        name: str,
        *,
        by: str,
        ladder: Sequence[timedelta] | None = None,
        max_attempts: int | None = None,
        timeout: timedelta = STANDARD.timeout,
        max_age: timedelta | None = None,
        client_errors: ClientErrors = ClientErrors.SHORT,
    ) -> PolicyUse:
        """Add a policy; a repeat of the whole returns the one that stands.

        `ladder` holds the delay after the first failure, the second and so on; the last one repeats. Without
        `max_attempts` it is climbed once; without a ladder it is that of `standard`. `max_age` None is the platform's.

        Raises:
            InvalidPolicy: a value is refused; the message says which and why.
            Conflict: there is another policy of this name.
        """
        policy = custom_policy(
            name,
            ladder=ladder,
            max_attempts=max_attempts,
            timeout=timeout,
            max_age=max_age,
            client_errors=client_errors,
        )
        async with self._unit() as store:
            return await _use(store, await self.registry(store).add(policy, by=by))

    async def list(self) -> Sequence[PolicyUse]:
        """List those that are built in, then the others by name."""
        async with self._unit() as store:
            uses = await store.policy_uses()
            policies = [*POLICIES.values(), *await store.policies()]
        return [PolicyUse(policy=each, endpoints=uses.get(each.name, 0)) for each in policies]

    async def get(self, name: str) -> PolicyUse:
        """Return one policy.

        Raises:
            NotFound: there is none of this name; the message lists those there are.
        """
        async with self._unit() as store:
            return await _use(store, await policy_named(store, name))

    async def update(self, name: str, changes: PolicyChanges, *, by: str) -> PolicyUse:
        """Change a policy; deliveries under way go by the new values from their next try on.

        Raises:
            InvalidPolicy: a value is refused.
            NotFound: there is none of this name.
            Conflict: it is built in.
        """
        async with self._unit() as store:
            return await _use(store, await self.registry(store).update(name, changes, by=by))

    async def remove(self, name: str, *, by: str) -> PolicyUse:
        """Remove a policy.

        Raises:
            NotFound: there is none of this name.
            Conflict: it is built in, or endpoints go by it.
        """
        async with self._unit() as store:
            return PolicyUse(policy=await self.registry(store).remove(name, by=by), endpoints=0)

    def registry(self, store: Store) -> PolicyRegistry:
        """Return the rules of policies, over a store."""
        return PolicyRegistry(store, bounds=self._bounds, now=lambda: datetime.now(UTC))


async def _use(store: Store, policy: RetryPolicy) -> PolicyUse:
    return PolicyUse(policy=policy, endpoints=(await store.policy_uses()).get(policy.name, 0))
