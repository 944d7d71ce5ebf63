"""The set-up of owners as one document: export it, and bring what stands to what it says."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from delivery.api.endpoints import Endpoints, Unit
from delivery.api.importing import Goer, Importing, SetupChange, at, endpoints_of
from delivery.api.policies import Policies
from delivery.api.subscriptions import subscription_registry
from delivery.errors import ConfigurationError, InvalidInput
from signing import SenderKey
from subscriptions.errors import UnknownType
from subscriptions.match import check_wanted, is_reserved, parse_patterns
from subscriptions.model import (
    Endpoint,
    EndpointChanges,
    EndpointTarget,
    EventType,
    Exposure,
    PolicyChanges,
    RetryPolicy,
    Subscription,
    UnopenedHeaders,
    described_tls,
)
from subscriptions.setup import Setup, WantedEndpoint, WantedOwner, WantedPolicy, WantedSubscription, WantedType
from subscriptions.store import Store
from subscriptions.urls import canonical_url

#: Addresses that are looked up at once.
_LOOKED_UP = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What came of an import, or would."""

    changes: tuple[SetupChange, ...]
    keys: tuple[tuple[Endpoint, SenderKey], ...]  #: of endpoints that are new, shown here and never again
    unnamed: int  #: endpoints and subscriptions that stand, are not named, and stay

    @property
    def added(self) -> tuple[Endpoint, ...]:
        """Return the endpoints that are new; those of a trial get other ids than it made."""
        new = [each.thing for each in self.changes if each.before is None]
        return tuple(each for each in new if isinstance(each, Endpoint))

    @property
    def lost_headers(self) -> tuple[tuple[Endpoint, str], ...]:
        """Return headers that go, whose values nobody can read again."""
        found: list[tuple[Endpoint, str]] = []
        for each in self.changes:
            if isinstance(each.before, Endpoint) and isinstance(each.after, Endpoint):
                kept = {name.lower() for name, _ in each.after.headers}
                found += [(each.after, name) for name, _ in each.before.headers if name.lower() not in kept]
        return tuple(found)

    @property
    def goers(self) -> frozenset[Goer]:
        """Return what goes, to be agreed to."""
        headers = {(endpoint.id, name.lower()) for endpoint, name in self.lost_headers}
        return frozenset({each.id for each in self.removed} | headers)

    @property
    def removed(self) -> tuple[Endpoint | Subscription, ...]:
        """Return what goes: never a type or a policy."""
        gone = [each.thing for each in self.changes if each.after is None]
        return tuple(each for each in gone if isinstance(each, Endpoint | Subscription))


class SetupDesk:
    """Export and import."""

    def __init__(self, unit: Unit, endpoints: Endpoints, policies: Policies) -> None:
        self._unit, self._endpoints, self._policies = unit, endpoints, policies

    async def export(self, owner_id: str | None) -> Setup:
        """Write down types, policies, and the owner's endpoints with their subscriptions; None = of all owners.

        Of secrets the names only. Not what happens to an endpoint (whether it is disabled), nor handlers.

        Raises:
            ConfigurationError: an endpoint's headers cannot be opened, so that nobody can tell what they are.
        """
        async with self._unit() as store:
            await store.lock_setup()
            await store.hold_policies()
            policies = await store.policies()
            types = [each for each in await store.types() if not is_reserved(each.type)]
            endpoints = [each async for each in endpoints_of(store, owner_id)]
            by_endpoint = defaultdict[UUID, list[Subscription]](list)
            for each in await store.routing({endpoint.owner_id for endpoint in endpoints}):
                if isinstance(each.target, EndpointTarget):
                    by_endpoint[each.target.endpoint_id].append(each)
            owners = defaultdict[str, list[WantedEndpoint]](list, {} if owner_id is None else {owner_id: []})
            for endpoint in endpoints:
                scheme = await _scheme(store, endpoint)
                owners[endpoint.owner_id].append(_wanted(endpoint, scheme, by_endpoint[endpoint.id], types))
        return Setup(
            event_types=tuple(
                WantedType(
                    type=each.type,
                    exposure=each.exposure,
                    description=each.description,
                    schema=each.schema,
                    checks=each.checks,
                )
                for each in types
            ),
            policies=tuple(_wanted_policy(each) for each in policies),
            owners=tuple(WantedOwner(owner_id=name, endpoints=tuple(owners[name])) for name in sorted(owners)),
        )

    async def apply(
        self,
        setup: Setup,
        *,
        by: str,
        prune: bool = False,
        agreed: Collection[Goer] | None = None,
        dry_run: bool = False,
    ) -> Imported:
        """Bring what stands to what the document says, all in one transaction or nothing; a repeat changes nothing.

        What is not named stays, unless `prune`: then the owners that are named lose it, for good. With `agreed`
        nothing goes but what is in it. `dry_run` does it all, and takes it back.

        Raises:
            InvalidInput: an entry is refused; the message begins with its place. Nothing was changed.
            Conflict: something would go that was not agreed to. Nothing was changed.
            ConfigurationError: a key is missing that other secrets here are sealed with.
        """
        await self._endpoints.check_keys()
        await self._check_addresses(setup)
        importing: Importing | None = None
        with suppress(_TakenBack):
            async with self._unit() as store:
                registry = self._endpoints.registry(store)
                importing = Importing(
                    store,
                    registry,
                    subscription_registry(store),
                    self._policies.registry(store),
                    by=by,
                    prune=prune,
                    agreed=agreed,
                )
                await importing.run(setup)
                if dry_run:
                    raise _TakenBack
        assert importing is not None  # noqa: S101 - it ran to its end
        done = Imported(
            changes=tuple(importing.changes),
            keys=() if dry_run else tuple(importing.keys),
            unnamed=importing.unnamed,
        )
        for gone in () if dry_run else done.removed:
            if isinstance(gone, Endpoint):
                await self._endpoints.cancel_deliveries(gone.owner_id, gone.id)
        return done

    async def _check_addresses(self, setup: Setup) -> None:
        """See that new URLs may be sent to, before a transaction waits for name servers. Those that stand may."""
        new: list[tuple[str, WantedEndpoint]] = []
        async with self._unit() as store:
            for owner in setup.owners:
                standing = {each.url async for each in endpoints_of(store, owner.owner_id)}
                for entry in owner.endpoints:
                    with at(entry.place):
                        if canonical_url(entry.url) not in standing:
                            new.append((owner.owner_id, entry))
        slots = asyncio.Semaphore(_LOOKED_UP)

        async def refusal(owner_id: str, entry: WantedEndpoint) -> InvalidInput | None:
            async with slots:
                try:
                    with at(entry.place):
                        await self._endpoints.check_address(owner_id, entry.url)
                except InvalidInput as error:
                    return error
            return None

        for error in await asyncio.gather(*(refusal(owner_id, entry) for owner_id, entry in new)):
            if error is not None:
                raise error


class _TakenBack(Exception):
    """It was a trial: roll back."""


async def _scheme(store: Store, endpoint: Endpoint) -> str | None:
    keys = await store.keys(endpoint.id, datetime.now(UTC))
    return keys[0].scheme if keys else None


def _wanted_policy(policy: RetryPolicy) -> WantedPolicy:
    fields = PolicyChanges(
        ladder=policy.ladder,
        max_attempts=policy.max_attempts,
        timeout=policy.timeout,
        max_age=policy.max_age,
        no_max_age=True if policy.max_age is None else None,
        client_errors=policy.client_errors,
    )
    return WantedPolicy(name=policy.name, fields=fields)


def _wanted(
    endpoint: Endpoint, scheme: str | None, subscriptions: list[Subscription], types: list[EventType]
) -> WantedEndpoint:
    if isinstance(endpoint.headers, UnopenedHeaders):
        raise ConfigurationError(
            f"the credentials of endpoint {endpoint.id} cannot be opened: put their key back in TIDINGS_KEYS"
        )
    return WantedEndpoint(
        id=endpoint.id,
        url=endpoint.url,
        fields=EndpointChanges(
            description=endpoint.description,
            policy=endpoint.policy,
            format=endpoint.format,
            limit=endpoint.limit,
            rate=endpoint.rate,
            timeout=endpoint.timeout,
            no_timeout=True if endpoint.timeout is None else None,
            overrides=endpoint.overrides,
        ),
        headers=tuple((name, None) for name, _ in endpoint.headers),
        tls=tuple(described_tls(endpoint.tls)),
        scheme=scheme,
        subscriptions=tuple(
            WantedSubscription(
                name=each.name, patterns=each.patterns, filter=each.filter, future=_is_early(each.patterns, types)
            )
            for each in sorted(subscriptions, key=lambda each: each.name)
        ),
    )


def _is_early(patterns: tuple[str, ...], types: list[EventType]) -> bool:
    """Say whether a pattern of it matches no type that is declared and may leave."""
    try:
        check_wanted(parse_patterns(patterns), [each.type for each in types if each.exposure is Exposure.WEBHOOK])
    except UnknownType:
        return True
    return False
