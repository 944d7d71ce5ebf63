"""Seal and open what endpoints keep secret: their signing keys and their credentials."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol
from uuid import UUID

from delivery.errors import ConfigurationError
from delivery.sealing import KeyRing, SealError, sealed_with
from signing import InvalidKeyError, PublicKey, SenderKey, parse_key
from subscriptions.model import Endpoint
from subscriptions.store import StoredKey


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedValue:
    """One value as it is kept, and the place that it is sealed for."""

    purpose: str
    owner_id: str
    endpoint_id: UUID
    key_id: UUID
    sealed: bytes = field(repr=False)


class SealedStore(Protocol):
    """All that is sealed at rest and still of use."""

    async def count(self) -> Mapping[str, int]:
        """Count the values by the id of the key that they are sealed with."""

    async def others(self, head: bytes, *, after: SealedValue | None, limit: int) -> Sequence[SealedValue]:
        """List values that do not begin with `head`; page on with `after` = the last one seen."""

    async def replace(self, values: Sequence[tuple[SealedValue, bytes]]) -> int:
        """Put other bytes in the place of values that still stand as they were read; returns of how many."""


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

    def read_again(self) -> None:
        """Forget the ring, so that it is opened anew when it is next needed."""
        self._ring = None

    def seal_key(self, secret: bytes, owner_id: str, endpoint_id: UUID, key_id: UUID) -> bytes:
        """Seal a signing secret in its place."""
        return self.ring.seal(secret, purpose="signing", owner_id=owner_id, endpoint_id=endpoint_id, key_id=key_id)

    def open_key(self, key: StoredKey, endpoint: Endpoint) -> SenderKey:
        """Open a signing key.

        Raises:
            SealError: its key is missing, it does not belong there, or this release knows no such kind of key.
        """
        value = SealedValue(
            purpose="signing", owner_id=endpoint.owner_id, endpoint_id=endpoint.id, key_id=key.id, sealed=key.sealed
        )
        opened = self.open(value)
        try:
            opened_key = parse_key(opened.decode("ascii"))
        except InvalidKeyError as error:
            raise SealError(f"signing key {key.id} opens, but this release cannot use it: {error}") from None
        if isinstance(opened_key, PublicKey):
            raise SealError(f"signing key {key.id} opens, but it is a public one: rotate the endpoint's keys")
        return opened_key

    def seal_credentials(self, plaintext: bytes, owner_id: str, endpoint_id: UUID) -> bytes:
        """Seal an endpoint's headers and TLS identity."""
        return self.ring.seal(
            plaintext, purpose="credentials", owner_id=owner_id, endpoint_id=endpoint_id, key_id=endpoint_id
        )

    def open_credentials(self, sealed: bytes, owner_id: str, endpoint_id: UUID) -> bytes:
        """Open an endpoint's headers and TLS identity.

        Raises:
            SealError: their key is missing, or they do not belong there.
        """
        return self.open(
            SealedValue(
                purpose="credentials", owner_id=owner_id, endpoint_id=endpoint_id, key_id=endpoint_id, sealed=sealed
            )
        )

    def open(self, value: SealedValue) -> bytes:
        """Open a value; one that is sealed with an unknown key has the ring read again, for the key may be new.

        Raises:
            SealError: its key is missing, or it does not belong there.
        """
        if sealed_with(value.sealed) not in self.ring.key_ids:
            self.read_again()
        return self.ring.open(
            value.sealed,
            purpose=value.purpose,
            owner_id=value.owner_id,
            endpoint_id=value.endpoint_id,
            key_id=value.key_id,
        )

    def seal_anew(self, value: SealedValue) -> bytes:
        """Seal a value with the key that seals now.

        Raises:
            SealError: its key is missing, or it does not belong there.
        """
        return self.ring.seal(
            self.open(value),
            purpose=value.purpose,
            owner_id=value.owner_id,
            endpoint_id=value.endpoint_id,
            key_id=value.key_id,
        )

    async def check(self, store: SealedStore) -> None:
        """See that the ring opens everything that is kept, before anything is sealed with it.

        Raises:
            ConfigurationError: a key is missing; its secrets could not be used beside new ones.
        """
        known = self.ring.key_ids
        for key_id, number in (await store.count()).items():
            if key_id not in known:
                raise ConfigurationError(
                    f"{number} secrets here are sealed with key {key_id}, which is missing: add it to TIDINGS_KEYS"
                    " (or to the key file of the state folder), behind the key that seals from now on"
                )
