"""Replays of small batches, moved on by hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from delivery.adapters.postgres.replays import PostgresReplays
from delivery.replays import NewReplay, Replay, ReplayFilter, ReplayState, Step
from tests.delivery.past import Past


@dataclass
class Batches:
    """Replays of small batches, moved on by hand."""

    past: Past
    replays: PostgresReplays

    async def start(self, *, pace: float | None = None, **which: Any) -> Replay:
        """Start one."""
        before, wanted = await self.replays.now(), ReplayFilter(**which)
        tally = await self.replays.count(wanted, before=before)
        new = NewReplay(which=wanted, pace=pace, by="ann", reason="repaired", before=before, total=tally.seen)
        return await self.replays.start(new)

    async def step(self, replay: Replay) -> Step:
        """Move it on by a batch."""
        return await self.replays.step(replay.id, replay.run)

    async def run(self, **which: Any) -> Replay:
        """Start one and move it to its end; what it did is what was counted."""
        before, waiting = await self.replays.now(), self.past.waiting()
        counted = await self.replays.count(ReplayFilter(**which), before=before)
        assert self.past.waiting() == waiting, "counting changed something"
        started = await self.start(**which)
        while (await self.step(started)).goes_on:
            pass
        ended = await self.replays.get(None, started.id)
        assert ended.state is ReplayState.COMPLETED
        assert (ended.tally.put_back, dict(ended.tally.skipped)) == (counted.put_back, dict(counted.skipped))
        assert ended.total == ended.tally.seen
        return ended
