"""Which lane's turn it is: the owner's memory of lanes, without I/O.

A process owns shards of lanes alone, so what it remembers here is the truth: which lanes have work, how many
of their jobs are in flight, which are paused. Limits are exact, pausing is free, and turns rotate over owners,
then lanes; a lane that wakes goes first. Times are of one monotonic clock that the caller reads.
"""

from __future__ import annotations

import heapq
import itertools
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

#: Below every `run_at`: look at the whole lane.
FLOOR = datetime(1, 1, 1, tzinfo=UTC)
#: A claim looks this far below the last row that it took, for what committed late.
FLOOR_SLACK = timedelta(seconds=1)
#: What a cautious lane may have in flight at first; each quick try doubles it, a hung one makes it 1.
START_WINDOW = 2
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
    proven: bool = False  #: its last try was quick, and none is dragging on
    #: class -> look no lower than this; a class is here while it may have due work
    ready: dict[int, datetime] = field(default_factory=dict)
    floors: dict[int, datetime] = field(default_factory=dict)
    wakes: int = 0  #: raised by each wake-up, so that an answer older than the wake-up does not undo it

    @property
    def room(self) -> int:
        """Return how many more may start."""
        most = min(self.limit, self.window) if self.cautious else self.limit
        return max(most - self.in_flight, 0)

    @property
    def drags(self) -> bool:
        """Say whether the lane may keep a worker waiting: then it shares half of the slots with others like it."""
        return self.cautious and not self.proven

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
        self._turns: OrderedDict[str | None, OrderedDict[int, None]] = OrderedDict()
        self._alarms: list[tuple[float, int, int]] = []
        self._order = itertools.count()

    def __contains__(self, lane_id: int) -> bool:
        return lane_id in self._lanes

    def get(self, lane_id: int) -> Lane | None:
        """Return a lane that is known here."""
        return self._lanes.get(lane_id)

    def learn(self, lane: Lane) -> None:
        """Take what a lane's row says; what is in flight and ready is kept."""
        known = self._lanes.get(lane.id)
        if known is None:
            self._lanes[lane.id] = lane
            return
        known.limit, known.on, known.owner_id, known.cautious = lane.limit, lane.on, lane.owner_id, lane.cautious
        known.paused_until = lane.paused_until
        self._queue(known)
        if known.ready:
            self._set_alarm(lane.paused_until, known.id * 8)

    def pause(self, lane_id: int, until: float) -> None:
        """Hold a lane until `until`."""
        lane = self._lanes.get(lane_id)
        if lane is not None and lane.paused_until < until:
            lane.paused_until = until
            self._set_alarm(until, lane_id * 8)

    def forget(self, keep: Iterable[int]) -> None:
        """Drop every lane whose shard is not in `keep`."""
        kept = set(keep)
        for lane_id in [lane_id for lane_id in self._lanes if self._lanes[lane_id].shard not in kept]:
            lane = self._lanes.pop(lane_id)
            self._unqueue(lane)

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
        self._queue(lane, first=True)

    def wake_at(self, slot: int, when: float) -> None:
        """Wake the lane at a time."""
        self._set_alarm(when, slot)

    def take_off(self, lane_id: int) -> None:
        """A job of this lane started."""
        lane = self._lanes.get(lane_id)
        if lane is not None:
            lane.in_flight += 1

    def land(self, lane_id: int) -> None:
        """A job of this lane ended here, or its lease ended elsewhere."""
        lane = self._lanes.get(lane_id)
        if lane is not None and lane.in_flight > 0:
            lane.in_flight -= 1
            self._queue(lane)

    def judge(self, lane_id: int, *, quick: bool, hung: bool) -> None:
        """A try of this lane was quick, or hung until its timeout, or neither."""
        lane = self._lanes.get(lane_id)
        if lane is None:
            return
        lane.proven = quick
        if hung:
            lane.window = 1
        elif quick:
            lane.window = min(max(lane.window, 1) * 2, max(lane.limit, START_WINDOW))
            self._queue(lane)

    def next_alarm(self) -> float | None:
        """Return when `ring` is next due."""
        return self._alarms[0][0] if self._alarms else None

    def ring(self, now: float) -> None:
        """Wake the lanes whose time has come."""
        while self._alarms and self._alarms[0][0] <= now:
            _, _, slot = heapq.heappop(self._alarms)
            lane = self._lanes.get(slot >> 3)
            if lane is None:
                continue
            if slot & 7 == FORCED and lane.ready:
                self._queue(lane, first=True)
            else:
                self.wake(slot)

    def ask(self, now: float, budget: int, *, drag: int | None = None, most_lanes: int = 200) -> list[Ask]:
        """Choose what the next claim asks for: at most `budget` jobs, in turns over owners, then lanes.

        At most `drag` of the process's slots go to lanes that drag, those in flight included; None = no bound.
        """
        self.ring(now)
        left = budget if drag is None else max(drag - sum(n.in_flight for n in self._lanes.values() if n.drags), 0)
        chosen, held = self._choose(now, min(most_lanes, budget), left)
        share = -(-budget // len(chosen)) if chosen else 0
        asks = []
        for lane, kind in chosen:
            slots = min(share, lane.room, budget, left if lane.drags else budget)
            if slots <= 0:
                held.append(lane)
                continue
            budget -= slots
            left -= slots if lane.drags else 0
            asks.append(Ask(lane.id * 8 + kind, slots, lane.floors.get(kind, FLOOR), lane.wakes, lane.shard))
        for lane in held:
            self._queue(lane)
        return asks

    def _choose(self, now: float, most: int, left: int) -> tuple[list[tuple[Lane, int]], list[Lane]]:
        """Take lanes in turn; those that drag and find no room among their like are held for later."""
        chosen: list[tuple[Lane, int]] = []
        held: list[Lane] = []
        while len(chosen) < most:
            found = self._next_turn(now)
            if found is None:
                break
            if found[0].drags and left <= 0:
                held.append(found[0])
                continue
            left -= 1 if found[0].drags else 0
            chosen.append(found)
        return chosen, held

    def answered(self, ask: Ask, count: int, last_run_at: datetime | None) -> None:
        """Take what a claim brought for one ask; in flight was counted by `take_off`."""
        lane = self._lanes.get(ask.slot >> 3)
        if lane is None:
            return
        kind = ask.slot & 7
        if last_run_at is not None and lane.floors.get(kind, FLOOR) >= ask.floor:  # else it was lowered meanwhile
            lane.floors[kind] = max(last_run_at - FLOOR_SLACK, FLOOR)
        if count < ask.slots and lane.wakes == ask.wakes:
            lane.ready.pop(kind, None)
        self._queue(lane)

    def busy(self, now: float) -> bool:
        """Say whether any lane could start a job now."""
        return any(lane.runnable(now) is not None for lane in self._queued())

    def _queued(self) -> Iterable[Lane]:
        return (self._lanes[lane_id] for turn in self._turns.values() for lane_id in turn)

    def _next_turn(self, now: float) -> tuple[Lane, int] | None:
        """Take the next runnable lane out of the queue; owners rotate."""
        while self._turns:
            owner, turn = next(iter(self._turns.items()))
            lane_id, _ = turn.popitem(last=False)
            if turn:
                self._turns.move_to_end(owner)
            else:
                del self._turns[owner]
            lane = self._lanes[lane_id]
            kind = lane.runnable(now)
            if kind is not None:
                return lane, kind
            if lane.ready and lane.on and lane.paused_until > now:
                self._set_alarm(lane.paused_until, lane.id * 8)
        return None

    def _queue(self, lane: Lane, *, first: bool = False) -> None:
        """Give a lane with work its place: at the end, or first where it has just woken."""
        if not lane.ready or not lane.on or not lane.room:
            return
        turn = self._turns.setdefault(lane.owner_id, OrderedDict())
        is_new = lane.id not in turn
        turn[lane.id] = None
        if first and is_new:
            turn.move_to_end(lane.id, last=False)
            self._turns.move_to_end(lane.owner_id, last=False)

    def _unqueue(self, lane: Lane) -> None:
        turn = self._turns.get(lane.owner_id)
        if turn is not None:
            turn.pop(lane.id, None)
            if not turn:
                del self._turns[lane.owner_id]

    def _set_alarm(self, when: float, slot: int) -> None:
        heapq.heappush(self._alarms, (when, next(self._order), slot))
