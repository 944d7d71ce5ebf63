"""Bring what stands to what a document says, within one transaction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from typing import Any
from uuid import UUID

from delivery.errors import Conflict, InvalidInput
from signing import SenderKey
from subscriptions.errors import SubscriptionError
from subscriptions.keys import SCHEME
from subscriptions.match import parse_patterns
from subscriptions.model import (
    Checks,
    Endpoint,
    EndpointChanges,
    EndpointTarget,
    EventType,
    Exposure,
    RetryPolicy,
    Subscription,
    UnopenedHeaders,
    described_tls,
)
from subscriptions.policies import POLICIES, custom_policy
from subscriptions.policy_registry import PolicyRegistry
from subscriptions.registry import EndpointRegistry
from subscriptions.setup import Setup, WantedEndpoint, WantedOwner, WantedPolicy, WantedSubscription, WantedType
from subscriptions.store import Store
from subscriptions.subscribing import SubscriptionRegistry
from subscriptions.urls import canonical_url

#: Endpoints a query.
PAGE = 500
Headers = tuple[tuple[str, str], ...]
Thing = EventType | RetryPolicy | Endpoint | Subscription
#: What goes, to be agreed to: an endpoint or a subscription, or a header of an endpoint, its name in lower case.
Goer = UUID | tuple[UUID, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class SetupChange:
    """One thing as it was, and as it is then; None where it is not there."""

    before: Thing | None
    after: Thing | None
    headers: tuple[str, ...] = ()  #: of an endpoint: names of headers that are added, get another value, or go

    @property
    def thing(self) -> Thing:
        """Return what it is about."""
        thing = self.before if self.after is None else self.after
        assert thing is not None  # noqa: S101 - it is there before or after
        return thing


class Importing:
    """One import. What it does is in the transaction of the store, to be committed or not."""

    def __init__(
        self,
        store: Store,
        endpoints: EndpointRegistry,
        subscriptions: SubscriptionRegistry,
        policies: PolicyRegistry,
        *,
        by: str,
        prune: bool,
        agreed: Collection[Goer] | None = None,
    ) -> None:
        """Remove what is not named if `prune`; of that, with `agreed`, nothing but what is in it."""
        self._store, self._endpoints, self._subscriptions = store, endpoints, subscriptions
        self._policies = policies
        self._by, self._prune, self._agreed = by, prune, agreed
        self.changes: list[SetupChange] = []
        self.keys: list[tuple[Endpoint, SenderKey]] = []  #: of endpoints that are new
        self.unnamed = 0  #: things that stand, are not named, and stay

    async def run(self, setup: Setup) -> None:
        """Do it all.

        Raises:
            InvalidInput: an entry is refused; the message begins with its place.
            Conflict: something would go that was not agreed to.
        """
        await self._store.lock_setup()
        await self._store.lock_policies()  # before any endpoint
        standing = {each.type: each for each in await self._store.types()}
        types: dict[str, str] = {}
        for wanted in setup.event_types:
            with at(wanted.place):
                _once("type", wanted.type, wanted.place, types)
                await self._declare(wanted, standing)
        policies: dict[str, str] = {}
        for policy in setup.policies:
            with at(policy.place):
                _once("policy", policy.name, policy.place, policies)
                await self._place_policy(policy)
        for owner in setup.owners:
            await self._import_owner(owner)

    async def _declare(self, wanted: WantedType, standing: dict[str, EventType]) -> None:
        before = standing.get(wanted.type)
        old = before or EventType(type=wanted.type)
        after = EventType(
            type=wanted.type,
            exposure=old.exposure if wanted.exposure is None else Exposure(wanted.exposure),
            description=old.description if wanted.description is None else wanted.description,
            schema=old.schema if wanted.schema is None else wanted.schema or None,
            checks=old.checks if wanted.checks is None else wanted.checks,
        )
        if after.schema is None and wanted.checks is None:
            after = replace(after, checks=Checks.OFF)
        if before != after:
            await self._subscriptions.declare_type(after, by=self._by, change=True)
            standing[wanted.type] = after
            self.changes.append(SetupChange(before=before, after=after))

    async def _place_policy(self, wanted: WantedPolicy) -> None:
        before = await self._store.policy(wanted.name)
        if before is not None or wanted.name in POLICIES:
            after = await self._policies.update(wanted.name, wanted.fields, by=self._by)
        else:
            given = {each.name: getattr(wanted.fields, each.name) for each in fields(wanted.fields)}
            said = {name: value for name, value in given.items() if value is not None and name != "no_max_age"}
            after = await self._policies.add(custom_policy(wanted.name, **said), by=self._by)
        if before != after:
            self.changes.append(SetupChange(before=before, after=after))

    async def _import_owner(self, owner: WantedOwner) -> None:
        standing = {each.id: each async for each in endpoints_of(self._store, owner.owner_id)}
        wanted = await self._matched(owner, standing)
        placed: list[tuple[UUID, WantedSubscription]] = []
        for entry, endpoint in wanted:
            with at(entry.place):
                endpoint_id = await self._place(owner.owner_id, entry, endpoint)
            placed += [(endpoint_id, each) for each in entry.subscriptions]
        subscribed = {each.name: each for each in await self._store.subscriptions(owner.owner_id)}
        await self._subscribe(owner.owner_id, placed, subscribed)
        named = {endpoint.id for _, endpoint in wanted if endpoint is not None}
        names = {each.name for _, each in placed}
        await self._leave(
            [each for each in subscribed.values() if is_delivered(each) and each.name not in names],
            [endpoint for endpoint_id, endpoint in standing.items() if endpoint_id not in named],
        )

    # Endpoints --------------------------------------------------------------------------------------------------

    async def _matched(
        self, owner: WantedOwner, standing: dict[UUID, Endpoint]
    ) -> list[tuple[WantedEndpoint, Endpoint | None]]:
        """Find the endpoint that each entry speaks of; None = it is new."""
        places: dict[UUID | str, str] = {}
        named, by_url = {each.id for each in owner.endpoints}, defaultdict[str, list[Endpoint]](list)
        for endpoint in standing.values():
            if endpoint.id not in named:
                by_url[endpoint.url].append(endpoint)
        found = list[tuple[WantedEndpoint, Endpoint | None]]()
        for entry in owner.endpoints:
            with at(entry.place):
                identity = canonical_url(entry.url) if entry.id is None else entry.id
                if identity in places:
                    raise InvalidInput(f"it is the endpoint of {places[identity]}, too: give each its own id")
                places[identity] = entry.place
                found.append((entry, await self._find(identity, standing, by_url)))
        return found

    async def _find(
        self, identity: UUID | str, standing: dict[UUID, Endpoint], by_url: dict[str, list[Endpoint]]
    ) -> Endpoint | None:
        if isinstance(identity, UUID):
            if identity not in standing:
                await self._check_free(identity)
            return standing.get(identity)
        several = by_url.get(identity, [])
        if len(several) > 1:
            ids = ", ".join(str(each.id) for each in several[:5])
            raise InvalidInput(f"there are several endpoints of this URL: give the id of one ({ids})")
        return several[0] if several else None

    async def _check_free(self, endpoint_id: UUID) -> None:
        if endpoint_id.version != 7:
            raise InvalidInput(f"{endpoint_id} is no id of an endpoint: leave it out, and one is made")
        if await self._store.endpoints_between(None, endpoint_id, endpoint_id, limit=1):
            raise InvalidInput(f"no endpoint can be added with the id {endpoint_id}, which is used up: leave it out")

    async def _place(self, owner_id: str, entry: WantedEndpoint, endpoint: Endpoint | None) -> UUID:
        """See that the endpoint is there as it is wanted; returns its id."""
        stood = () if endpoint is None else endpoint.headers
        headers, names = self._headers(entry, stood)
        if endpoint is not None and headers is not None:
            kept = {name.lower() for name, _ in headers}
            for lost in {name.lower() for name, _ in stood} - kept:
                self._check_agreed((endpoint.id, lost))
        if missing := set(entry.tls) - set(described_tls(endpoint.tls if endpoint else None)):
            raise InvalidInput(
                f"the TLS {' and '.join(sorted(missing))} is secret and not here: leave it out, and give it by"
                " `tidings endpoints update` afterwards"
            )
        if endpoint is None:
            return await self._add(owner_id, entry, headers or ())
        given = replace(entry.fields, url=canonical_url(entry.url), headers=headers)
        changes = {each.name: getattr(given, each.name) for each in fields(given)}
        standing = {name: getattr(endpoint, name, None) for name in changes} | {"no_timeout": endpoint.timeout is None}
        differing = {name: value for name, value in changes.items() if value is not None and value != standing[name]}
        if differing:
            changed = EndpointChanges(**differing)
            after = await self._endpoints.update_endpoint(owner_id, endpoint.id, changed, by=self._by)
            self.changes.append(SetupChange(before=endpoint, after=after, headers=names))
        return endpoint.id

    async def _add(self, owner_id: str, entry: WantedEndpoint, headers: Headers) -> UUID:
        given: dict[str, Any] = {each.name: getattr(entry.fields, each.name) for each in fields(entry.fields)}
        options = {name: value for name, value in given.items() if value is not None and name != "no_timeout"}
        options |= {"headers": headers, "scheme": entry.scheme or SCHEME, "endpoint_id": entry.id}
        endpoint, key = await self._endpoints.add_endpoint(owner_id, entry.url, by=self._by, **options)
        self.keys.append((endpoint, key))
        self.changes.append(SetupChange(before=None, after=endpoint, headers=tuple(name for name, _ in headers)))
        return endpoint.id

    def _headers(self, entry: WantedEndpoint, standing: Headers) -> tuple[Headers | None, tuple[str, ...]]:
        """Return the headers to write, None = as they stand, and the names of those that this changes."""
        if entry.headers is None:
            return None, ()
        if isinstance(standing, UnopenedHeaders):
            if all(value is None for _, value in entry.headers):
                return None, ()
            raise InvalidInput("the headers that the endpoint has cannot be opened: put their key back in TIDINGS_KEYS")
        have = {name.lower(): (name, value) for name, value in standing}
        wanted: dict[str, tuple[str, str]] = {}
        for name, value in entry.headers:
            if value is None and name.lower() not in have:
                raise InvalidInput(
                    f"the value of header {name!r} is secret and not here: write it, or leave the header out and give"
                    " it by `tidings endpoints update` afterwards"
                )
            wanted[name.lower()] = have[name.lower()] if value is None else (name, value)
        if len(wanted) < len(entry.headers):
            raise InvalidInput("a header is there twice (case does not matter): write it once")
        after = wanted if self._prune else have | wanted
        changed = [each[0] for name, each in (have | after).items() if have.get(name) != after.get(name)]
        return (tuple(after.values()) if changed else None), tuple(changed)

    # Subscriptions ----------------------------------------------------------------------------------------------

    async def _subscribe(
        self, owner_id: str, placed: list[tuple[UUID, WantedSubscription]], standing: dict[str, Subscription]
    ) -> None:
        places: dict[str, str] = {}
        for endpoint_id, wanted in placed:
            with at(wanted.place):
                if wanted.name in places:
                    raise InvalidInput(
                        f"the name {wanted.name!r} is that of {places[wanted.name]}, too: choose another"
                    )
                places[wanted.name] = wanted.place
                await self._subscribe_one(owner_id, endpoint_id, wanted, standing.get(wanted.name))

    async def _subscribe_one(
        self, owner_id: str, endpoint_id: UUID, wanted: WantedSubscription, before: Subscription | None
    ) -> None:
        target = EndpointTarget(endpoint_id=endpoint_id)
        patterns = {each.text for each in parse_patterns(wanted.patterns)}
        sieve = wanted.filter or None
        if wanted.filter is None and before is not None:
            sieve = before.filter
        if before is not None and (set(before.patterns), before.filter, before.target) == (patterns, sieve, target):
            return
        if before is not None:
            if not is_delivered(before):
                raise InvalidInput(f"the name {wanted.name!r} is taken by that of a handler: choose another")
            await self._subscriptions.unsubscribe(owner_id, wanted.name, by=self._by)
        after = await self._subscriptions.subscribe(
            owner_id, wanted.name, wanted.patterns, endpoint_id, by=self._by, future=wanted.future, filter=sieve
        )
        self.changes.append(SetupChange(before=before, after=after))

    # What is not named ------------------------------------------------------------------------------------------

    async def _leave(self, subscriptions: list[Subscription], endpoints: list[Endpoint]) -> None:
        """Leave what is not named as it stands, or remove it."""
        if not self._prune:
            self.unnamed += len(subscriptions) + len(endpoints)
            return
        going: list[Subscription | Endpoint] = [*subscriptions, *endpoints]
        for each in going:
            self._check_agreed(each.id)
            self.changes.append(SetupChange(before=each, after=None))
        for one in subscriptions:
            await self._subscriptions.unsubscribe(one.owner_id, one.name, by=self._by)
        for endpoint in endpoints:
            await self._endpoints.remove(endpoint.owner_id, endpoint.id, by=self._by)

    def _check_agreed(self, goer: Goer) -> None:
        if self._agreed is not None and goer not in self._agreed:
            raise Conflict("others have come meanwhile that would be removed: run it again to see them")


def is_delivered(one: Subscription) -> bool:
    """Say whether its target is an endpoint: those of handlers are in code, and no part of a document."""
    return isinstance(one.target, EndpointTarget)


async def endpoints_of(store: Store, owner_id: str | None) -> AsyncIterator[Endpoint]:
    """Read every endpoint that is not removed, of one owner or of all, oldest first."""
    last: UUID | None = None
    while page := await store.endpoints(owner_id, limit=PAGE, after=last):
        for endpoint in page:
            yield endpoint
        last = page[-1].id


@contextmanager
def at(place: str) -> Iterator[None]:
    """Let what is refused say where it stands.

    Raises:
        InvalidInput: something was refused.
    """
    try:
        yield
    except (InvalidInput, SubscriptionError) as error:
        raise InvalidInput(f"{place}: {error}") from error


def _once(what: str, name: str, place: str, places: dict[str, str]) -> None:
    """Keep where a name stands, and refuse one that stands elsewhere, too."""
    if name in places:
        raise InvalidInput(f"the {what} {name!r} is that of {places[name]}, too: write it once")
    places[name] = place
