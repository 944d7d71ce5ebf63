"""Which lane's turn it is: the owner's memory of lanes, without I/O.

A process owns shards of lanes alone, so what it remembers here is the truth: which lanes have work, how many of their
jobs are in flight, which are paused. Limits are exact, pausing is free, and turns rotate over owners, then lanes; a
lane that wakes goes first. Times are of one monotonic clock that the caller reads.

Cautious lanes call strangers, one lane a stranger. Two things protect the rest from them. A window bounds what one has
in flight: it grows with every try that does not hang, and one that hangs makes it 1. And a lane that has not answered
quickly for a while *drags*: all of these share half of a worker's slots.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from delivery.adapters.postgres.turns import Alarms, Turns

#: Below every `run_at`: look at the whole lane.
FLOOR = datetime(1, 1, 1, tzinfo=UTC)
#: A claim looks this far below the last row that it took, for what committed late.
FLOOR_SLACK = timedelta(seconds=1)
#: What a cautious lane may have in flight at first.
START_WINDOW = 2
#: Quick tries in a row after which a cautious lane no longer counts as one that drags.
PROVEN_AFTER = 5
#: Of a lane's eight classes, the one for a person's retry, which a pause does not hold.
FORCED = 0


@dataclass(slots=True)
class Lane:
    """One lane, as its row says, and what is in flight."""

    id: int
    owner_id: str | None
    limit: int
    shard: int
    on: bool = True
    paused_until: float = 0.0
    cautious: bool = False
    in_flight: int = 0
    window: int = START_WINDOW  #: of a cautious lane: how many at once it has earned
    streak: int = 0  #: quick tries in a row
    #: class -> look no lower than this; a class is here while it may have due work
    ready: dict[int, datetime] = field(default_factory=dict)
    floors: dict[int, datetime] = field(default_factory=dict)
    asked: bool = False  #: a claim asks for it right now
    wakes: int = 0  #: raised by each wake-up, so that an answer older than the wake-up does not undo it

    @property
    def room(self) -> int:
        """Return how many more may start."""
        most = min(self.limit, self.window) if self.cautious else self.limit
        return max(most - self.in_flight, 0)

    @property
    def drags(self) -> bool:
        """Say whether the lane may keep a worker waiting."""
        return self.cautious and self.streak < PROVEN_AFTER

    def runnable(self, now: float) -> int | None:
        """Return the class that is next, or None where nothing may start."""
        if not self.ready or not self.on or not self.room:
            return None
        first = min(self.ready)
        return first if first == FORCED or self.paused_until <= now else None


@dataclass(frozen=True, slots=True)
class Ask:
    """What one claim asks of one lane."""

    slot: int  #: lane id * 8 + class
    slots: int
    floor: datetime
    wakes: int
    shard: int


class LaneBook:
    """The lanes of the shards that this process owns."""

    def __init__(self) -> None:
        self._lanes: dict[int, Lane] = {}
        self._flying: set[int] = set()  # lanes with jobs in flight
        self._turns = {True: Turns(), False: Turns()}  # by whether the lane drags
        self._alarms = Alarms()

    def __contains__(self, lane_id: int) -> bool:
        return lane_id in self._lanes

    def __iter__(self) -> Iterator[int]:
        return iter(list(self._lanes))

    def get(self, lane_id: int) -> Lane | None:
        """Return a lane that is known here."""
        return self._lanes.get(lane_id)

    def learn(self, lane: Lane) -> None:
        """Take what a lane's row says; what is in flight and ready is kept."""
        known = self._lanes.get(lane.id)
        if known is None:
            self._lanes[lane.id] = lane
            return
        if (known.owner_id, known.cautious) != (lane.owner_id, lane.cautious):  # else it keeps its place in line
            self._unqueue(known)
        known.limit, known.on, known.owner_id, known.cautious = lane.limit, lane.on, lane.owner_id, lane.cautious
        known.paused_until = lane.paused_until
        self._queue(known)

    def pause(self, lane_id: int, until: float) -> None:
        """Hold a lane until `until`."""
        lane = self._lanes.get(lane_id)
        if lane is not None and lane.paused_until < until:
            lane.paused_until = until

    def forget(self, keep: Iterable[int]) -> None:
        """Drop every lane whose shard is not in `keep`."""
        kept = set(keep)
        for lane_id in [lane_id for lane_id, lane in self._lanes.items() if lane.shard not in kept]:
            self._unqueue(self._lanes.pop(lane_id))
            self._flying.discard(lane_id)

    def wake(self, slot: int, *, floor: datetime | None = None) -> None:
        """Due work may have come to a lane; `floor` lowers from where its claim looks."""
        lane = self._lanes.get(slot >> 3)
        if lane is None:
            return
        kind = slot & 7
        lane.wakes += 1
        known = lane.floors.get(kind, FLOOR)
        lane.floors[kind] = known if floor is None else min(known, floor)
        lane.ready[kind] = lane.floors[kind]
        self._queue(lane, first=not lane.asked)

    def wake_at(self, slot: int, when: float) -> None:
        """Wake the lane at a time."""
        self._alarms.set(slot, when)

    def take_off(self, lane_id: int) -> None:
        """A job of this lane started."""
        lane = self._lanes.get(lane_id)
        if lane is not None:
            lane.in_flight += 1
            self._flying.add(lane_id)

    def land(self, lane_id: int) -> None:
        """A job of this lane ended here, or its lease ended elsewhere."""
        lane = self._lanes.get(lane_id)
        if lane is not None and lane.in_flight > 0:
            lane.in_flight -= 1
            if not lane.in_flight:
                self._flying.discard(lane_id)
            self._queue(lane)

    def judge(self, lane_id: int, *, quick: bool, hung: bool = False) -> None:
        """A try of this lane ended: quickly, or slowly, or it hung until its timeout."""
        lane = self._lanes.get(lane_id)
        if lane is None:
            return
        grown = lane.window * 2 if quick else lane.window + 1
        lane.window = 1 if hung else min(grown, max(lane.limit, START_WINDOW))
        self._count(lane, lane.streak + 1 if quick else 0)
        self._queue(lane)

    def drag(self, lane_id: int) -> None:
        """A try of this lane keeps us waiting right now."""
        lane = self._lanes.get(lane_id)
        if lane is not None and lane.streak:
            self._count(lane, 0)
            self._queue(lane)

    def next_alarm(self) -> float | None:
        """Return when `ring` is next due."""
        return self._alarms.next()

    def ring(self, now: float) -> None:
        """Wake the lanes whose time has come."""
        for slot in list(self._alarms.due(now)):
            if slot >= 0:
                self.wake(slot)
            elif (lane := self._lanes.get(~slot)) is not None:
                self._queue(lane, first=True)

    def ask(self, now: float, budget: int, *, drag: int | None = None, most_lanes: int = 200) -> list[Ask]:
        """Choose what the next claim asks for: at most `budget` jobs, in turns over owners, then lanes.

        At most `drag` jobs of lanes that drag, those in flight included; None = no bound.
        """
        self.ring(now)
        left = budget if drag is None else max(drag - self._dragging(), 0)
        chosen = self._choose(now, min(most_lanes, budget), left)
        share = -(-budget // len(chosen)) if chosen else 0
        asks = []
        for lane, kind in chosen:
            slots = min(share, lane.room, budget, left if lane.drags else budget)
            if slots <= 0:
                self._queue(lane)
                continue
            budget -= slots
            left -= slots if lane.drags else 0
            lane.asked = True
            asks.append(Ask(lane.id * 8 + kind, slots, lane.floors.get(kind, FLOOR), lane.wakes, lane.shard))
        return asks

    def answered(self, ask: Ask, count: int, last_run_at: datetime | None) -> None:
        """Take what a claim brought for one ask; in flight was counted by `take_off`."""
        lane = self._lanes.get(ask.slot >> 3)
        if lane is None:
            return
        lane.asked = False
        kind = ask.slot & 7
        if last_run_at is not None and lane.floors.get(kind, FLOOR) >= ask.floor:  # else it was lowered meanwhile
            lane.floors[kind] = max(last_run_at - FLOOR_SLACK, FLOOR)
        if count < ask.slots and lane.wakes == ask.wakes:
            lane.ready.pop(kind, None)
        self._queue(lane)

    def _dragging(self) -> int:
        """Count the jobs in flight of lanes that drag."""
        return sum(lane.in_flight for lane_id in self._flying if (lane := self._lanes[lane_id]).drags)

    def _choose(self, now: float, most: int, left: int) -> list[tuple[Lane, int]]:
        """Take lanes out of line, one that drags and one that does not in turn, while there is room for each."""
        chosen: list[tuple[Lane, int]] = []
        dragging = True
        while len(chosen) < most:
            dragging = not dragging
            if not self._turns[dragging] or (dragging and left <= 0):
                dragging = not dragging
            if not self._turns[dragging] or (dragging and left <= 0):
                break
            lane = self._lanes[self._turns[dragging].pop()]
            kind = lane.runnable(now)
            if kind is not None:
                chosen.append((lane, kind))
                left -= dragging
            elif lane.ready and lane.on and lane.paused_until > now:
                self._alarms.set(~lane.id, lane.paused_until)  # no slot's: the lane's
        return chosen

    def _queue(self, lane: Lane, *, first: bool = False) -> None:
        """Give a lane with work and room its place in line."""
        if lane.ready and lane.on and lane.room:
            self._turns[lane.drags].add(lane.owner_id, lane.id, first=first)

    def _count(self, lane: Lane, streak: int) -> None:
        """Set a lane's quick tries in a row; it changes lines where that makes it drag, or no longer."""
        if lane.drags != (lane.cautious and streak < PROVEN_AFTER):
            self._unqueue(lane)
        lane.streak = streak

    def _unqueue(self, lane: Lane) -> None:
        """Take a lane out of line: before it changes in what its place depends on."""
        self._turns[lane.drags].remove(lane.owner_id, lane.id)
