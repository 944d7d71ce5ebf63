"""The rules of registering, changing, rotating, disabling and removing endpoints, over the store port.

Everything happens in the transaction that the store is bound to; whoever began it rolls it back on an error.
Clock, ids and sealing are handed in. A repeat that changes nothing writes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from datetime import datetime, timedelta
from uuid import UUID

from signing import SenderKey
from subscriptions.bounds import check_bounds
from subscriptions.errors import (
    Conflict,
    InvalidEndpoint,
    NotFound,
    no_endpoint,
)
from subscriptions.headers import check_headers
from subscriptions.keys import OVERLAP, SCHEME, EndpointKeys, Seal, new_key
from subscriptions.lines import MAX_LINE, MAX_NAME, check_line
from subscriptions.model import (
    Endpoint,
    EndpointChanges,
    EndpointState,
    PayloadFormat,
    TlsIdentity,
    UnopenedHeaders,
    describe,
)
from subscriptions.policy_registry import check_choice
from subscriptions.rates import Rate
from subscriptions.store import Change, Store
from subscriptions.urls import canonical_url

OWNER = re.compile(r"[!-~]{1,128}")


class EndpointRegistry:
    """Register, change, rotate, switch and remove the endpoints of owners.

    Every method but `add_endpoint` raises NotFound where the owner has no such endpoint, every one but those
    and `remove` raises Conflict where it was removed, and each raises InvalidEndpoint for a value it refuses.
    """

    def __init__(
        self,
        store: Store,
        *,
        seal: Seal,
        check_overrides: Callable[[Mapping[str, str]], None],
        check_tls: Callable[[TlsIdentity], None],
        make_id: Callable[[], UUID],
        now: Callable[[], datetime],
    ) -> None:
        """Work on `store`.

        `check_overrides` raises an error of its own for overrides of the classifier that cannot be, `check_tls` for
        certificates and keys. `make_id` makes UUIDv7, so that ids sort by age; `now` is aware UTC.
        """
        self._store, self._check_overrides, self._check_tls = store, check_overrides, check_tls
        self._keys = EndpointKeys(store, seal=seal, make_id=make_id)
        self._make_id, self._now = make_id, now

    async def add_endpoint(
        self,
        owner_id: str,
        url: str,
        *,
        by: str,
        description: str = "",
        policy: str = "standard",
        headers: tuple[tuple[str, str], ...] = (),
        limit: int = 10,
        rate: Rate | None = None,
        timeout: timedelta | None = None,
        overrides: Mapping[str, str] | None = None,
        tls: TlsIdentity | None = None,
        format: PayloadFormat = PayloadFormat.ENVELOPE,
        scheme: str = SCHEME,
        key: SenderKey | None = None,
        endpoint_id: UUID | None = None,
    ) -> tuple[Endpoint, SenderKey]:
        """Add an endpoint and return it with its signing key, which nothing reveals again.

        `endpoint_id` is one that is free, such as it had in another database; None makes one.
        `key` brings one along from elsewhere; None makes a new one of the scheme. Two endpoints may share a URL.
        """
        check_line("by", by, MAX_NAME, InvalidEndpoint)
        if not OWNER.fullmatch(owner_id):
            raise InvalidEndpoint(BAD_OWNER)
        await check_choice(self._store, policy)
        now = self._now()
        wanted = Endpoint(
            id=endpoint_id or self._make_id(),
            owner_id=owner_id,
            url=url,
            description=description,
            policy=policy,
            headers=headers,
            limit=limit,
            rate=rate,
            timeout=timeout,
            overrides=dict(overrides or {}),
            tls=tls,
            format=format,
            created_at=now,
            updated_at=now,
        )
        endpoint = self._checked(wanted)
        key = key or new_key(scheme)
        await self._store.add_endpoint(endpoint)
        key_id = await self._keys.add(endpoint, key, now)
        after = {**describe(endpoint), "key": str(key_id), "scheme": key.scheme}
        await self._store.record_change(Change.about(endpoint, "endpoint.added", by, now, after=after))
        return endpoint, key

    async def update_endpoint(self, owner_id: str, endpoint_id: UUID, changes: EndpointChanges, *, by: str) -> Endpoint:
        """Change an endpoint and return it; what is under way goes by the new values from its next try on."""
        if changes.policy is not None:
            await check_choice(self._store, changes.policy)
        endpoint = await self._standing(owner_id, endpoint_id, by)
        wanted = {each.name: getattr(changes, each.name) for each in fields(changes)}
        given = {name: value for name, value in wanted.items() if value is not None}
        if given.pop("no_timeout", None):
            given["timeout"] = None
        return await self._write(endpoint, self._checked(replace(endpoint, **given)), "endpoint.updated", by)

    async def disable(
        self, owner_id: str, endpoint_id: UUID, *, by: str, reason: str, keep_standing: bool = False
    ) -> Endpoint:
        """Disable an endpoint: its deliveries are parked until it is enabled.

        One that is disabled already takes the new reason, so that a person's word stands over a rule's; a
        rule passes `keep_standing` to leave the reason that stands.
        """
        check_line("reason", reason, MAX_LINE, InvalidEndpoint)
        endpoint = await self._standing(owner_id, endpoint_id, by)
        if keep_standing and endpoint.state is EndpointState.DISABLED:
            return endpoint
        wanted = replace(endpoint, state=EndpointState.DISABLED, state_reason=reason, state_by=by)
        return await self._write(endpoint, wanted, "endpoint.disabled", by)

    async def enable(
        self, owner_id: str, endpoint_id: UUID, *, by: str, only_if_disabled_by: str | None = None
    ) -> Endpoint:
        """Let the deliveries of an endpoint go out again; does nothing to one that is enabled.

        A probe passes `only_if_disabled_by`, so that it never enables what somebody else disabled meanwhile.
        """
        endpoint = await self._standing(owner_id, endpoint_id, by)
        is_theirs = only_if_disabled_by not in (None, endpoint.state_by)
        if endpoint.state is EndpointState.ENABLED or is_theirs:
            return endpoint
        wanted = replace(endpoint, state=EndpointState.ENABLED, state_reason=None, state_by=by)
        return await self._write(endpoint, wanted, "endpoint.enabled", by)

    async def remove(self, owner_id: str, endpoint_id: UUID, *, by: str, reason: str = "removed") -> Endpoint:
        """Remove an endpoint with its subscriptions, and let its keys expire; does nothing to a removed one.

        Its deliveries are for the caller to cancel, in the same transaction.
        """
        check_line("by", by, MAX_NAME, InvalidEndpoint)
        check_line("reason", reason, MAX_LINE, InvalidEndpoint)
        endpoint = await locked(self._store, owner_id, endpoint_id)
        if endpoint.state is EndpointState.REMOVED:
            return endpoint
        now = self._now()
        for gone in await self._store.remove_subscriptions_to(endpoint.id):
            change = Change.about(gone, "subscription.removed", by, now, before=describe(gone))
            await self._store.record_change(change)
        await self._store.expire_keys(endpoint.id, now)
        wanted = replace(endpoint, state=EndpointState.REMOVED, state_reason=reason, state_by=by)
        return await self._write(endpoint, wanted, "endpoint.removed", by)

    async def rotate_secret(
        self,
        owner_id: str,
        endpoint_id: UUID,
        *,
        by: str,
        overlap: timedelta = OVERLAP,
        scheme: str | None = None,
        key: SenderKey | None = None,
    ) -> SenderKey:
        """Give an endpoint a new signing key and return it, which nothing reveals again.

        The old keys sign too until `overlap` is over (at most 7 days), so that receivers change theirs at
        leisure; zero cuts a leaked key off at once. `scheme` None keeps that of the newest key; another one is
        signed beside the old until the overlap is over. With `MAX_KEYS` it is a Conflict.
        """
        endpoint = await self._standing(owner_id, endpoint_id, by)
        now = self._now()
        old = await self._keys.expire(endpoint, overlap, now)
        if scheme is None:
            scheme = old[0].scheme if old else SCHEME
        key = key or new_key(scheme)
        key_id = await self._keys.add(endpoint, key, now)
        before = {"keys": [str(key.id) for key in old]}
        after = {"key": str(key_id), "scheme": key.scheme, "overlap_s": overlap.total_seconds()}
        change = Change.about(endpoint, "endpoint.rotated", by, now, before=before, after=after)
        await self._store.record_change(change)
        return key

    async def _standing(self, owner_id: str, endpoint_id: UUID, by: str) -> Endpoint:
        check_line("by", by, MAX_NAME, InvalidEndpoint)
        return not_removed(await locked(self._store, owner_id, endpoint_id))

    def _checked(self, endpoint: Endpoint) -> Endpoint:
        if endpoint.description:
            check_line("description", endpoint.description, MAX_LINE, InvalidEndpoint)
        check_bounds(endpoint)
        check_headers(endpoint.headers)
        self._check_overrides(endpoint.overrides)
        url, tls = canonical_url(endpoint.url), endpoint.tls or None
        if tls is not None:
            if isinstance(endpoint.headers, UnopenedHeaders):
                raise InvalidEndpoint("what the endpoint has cannot be opened: give its headers anew as well")
            if not url.startswith("https:"):
                raise InvalidEndpoint("certificates go with an https URL: change it, or leave them out")
            self._check_tls(tls)
        return replace(endpoint, url=url, tls=tls, rate=endpoint.rate or None)

    async def _write(self, old: Endpoint, new: Endpoint, what: str, by: str) -> Endpoint:
        changed = [each.name for each in fields(new) if getattr(old, each.name) != getattr(new, each.name)]
        if not changed:
            return old
        now = self._now()
        new = replace(new, updated_at=now)
        await self._store.update_endpoint(new)
        before, after = ({name: describe(each)[name] for name in changed} for each in (old, new))
        await self._store.record_change(Change.about(new, what, by, now, before=before, after=after))
        return new


BAD_OWNER = "the owner's id is not usable: give 1 to 128 printable ASCII characters without spaces"


async def locked(store: Store, owner_id: str, endpoint_id: UUID) -> Endpoint:
    """Return one endpoint of the owner, locked, also a removed one.

    Raises:
        NotFound: the owner has no such endpoint.
    """
    # What cannot be an owner's id owns nothing; the store need not cope with it.
    endpoint = await store.lock_endpoint(owner_id, endpoint_id) if OWNER.fullmatch(owner_id) else None
    if endpoint is None:
        raise NotFound(no_endpoint(owner_id[:MAX_NAME], endpoint_id))
    return endpoint


def not_removed(endpoint: Endpoint) -> Endpoint:
    """Return the endpoint, unless it was removed.

    Raises:
        Conflict: it was.
    """
    if endpoint.state is EndpointState.REMOVED:
        raise Conflict(f"endpoint {endpoint.id} was removed: add a new one")
    return endpoint
