"""Endpoints: where deliveries go."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

from delivery.channels import Fault, PermanentError, Reply, RetryableError
from delivery.classifier import Verdict, check_overrides, classify
from delivery.compiler import endpoint_lane
from delivery.deliveries import Parcel
from delivery.errors import Conflict, InvalidInput, NotFound
from delivery.events import Event
from delivery.health import Health, Streak
from delivery.ids import new_id
from delivery.jobs import Inspector, JobFilter
from delivery.sealing import SealError
from signing import PublicKey, SenderKey, SigningKey
from subscriptions.errors import no_endpoint
from subscriptions.keys import OVERLAP, SCHEME, Seal
from subscriptions.model import (
    Endpoint,
    EndpointChanges,
    EndpointState,
    Exposure,
    PayloadFormat,
    RetryPolicy,
    TlsIdentity,
    UnopenedHeaders,
)
from subscriptions.policies import STANDARD
from subscriptions.policy_registry import policy_of
from subscriptions.rates import Rate
from subscriptions.registry import EndpointRegistry
from subscriptions.store import Store, StoredKey
from subscriptions.urls import canonical_url

#: Opens a transaction and hands out the store on it; commits on leaving.
Unit = Callable[[], AbstractAsyncContextManager[Store]]
#: Says why a URL of an owner may not be sent to now; None = it may.
Gate = Callable[[str, str], Awaitable[str | None]]
#: Takes a token of an endpoint's rate, by its lane: returns how long to wait for it; none where longer than was said.
Take = Callable[[str, timedelta], Awaitable[timedelta]]
#: How long a test waits for the endpoint's rate at most.
MOST_WAIT = timedelta(seconds=30)
#: The type of the event that `test` sends. It is never recorded.
TEST_TYPE = "tidings.endpoint.test"
_CANCEL_BATCH = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Tested:
    """What came of one test delivery."""

    event: Event
    endpoint: Endpoint  #: as it was when it was sent to
    answer: Reply | Fault | RetryableError | PermanentError
    verdict: Verdict


class Endpoints:
    """Add, look at, change, switch, try, remove. Another owner's endpoint is "not found"."""

    def __init__(
        self,
        unit: Unit,
        *,
        seal: Seal,
        open_key: Callable[[StoredKey, Endpoint], SenderKey],
        check_tls: Callable[[TlsIdentity], None],
        check_keys: Callable[[], Awaitable[None]],
        gate: Gate,
        jobs: Inspector,
        health: Health,
        attempt: Callable[[Parcel], Awaitable[Reply | Fault | RetryableError | PermanentError]],
        take: Take,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._unit, self._seal, self._gate, self._jobs, self._attempt = unit, seal, gate, jobs, attempt
        self._health, self._take, self._sleep = health, take, sleep
        self._check_keys, self._open_key, self._check_tls = check_keys, open_key, check_tls

    async def add(
        self,
        owner_id: str,
        url: str,
        *,
        by: str,
        policy: str = "standard",
        headers: Sequence[tuple[str, str]] = (),
        description: str = "",
        limit: int = 10,
        rate: Rate | None = None,
        timeout: timedelta | None = None,
        overrides: Mapping[str, str] | None = None,
        tls: TlsIdentity | None = None,
        format: PayloadFormat = PayloadFormat.ENVELOPE,
        scheme: str = SCHEME,
    ) -> tuple[Endpoint, SenderKey]:
        """Add an endpoint; its signing key is returned here and never again. `timeout` None is that of its policy.

        With the scheme `v1` that is a secret that the receiver shares; with `v1a` (ed25519) the receiver is given
        its `public_key`, which `public_keys` tells again.

        Raises:
            InvalidEndpoint: a value is refused; the message says which and why.
            InvalidInput: the URL leads to an address that is not allowed, an override is refused, or a certificate
                cannot be used.
            ConfigurationError: a key is missing that other secrets here are sealed with.
        """
        await self._check_keys()
        await self.check_address(owner_id, url)
        async with self._unit() as store:
            return await self.registry(store).add_endpoint(
                owner_id,
                url,
                by=by,
                policy=policy,
                headers=tuple(headers),
                description=description,
                limit=limit,
                rate=rate,
                timeout=timeout,
                overrides=overrides,
                tls=tls,
                format=format,
                scheme=scheme,
            )

    async def list(self, owner_id: str | None, *, limit: int = 50, after: UUID | None = None) -> Sequence[Endpoint]:
        """List endpoints that are not removed, oldest first; page on with `after` = the last id seen.

        `owner_id` None lists those of all owners.
        """
        async with self._unit() as store:
            return await store.endpoints(owner_id, limit=limit, after=after)

    async def get(self, owner_id: str, endpoint_id: UUID) -> Endpoint:
        """Return one endpoint, also a removed one.

        Raises:
            NotFound: the owner has no such endpoint.
        """
        async with self._unit() as store:
            endpoint = await store.endpoint(owner_id, endpoint_id)
        if endpoint is None:
            raise NotFound(no_endpoint(owner_id, endpoint_id))
        return endpoint

    async def policy(self, endpoint: Endpoint) -> RetryPolicy | None:
        """Return the policy that an endpoint goes by; None where a removed one went by one that is removed, too."""
        async with self._unit() as store:
            return await policy_of(store, endpoint)

    async def between(
        self, owner_id: str | None, first: UUID, last: UUID, *, limit: int = 50
    ) -> Sequence[tuple[UUID, str]]:
        """List ids from `first` to `last`, removed endpoints' too, each with its URL: to make a short id whole.

        `owner_id` None looks among all owners'.
        """
        async with self._unit() as store:
            return await store.endpoints_between(owner_id, first, last, limit=limit)

    async def health(self, owner_id: str, endpoint_id: UUID) -> Streak | None:
        """Return the streak of failed tries of an endpoint; None = its last one that counts succeeded, or it had none.

        Raises:
            NotFound: the owner has no such endpoint.
        """
        await self.get(owner_id, endpoint_id)
        return await self._health.read(endpoint_id)

    async def keys(self, owner_id: str, endpoint_id: UUID) -> Sequence[StoredKey]:
        """List the sealed keys that sign now, newest first; `expires_at` says until when, None = until rotated.

        Raises:
            NotFound: the owner has no such endpoint.
        """
        async with self._unit() as store:
            if await store.endpoint(owner_id, endpoint_id) is None:
                raise NotFound(no_endpoint(owner_id, endpoint_id))
            return await store.keys(endpoint_id, datetime.now(UTC))

    async def public_keys(self, owner_id: str, endpoint_id: UUID) -> Mapping[UUID, PublicKey]:
        """Return the public keys of `v1a` that sign now, newest first, by the ids of `keys`.

        They are taken from the keys as they are sealed, so nobody who can only write rows can pass off another.

        Raises:
            NotFound: the owner has no such endpoint.
            SealError: one cannot be opened.
        """
        endpoint = await self.get(owner_id, endpoint_id)
        stored = [key for key in await self.keys(owner_id, endpoint_id) if key.scheme == SigningKey.scheme]
        opened = {key.id: self._open_key(key, endpoint) for key in stored}
        return {key_id: key.public_key for key_id, key in opened.items() if isinstance(key, SigningKey)}

    async def update(self, owner_id: str, endpoint_id: UUID, changes: EndpointChanges, *, by: str) -> Endpoint:
        """Change an endpoint; deliveries under way go by the new values from their next try on."""
        if changes.url is not None:
            await self.get(owner_id, endpoint_id)
            await self.check_address(owner_id, changes.url)
        async with self._unit() as store:
            return await self.registry(store).update_endpoint(owner_id, endpoint_id, changes, by=by)

    async def enable(
        self, owner_id: str, endpoint_id: UUID, *, by: str, only_if_disabled_by: str | None = None
    ) -> Endpoint:
        """Let parked deliveries, and new ones, go out again; a probe passes whose doing alone it may undo."""
        async with self._unit() as store:
            return await self.registry(store).enable(
                owner_id, endpoint_id, by=by, only_if_disabled_by=only_if_disabled_by
            )

    async def disable(
        self, owner_id: str, endpoint_id: UUID, *, by: str, reason: str, keep_standing: bool = False
    ) -> Endpoint:
        """Park the endpoint's deliveries until it is enabled."""
        async with self._unit() as store:
            return await self.registry(store).disable(
                owner_id, endpoint_id, by=by, reason=reason, keep_standing=keep_standing
            )

    async def give_up(self, owner_id: str, endpoint_id: UUID, since: datetime, *, by: str, reason: str) -> bool:
        """Disable an endpoint of which every try has failed since then; False where that is over."""
        async with self._unit() as store:
            endpoint = await store.lock_endpoint(owner_id, endpoint_id)
            if endpoint is None or not await store.still_fails(endpoint_id, since):
                return False
            await self.registry(store).disable(owner_id, endpoint_id, by=by, reason=reason, keep_standing=True)
            return True

    async def remove(self, owner_id: str, endpoint_id: UUID, *, by: str) -> Endpoint:
        """Remove an endpoint and its subscriptions for good, and cancel its deliveries.

        What a kill leaves uncancelled here is cancelled when its turn comes: nothing is sent to it any more.
        """
        async with self._unit() as store:
            endpoint = await self.registry(store).remove(owner_id, endpoint_id, by=by)
        await self.cancel_deliveries(owner_id, endpoint_id)
        return endpoint

    async def cancel_deliveries(self, owner_id: str, endpoint_id: UUID) -> None:
        """Cancel the deliveries to an endpoint that was removed."""
        which = JobFilter(owner_id=owner_id, lane=endpoint_lane(endpoint_id))
        after = 0
        while batch := await self._jobs.cancel_many(which, by="endpoint_removed", limit=_CANCEL_BATCH, after=after):
            after = batch[-1]

    async def rotate_secret(
        self,
        owner_id: str,
        endpoint_id: UUID,
        *,
        by: str,
        overlap: timedelta = OVERLAP,
        scheme: str | None = None,
    ) -> SenderKey:
        """Return a new signing key, shown here and never again; the old ones sign too until `overlap` is over.

        `scheme` None keeps that of the newest key. Another one is signed beside the old meanwhile, so that the
        receiver may change from a secret to a public key, or back, without losing a delivery. An overlap of zero
        revokes the old keys at once.

        Raises:
            InvalidEndpoint: the overlap is not 0 to 7 days, or there is no such scheme.
            Conflict: 10 keys sign already.
        """
        await self._check_keys()
        async with self._unit() as store:
            return await self.registry(store).rotate_secret(
                owner_id, endpoint_id, by=by, overlap=overlap, scheme=scheme
            )

    async def test(self, owner_id: str, endpoint_id: UUID) -> Tested:
        """Send one signed test event and say what came of it; nothing is recorded or retried.

        It goes at once, or where the endpoint has a rate with the next token, before the deliveries that wait.

        Raises:
            NotFound: the owner has no such endpoint.
            Conflict: it was removed, or its rate leaves no room for a test within half a minute.
            SealError: its credentials cannot be opened.
        """
        now = datetime.now(UTC)
        async with self._unit() as store:
            endpoint = await store.endpoint(owner_id, endpoint_id)
            if endpoint is None:
                raise NotFound(no_endpoint(owner_id, endpoint_id))
            if endpoint.state is EndpointState.REMOVED:
                raise Conflict(f"endpoint {endpoint_id} was removed: add a new one")
            keys = await store.keys(endpoint_id, now)
            policy = await policy_of(store, endpoint) or STANDARD
        if isinstance(endpoint.headers, UnopenedHeaders):
            raise SealError(
                f"the credentials of endpoint {endpoint_id} cannot be opened: put their key back in TIDINGS_KEYS"
            )
        await self._await_turn(endpoint)
        event = Event(
            id=new_id(),
            owner_id=owner_id,
            type=TEST_TYPE,
            subject=None,
            occurred_at=now,
            data='{"message":"This is a test."}',
        )
        parcel = Parcel(
            event=event,
            exposure=Exposure.WEBHOOK,
            endpoint=endpoint,
            policy=policy,
            keys=tuple(keys),
            loaded_at=datetime.now(UTC),
        )
        answer = await self._attempt(parcel)
        verdict = classify(answer, endpoint.overrides, policy.client_errors)
        return Tested(event=event, endpoint=endpoint, answer=answer, verdict=verdict)

    async def _await_turn(self, endpoint: Endpoint) -> None:
        if endpoint.rate is None:
            return
        wait = await self._take(endpoint_lane(endpoint.id), MOST_WAIT)
        if wait > MOST_WAIT:
            raise Conflict(
                f"the rate of endpoint {endpoint.id} ({endpoint.rate}) leaves room for a test in"
                f" {wait.total_seconds():.0f} s only: try again then, or `tidings endpoints update` its --rate"
            )
        await self._sleep(wait.total_seconds())

    def registry(self, store: Store) -> EndpointRegistry:
        """Return the rules of registering, over a store."""
        return EndpointRegistry(
            store,
            seal=self._seal,
            check_overrides=check_overrides,
            check_tls=self._check_tls,
            make_id=new_id,
            now=lambda: datetime.now(UTC),
        )

    async def check_keys(self) -> None:
        """See that the keys open everything that is sealed here, before anything is sealed with them.

        Raises:
            ConfigurationError: there are none, or one is missing.
        """
        await self._check_keys()

    async def check_address(self, owner_id: str, url: str) -> None:
        """Look where a URL leads, which may take as long as a name server does: no transaction waits for it.

        Raises:
            InvalidEndpoint: it is no URL.
            InvalidInput: it leads to an address that is not allowed.
        """
        refusal = await self._gate(canonical_url(url), owner_id)
        if refusal is not None:
            raise InvalidInput(refusal)
