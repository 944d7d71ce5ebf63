"""Keys: what seals the signing secrets and the headers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from delivery.sealing import SealError
from delivery.vault import SealedStore, SealedValue, Vault

#: Values that are sealed anew in one transaction.
BATCH = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyUse:
    """A key-encryption key, and what hangs on it."""

    id: str
    seals: bool  #: new values are sealed with this one
    is_there: bool  #: False = values are sealed with it, and it is missing
    values: int  #: of use that are sealed with it


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotation:
    """What came of sealing everything anew."""

    sealed: int
    left: int  #: do not open, or were changed meanwhile
    why: str | None  #: of one that does not open


class Keys:
    """Look at the key-encryption keys, and move everything to the newest."""

    def __init__(self, vault: Vault, store: SealedStore, make: Callable[[], str]) -> None:
        self._vault, self._store, self._make = vault, store, make

    def make(self) -> str:
        """Put a new key in front of those in the state folder; returns its id.

        Raises:
            ConfigurationError: the keys come from elsewhere, or the file cannot be written.
        """
        key_id = self._make()
        self._vault.read_again()
        return key_id

    async def list(self) -> Sequence[KeyUse]:
        """List the keys of the ring in order, then those that are missing.

        Raises:
            ConfigurationError: there are no keys, or one of them is none.
        """
        counts, known = await self._store.count(), self._vault.ring.key_ids
        missing = sorted(set(counts) - set(known))
        return [
            KeyUse(id=key_id, seals=n == 0, is_there=n < len(known), values=counts.get(key_id, 0))
            for n, key_id in enumerate([*known, *missing])
        ]

    async def rotate(self, *, told: Callable[[int], None] = lambda _: None) -> Rotation:
        """Seal everything that another key sealed with the first one, in batches, while others work.

        `told` is called with the number of each batch. Run again, it goes on where the tables stand. What does not
        open is left as it is.

        Raises:
            ConfigurationError: there are no keys, or one of them is none.
        """
        tally: Counter[str] = Counter()
        why: str | None = None
        last: SealedValue | None = None
        while values := await self._store.others(self._vault.ring.head, after=last, limit=BATCH):
            anew: list[tuple[SealedValue, bytes]] = []
            for value in values:
                try:
                    anew.append((value, self._vault.seal_anew(value)))
                except SealError as error:
                    why = str(error)
            done = await self._store.replace(anew)
            tally += Counter(sealed=done, left=len(values) - done)
            told(len(values))
            last = values[-1]
        return Rotation(sealed=tally["sealed"], left=tally["left"], why=why)
