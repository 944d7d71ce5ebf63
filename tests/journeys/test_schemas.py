"""From a schema to what is refused where it is recorded, and what is set aside where it came by SQL."""

from __future__ import annotations

import json

import pytest

from delivery import recorder
from delivery.errors import InvalidEvent
from delivery.events import EventFilter
from subscriptions.model import Checks, Exposure

from .patience import eventually
from .platform import OWNER, TYPE, Platform
from .receivers import Receiver

SCHEMA = '{"type": "object", "required": ["amount"]}'
RECORD = "SELECT tidings.record(%s, %s, NULL, %s) AS id"


async def test_what_does_not_fit_never_leaves_until_a_person_says_so(platform: Platform, receiver: Receiver) -> None:
    await platform.endpoint("/a")
    async with platform.working() as app:
        await app.event_types.declare(TYPE, by="test", exposure=Exposure.WEBHOOK, schema=SCHEMA, change=True)
        async with app.transaction() as tx:
            with pytest.raises(InvalidEvent, match='"amount" is a required property'):
                await recorder().with_(tx).record(OWNER, TYPE, None, {})
            await recorder().with_(tx).record(OWNER, TYPE, None, {"amount": 1})
        [row] = await platform.sql(RECORD, OWNER, TYPE, "{}")

        async def set_aside() -> bool:
            found = await app.events.list(EventFilter(owner_id=OWNER, poisoned=True))
            return [event.id for event, _ in found] == [row["id"]]

        await eventually(set_aside)
        [(_, relaying)] = await app.events.list(EventFilter(owner_id=OWNER, poisoned=True))
        assert relaying is not None
        assert '"amount" is a required property' in (relaying.error or "")
        await eventually(lambda: len(receiver.requests) == 1)
        await app.events.requeue(OWNER, row["id"], unchecked=True)
        await platform.ended()
        await app.event_types.declare(TYPE, by="test", exposure=Exposure.WEBHOOK, checks=Checks.WARN, change=True)
        async with app.transaction() as tx:
            await recorder().with_(tx).record(OWNER, TYPE, None, {"warned": True})
        await platform.ended()
    sent = sorted(json.dumps(json.loads(request.body)["data"]) for request in receiver.requests)
    assert sent == ['{"amount": 1}', '{"warned": true}', "{}"]
