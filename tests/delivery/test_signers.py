"""Which keys a worker opens, and how long it keeps what signs with them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID, uuid4

import pytest

from delivery.channels import Message, Reply
from delivery.deliveries import Parcel
from delivery.events import Event
from delivery.health import Streak
from delivery.worker import DeliverWorker
from signing import SigningSecret, WebhookVerifier
from subscriptions.model import Endpoint, Exposure
from subscriptions.policies import STANDARD
from subscriptions.store import StoredKey


class Workshop:
    """A worker whose keys are opened here, and that sends into nothing."""

    def __init__(self) -> None:
        self.opened: list[UUID] = []
        self.secrets: dict[UUID, SigningSecret] = {}
        self.sent: list[Message] = []
        self.worker = DeliverWorker(
            self,
            self,
            self._open_key,
            disable=self._unasked,
            pause=self._unasked,
            health=self,
            user_agent="Tidings/test",
        )

    def parcel(self) -> Parcel:
        """An event on its way to a new endpoint."""
        now = datetime.now(UTC)
        endpoint = Endpoint(id=uuid4(), owner_id="acme", url="https://example.com/", created_at=now, updated_at=now)
        event = Event(
            id=uuid4(), owner_id="acme", type="a.b", subject=None, occurred_at=now, data="{}", traceparent=None
        )
        keys = (self.key(endpoint.id),)
        return Parcel(
            event=event, exposure=Exposure.WEBHOOK, endpoint=endpoint, policy=STANDARD, keys=keys, loaded_at=now
        )

    def key(self, endpoint_id: UUID) -> StoredKey:
        """A new key."""
        key = StoredKey(id=uuid4(), endpoint_id=endpoint_id, sealed=b"", created_at=datetime.now(UTC))
        self.secrets[key.id] = SigningSecret.generate()
        return key

    def verifies(self, key: StoredKey) -> bool:
        """Say whether the last message was signed with a key."""
        message = self.sent[-1]
        WebhookVerifier(self.secrets[key.id]).verify(message.body, message.headers)
        return True

    def _open_key(self, key: StoredKey, _: Endpoint) -> SigningSecret:
        self.opened.append(key.id)
        return self.secrets[key.id]

    async def load(self, event_id: UUID, endpoint_id: UUID) -> Parcel | None:
        raise AssertionError("the parcels are handed in")

    async def send(self, message: Message, /) -> Reply:
        self.sent.append(message)
        return Reply(status=200)

    async def aclose(self) -> None:
        return None

    async def read(self, endpoint_id: UUID) -> Streak | None:
        raise AssertionError("nobody asks how an endpoint does")

    async def failed(self, endpoint_id: UUID, code: str) -> None:
        raise AssertionError("it was accepted")

    async def recovered(self, endpoint_id: UUID) -> None:
        raise AssertionError("it did not fail before")

    async def _unasked(self, *_: object) -> None:
        raise AssertionError("it was accepted")


async def test_keys_are_opened_once_while_they_stand() -> None:
    shop = Workshop()
    parcel = shop.parcel()
    for _ in range(3):
        await shop.worker.attempt(parcel)
    assert shop.opened == [parcel.keys[0].id]


async def test_other_keys_of_an_endpoint_sign_from_its_next_delivery_on() -> None:
    shop = Workshop()
    old = shop.parcel()
    await shop.worker.attempt(old)
    new = replace(old, keys=(shop.key(old.endpoint.id),))
    await shop.worker.attempt(new)
    assert shop.verifies(new.keys[0])
    assert shop.opened == [old.keys[0].id, new.keys[0].id]


async def test_no_more_are_kept_than_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("delivery.worker.KEPT_OPEN", 3)
    shop = Workshop()
    parcels = [shop.parcel() for _ in range(10)]
    for parcel in parcels:
        await shop.worker.attempt(parcel)
        assert shop.verifies(parcel.keys[0])
    assert len(shop.worker._signers) <= 3
