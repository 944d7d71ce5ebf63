"""What is sealed opens as it was, and what opens but is no key is our own trouble."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import uuid4

import pytest

from delivery.sealing import KeyEncryptionKey, KeyRing, SealError
from delivery.vault import Vault
from signing import SigningKey, SigningSecret
from subscriptions.model import Endpoint
from subscriptions.store import StoredKey

NOW = datetime(2026, 7, 1, tzinfo=UTC)


@pytest.fixture
def vault() -> Vault:
    ring = KeyRing([KeyEncryptionKey.generate("a")])
    return Vault(lambda: ring)


@pytest.fixture
def endpoint() -> Endpoint:
    return Endpoint(id=uuid4(), owner_id="acme", url="https://example.com/", created_at=NOW, updated_at=NOW)


def stored(vault: Vault, text: str, endpoint: Endpoint) -> StoredKey:
    key_id = uuid4()
    sealed = vault.seal_key(text.encode(), endpoint.owner_id, endpoint.id, key_id)
    return StoredKey(id=key_id, endpoint_id=endpoint.id, sealed=sealed, created_at=NOW)


@pytest.mark.parametrize("kind", [SigningSecret, SigningKey])
def test_a_key_of_either_scheme_opens_as_it_was(vault: Vault, endpoint: Endpoint, kind: type):
    key = kind.generate()
    assert vault.open_key(stored(vault, key.reveal(), endpoint), endpoint) == key


@pytest.mark.parametrize("text", ["whxyz_of_a_later_release", SigningKey(b"k" * 32).public_key.reveal()])
def test_what_opens_and_is_no_key_that_signs_is_our_own_trouble(vault: Vault, endpoint: Endpoint, text: str):
    with pytest.raises(SealError, match="opens, but") as caught:
        vault.open_key(stored(vault, text, endpoint), endpoint)
    assert text not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_key_does_not_open_under_another_endpoint(vault: Vault, endpoint: Endpoint):
    moved = stored(vault, SigningKey.generate().reveal(), endpoint)
    other = Endpoint(id=uuid4(), owner_id="acme", url=endpoint.url, created_at=NOW, updated_at=NOW)
    assert vault.open_key(moved, endpoint)
    with pytest.raises(SealError):
        vault.open_key(moved, other)
