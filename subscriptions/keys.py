"""The rules of an endpoint's signing keys: their scheme, how many there are, and how long old ones go on signing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from signing import SenderKey, SigningKey, SigningSecret
from subscriptions.errors import Conflict, InvalidEndpoint, written
from subscriptions.model import Endpoint
from subscriptions.store import Store, StoredKey

#: How long the old keys go on signing after a rotation, unless said otherwise, and at most.
OVERLAP, MAX_OVERLAP = timedelta(hours=24), timedelta(days=7)
#: Keys of one endpoint that sign at once; each is one more signature in every delivery.
MAX_KEYS = 10

#: Schemes of Standard Webhooks, and what makes a key for each.
SCHEMES: dict[str, Callable[[], SenderKey]] = {
    SigningSecret.scheme: SigningSecret.generate,
    SigningKey.scheme: SigningKey.generate,
}
SCHEME = SigningSecret.scheme

#: Seal the text form of a key: (text, owner_id, endpoint_id, key_id) -> what may be stored.
Seal = Callable[[bytes, str, UUID, UUID], bytes]


class EndpointKeys:
    """Add and rotate the keys of endpoints, which the caller has locked."""

    def __init__(self, store: Store, *, seal: Seal, make_id: Callable[[], UUID]) -> None:
        self._store, self._seal, self._make_id = store, seal, make_id

    async def add(self, endpoint: Endpoint, key: SenderKey, now: datetime) -> UUID:
        """Keep a key, sealed, and return its id."""
        key_id = self._make_id()
        sealed = self._seal(key.reveal().encode("ascii"), endpoint.owner_id, endpoint.id, key_id)
        stored = StoredKey(id=key_id, endpoint_id=endpoint.id, scheme=key.scheme, sealed=sealed, created_at=now)
        await self._store.add_key(stored)
        return key_id

    async def expire(self, endpoint: Endpoint, overlap: timedelta, now: datetime) -> Sequence[StoredKey]:
        """Let the keys that sign now end after `overlap`, to make room for a new one, and return them.

        Raises:
            InvalidEndpoint: the overlap is not 0 to 7 days.
            Conflict: there are as many as there may be.
        """
        if not timedelta(0) <= overlap <= MAX_OVERLAP:
            raise InvalidEndpoint(f"an overlap of {written(overlap)} is not allowed: give 0 to {MAX_OVERLAP.days}d")
        old = await self._store.keys(endpoint.id, now)
        if overlap and len(old) >= MAX_KEYS:
            raise Conflict(
                f"endpoint {endpoint.id} signs with {len(old)} keys, the most there may be:"
                " wait until one expires, or rotate without overlap"
            )
        await self._store.expire_keys(endpoint.id, now + overlap)
        return old


def new_key(scheme: str) -> SenderKey:
    """Make a key of a scheme.

    Raises:
        InvalidEndpoint: there is no such scheme.
    """
    make = SCHEMES.get(scheme)
    if make is None:
        raise InvalidEndpoint(f"no scheme {scheme[:60]!r}: use one of {', '.join(SCHEMES)}")
    return make()
