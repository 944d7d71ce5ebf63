"""The rules of registering, changing, rotating, disabling, subscribing and removing, over the store port.

Everything happens in the transaction that the store is bound to; whoever began it rolls it back on an error.
Clock, ids and sealing are handed in. A repeat that changes nothing writes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import fields, replace
from datetime import datetime, timedelta
from uuid import UUID

from signing import SenderKey
from subscriptions.errors import (
    Conflict,
    InvalidEndpoint,
    InvalidSubscription,
    InvalidType,
    NotFound,
    no_endpoint,
)
from subscriptions.headers import check_headers
from subscriptions.keys import OVERLAP, SCHEME, EndpointKeys, Seal, new_key
from subscriptions.lines import MAX_LINE, MAX_NAME, check_line
from subscriptions.match import check_declarable, check_wanted, parse_patterns
from subscriptions.model import (
    Endpoint,
    EndpointChanges,
    EndpointState,
    EndpointTarget,
    EventType,
    Exposure,
    HandlerTarget,
    PayloadFormat,
    Subscription,
    Target,
    TlsIdentity,
    UnopenedHeaders,
    describe,
)
from subscriptions.policies import check_timeout
from subscriptions.policy_registry import check_choice
from subscriptions.store import Change, Store
from subscriptions.urls import canonical_url

#: Deliveries that an endpoint may have in flight at once.
MAX_LIMIT = 1000

_OWNER = re.compile(r"[!-~]{1,128}")
_HANDLER = re.compile(r"[a-z0-9_]+(?:\.[a-z0-9_]+)*")


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
        if not _OWNER.fullmatch(owner_id):
            raise InvalidEndpoint(_BAD_OWNER)
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
        endpoint = await _locked(self._store, owner_id, endpoint_id)
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
        return _not_removed(await _locked(self._store, owner_id, endpoint_id))

    def _checked(self, endpoint: Endpoint) -> Endpoint:
        if endpoint.description:
            check_line("description", endpoint.description, MAX_LINE, InvalidEndpoint)
        if not 1 <= endpoint.limit <= MAX_LIMIT:
            raise InvalidEndpoint(f"a limit of {endpoint.limit} is not allowed: give 1 to {MAX_LIMIT}")
        if endpoint.timeout is not None:
            check_timeout(endpoint.timeout, InvalidEndpoint)
        check_headers(endpoint.headers)
        self._check_overrides(endpoint.overrides)
        url, tls = canonical_url(endpoint.url), endpoint.tls or None
        if tls is not None:
            if isinstance(endpoint.headers, UnopenedHeaders):
                raise InvalidEndpoint("what the endpoint has cannot be opened: give its headers anew as well")
            if not url.startswith("https:"):
                raise InvalidEndpoint("certificates go with an https URL: change it, or leave them out")
            self._check_tls(tls)
        return replace(endpoint, url=url, tls=tls)

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


class SubscriptionRegistry:
    """Declare types of events, and subscribe endpoints and handlers to them."""

    def __init__(self, store: Store, *, make_id: Callable[[], UUID], now: Callable[[], datetime]) -> None:
        self._store, self._make_id, self._now = store, make_id, now

    async def declare_type(self, event_type: EventType, *, by: str, change: bool = False) -> EventType:
        """Declare a type of event; does nothing when it stands like this already.

        `change` lets exposure and description of a declared type be altered.

        Raises:
            InvalidType: no type, one of the platform's own, or a description that is not one short line.
            Conflict: it stands otherwise, and `change` was not asked for.
        """
        check_line("by", by, MAX_NAME, InvalidType)
        name = check_declarable(event_type.type)
        if event_type.description:
            check_line("description", event_type.description, MAX_LINE, InvalidType)
        standing = await self._store.declare_type(event_type)
        if standing == event_type:
            return event_type
        if standing and not change:
            about = f" ({standing.description})" if standing.description else ""
            raise Conflict(f"{name!r} is declared as {standing.exposure}{about}: alter it with --change")
        what, before = ("type.updated", describe(standing)) if standing else ("type.declared", {})
        if standing:
            await self._store.update_type(event_type)
        after = describe(event_type)
        await self._store.record_change(Change.about(event_type, what, by, self._now(), before=before, after=after))
        return event_type

    async def subscribe(
        self,
        owner_id: str,
        name: str,
        patterns: Collection[str],
        endpoint_id: UUID,
        *,
        by: str,
        future: bool = False,
    ) -> Subscription:
        """Send the owner's events of matching types to its endpoint, from the moment this commits.

        Patterns and subscriptions may overlap: an endpoint gets each event once. A repeat of the whole
        subscription returns the one that stands. `future` also takes patterns that no declared type matches.

        Raises:
            InvalidSubscription: a bad name, or no patterns or too many.
            InvalidPattern: one of the patterns is none.
            UnknownType: one of them matches no declared type that may leave, and `future` is off.
            NotFound: the owner has no such endpoint.
            Conflict: the endpoint was removed, or the owner has another subscription of this name.
        """
        parsed = parse_patterns(patterns)
        endpoint = _not_removed(await _locked(self._store, owner_id, endpoint_id))
        if not future:
            types = await self._store.types()
            usable = [each.type for each in types if each.exposure is Exposure.WEBHOOK]
            check_wanted(parsed, usable, [each.type for each in types])
        texts = tuple(pattern.text for pattern in parsed)
        return await self._add(owner_id, name, texts, EndpointTarget(endpoint_id=endpoint.id), by)

    async def subscribe_handler(
        self,
        name: str,
        patterns: Collection[str],
        handler: str,
        *,
        by: str,
        owner_id: str | None = None,
        coalesce: bool = False,
        future: bool = False,
    ) -> Subscription:
        """Run the handler `handler.<handler>` for events of matching types, internal ones too.

        `owner_id` None is for the events of every owner. `coalesce` runs it once a subject for events that
        are relayed together, with the latest; where several subscriptions want an event, only if all say so.
        Repeats and errors are those of `subscribe`, but for the endpoint's.
        """
        if owner_id is not None and not _OWNER.fullmatch(owner_id):
            raise InvalidSubscription(_BAD_OWNER)
        if len(handler) > MAX_NAME or not _HANDLER.fullmatch(handler):
            raise InvalidSubscription(f"{handler[:60]!r} is no handler's name: use a-z, 0-9, _ and dots between")
        parsed = parse_patterns(patterns)
        if not future:
            check_wanted(parsed, [each.type for each in await self._store.types()])
        target = HandlerTarget(kind=f"handler.{handler}", coalesce=coalesce)
        return await self._add(owner_id, name, tuple(pattern.text for pattern in parsed), target, by)

    async def unsubscribe(self, owner_id: str | None, name: str, *, by: str) -> Subscription:
        """Remove a subscription; deliveries that stand already are still made.

        Raises:
            NotFound: the owner has no subscription of this name.
        """
        check_line("by", by, MAX_NAME, InvalidSubscription)
        check_line("name", name, MAX_NAME, InvalidSubscription)
        is_owner = owner_id is None or _OWNER.fullmatch(owner_id)
        gone = await self._store.remove_subscription(owner_id, name) if is_owner else None
        if gone is None:
            whose = "the platform" if owner_id is None else f"owner {owner_id[:MAX_NAME]!r}"
            raise NotFound(f"{whose} has no subscription {name!r}: `tidings subscriptions list` shows an owner's")
        change = Change.about(gone, "subscription.removed", by, self._now(), before=describe(gone))
        await self._store.record_change(change)
        return gone

    async def _add(
        self, owner_id: str | None, name: str, patterns: tuple[str, ...], target: Target, by: str
    ) -> Subscription:
        check_line("by", by, MAX_NAME, InvalidSubscription)
        check_line("name", name, MAX_NAME, InvalidSubscription)
        now = self._now()
        wanted = Subscription(
            id=self._make_id(), owner_id=owner_id, name=name, patterns=patterns, target=target, created_at=now
        )
        if await self._store.add_subscription(wanted):
            change = Change.about(wanted, "subscription.added", by, now, after=describe(wanted))
            await self._store.record_change(change)
            return wanted
        standing = await self._store.subscription(owner_id, name)
        if standing and (set(standing.patterns), standing.target) == (set(patterns), target):
            return standing
        raise Conflict(f"the name {name!r} is taken by another subscription: choose another, or remove that one")


_BAD_OWNER = "the owner's id is not usable: give 1 to 128 printable ASCII characters without spaces"


async def _locked(store: Store, owner_id: str, endpoint_id: UUID) -> Endpoint:
    # What cannot be an owner's id owns nothing; the store need not cope with it.
    endpoint = await store.lock_endpoint(owner_id, endpoint_id) if _OWNER.fullmatch(owner_id) else None
    if endpoint is None:
        raise NotFound(no_endpoint(owner_id[:MAX_NAME], endpoint_id))
    return endpoint


def _not_removed(endpoint: Endpoint) -> Endpoint:
    if endpoint.state is EndpointState.REMOVED:
        raise Conflict(f"endpoint {endpoint.id} was removed: add a new one")
    return endpoint
