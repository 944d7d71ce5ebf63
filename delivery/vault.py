"""Seal and open what endpoints keep secret: their signing keys and their headers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from uuid import UUID

from delivery.errors import ConfigurationError
from delivery.sealing import KeyRing
from signing import SigningSecret
from subscriptions.model import Endpoint
from subscriptions.store import StoredKey


class Vault:
    """One key ring, opened when it is first needed: looking at things needs no key."""

    def __init__(self, open_ring: Callable[[], KeyRing]) -> None:
        self._open_ring = open_ring
        self._ring: KeyRing | None = None

    @property
    def ring(self) -> KeyRing:
        """Return the ring.

        Raises:
            ConfigurationError: there are no keys, or one of them is none.
        """
        if self._ring is None:
            self._ring = self._open_ring()
        return self._ring

    def seal_key(self, secret: bytes, owner_id: str, endpoint_id: UUID, key_id: UUID) -> bytes:
        """Seal a signing secret in its place."""
        return self.ring.seal(secret, purpose="signing", owner_id=owner_id, endpoint_id=endpoint_id, key_id=key_id)

    def open_key(self, key: StoredKey, endpoint: Endpoint) -> SigningSecret:
        """Open a signing secret.

        Raises:
            SealError: its key is missing, or it does not belong there.
        """
        opened = self.ring.open(
            key.sealed, purpose="signing", owner_id=endpoint.owner_id, endpoint_id=endpoint.id, key_id=key.id
        )
        return SigningSecret.parse(opened.decode("ascii"))

    def seal_headers(self, plaintext: bytes, owner_id: str, endpoint_id: UUID) -> bytes:
        """Seal an endpoint's headers."""
        return self.ring.seal(
            plaintext, purpose="headers", owner_id=owner_id, endpoint_id=endpoint_id, key_id=endpoint_id
        )

    def open_headers(self, sealed: bytes, owner_id: str, endpoint_id: UUID) -> bytes:
        """Open an endpoint's headers.

        Raises:
            SealError: their key is missing, or they do not belong there.
        """
        return self.ring.open(sealed, purpose="headers", owner_id=owner_id, endpoint_id=endpoint_id, key_id=endpoint_id)

    async def check(self, sealed: Callable[[], Awaitable[Mapping[str, int]]]) -> None:
        """See that the ring opens everything that is `sealed`, before anything is sealed with it.

        Raises:
            ConfigurationError: a key is missing; its secrets could not be used beside new ones.
        """
        known = self.ring.key_ids
        for key_id, number in (await sealed()).items():
            if key_id not in known:
                raise ConfigurationError(
                    f"{number} secrets here are sealed with key {key_id}, which is missing: add it to TIDINGS_KEYS"
                    " (or to the key file of the state folder), behind the key that seals from now on"
                )
