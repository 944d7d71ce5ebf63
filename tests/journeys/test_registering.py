"""Endpoints that are registered while their name server takes its time."""

from __future__ import annotations

import pytest

from delivery.adapters.http.resolver import SystemResolver
from subscriptions.errors import InvalidEndpoint
from subscriptions.model import EndpointChanges

from .patience import eventually
from .platform import OWNER, Platform

_IN_TRANSACTION = """
SELECT count(*) AS n FROM pg_stat_activity
WHERE datname = current_database() AND xact_start IS NOT NULL AND pid <> pg_backend_pid()
  AND backend_type = 'client backend'
"""


async def none_in_transaction(platform: Platform) -> bool:
    return await platform.number(_IN_TRANSACTION) == 0


async def test_no_transaction_waits_for_a_name_server(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    resolve = SystemResolver.resolve

    async def watched(self: SystemResolver, host: str, owner_id: str) -> list[str]:
        await eventually(lambda: none_in_transaction(platform), 10)  # a pool may be opening a connection just now
        looked.append(host)
        return await resolve(self, "localhost", owner_id)

    monkeypatch.setattr(SystemResolver, "resolve", watched)
    endpoint, _ = await platform.app.endpoints.add(OWNER, "http://New.example.com/in", by="test")
    await platform.app.endpoints.update(
        OWNER, endpoint.id, EndpointChanges(url="http://other.example.com/in"), by="test"
    )
    with pytest.raises(InvalidEndpoint, match="port 99999"):
        await platform.app.endpoints.add(OWNER, "http://localhost.example.com:99999/in", by="test")
    assert looked == ["new.example.com", "other.example.com"]
