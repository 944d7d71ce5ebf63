"""A large replay that is paused, and whose process is killed again and again: each delivery is put back just once."""

from __future__ import annotations

import pytest

from delivery.replays import Replay, ReplayFilter, ReplayState

from .patience import eventually
from .platform import BRISK, OWNER, Platform
from .receivers import Receiver

#: As if the receiver had refused them all.
DISCARD_ALL = """
WITH gone AS (DELETE FROM tidings.job WHERE kind = 'webhook.deliver' RETURNING *)
INSERT INTO tidings.job_done (id, kind, lane, args, state, priority, run_at, attempt, spent, max_attempts, reason, code,
                              queued_at, created_at)
SELECT id, kind, lane, args, 'discarded', priority, run_at, 1, 1, max_attempts, 'http_400', 'http_400', queued_at,
       created_at
FROM gone
"""
DELIVERED = "SELECT count(*) AS n FROM ours.attempt WHERE outcome = 'delivered'"
DELIVERED_TWICE = """
SELECT count(*) AS n FROM (
  SELECT job_id FROM ours.attempt WHERE outcome = 'delivered' GROUP BY job_id HAVING count(*) > 1
) AS twice
"""


@pytest.mark.parametrize(
    ("number", "pace"),
    [
        pytest.param(3_000, 300.0, id="few"),
        pytest.param(100_000, 4_000.0, id="many", marks=[pytest.mark.long, pytest.mark.timeout(900)]),
    ],
)
async def test_a_replay_whose_process_is_killed_puts_each_delivery_back_once(
    platform: Platform, receiver: Receiver, number: int, pace: float
) -> None:
    await platform.endpoint("/a", limit=100)
    events = {str(event) for event in await platform.record(number)}
    async with platform.working(worker=False):
        await platform.relayed(600)
    await platform.sql(DISCARD_ALL)
    app = platform.app
    outlook = await app.replays.count(ReplayFilter(owner_id=OWNER))
    assert outlook.tally.put_back == number
    replay = await app.replays.start(outlook, by="ann", reason="repaired", pace=pace)

    async def look() -> Replay:
        return await app.replays.get(OWNER, replay.id)

    async def reached(share: float) -> None:
        async def far_enough() -> bool:
            return (await look()).tally.put_back >= share * number

        await eventually(far_enough, 300)

    first = await platform.process(**BRISK)
    await reached(0.1)
    paused = await app.replays.pause(OWNER, replay.id, by="bob")
    await first.kill()
    second = await platform.process(**BRISK)
    assert (await look()).tally == paused.tally, "it went on although it was paused"
    await app.replays.resume(OWNER, replay.id, by="bob")
    for share in (0.4, 0.7):
        await reached(share)
        await second.kill()
        second = await platform.process(**BRISK)
    await reached(1.0)
    assert await platform.ended(600) == {"completed": number}

    async def completed() -> bool:
        return (await look()).state is ReplayState.COMPLETED

    await eventually(completed)
    found = await look()
    assert (found.tally.seen, found.tally.put_back, dict(found.tally.skipped)) == (number, number, {})
    assert await platform.number(DELIVERED) == number
    assert await platform.number(DELIVERED_TWICE) == 0
    assert receiver.count.keys() == {("/a", event) for event in events}
    lost = await platform.number("SELECT count(*) FROM ours.attempt WHERE outcome = 'lost'")
    assert receiver.duplicates <= lost, "something came twice that no killed process had in flight"
