"""Which lane's turn it is: the owner's memory of lanes, without I/O.

A process owns shards of lanes alone, so what it remembers here is the truth: which lanes have work, how many of their
jobs are in flight, which are paused. Limits are exact, pausing is free, and turns rotate over owners, then lanes; a
lane that wakes goes first. Times are of one monotonic clock that the caller reads.

Cautious lanes call strangers, one lane a stranger. Two things protect the rest from them. A window bounds what one has
in flight: it grows with every try that does not hang, and one that hangs makes it 1. And lanes stand in three lines:
those that answer quickly; those of which that is not known; and those that keep us waiting, which share half of a
worker's slots. The second line has a share of its own, so that hundreds that hang hold up neither a new lane nor one
that was slow for once; it is left for one of the others with the first try that ends, or that takes too long.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import IntEnum

from delivery.adapters.postgres.turns import Alarms, Turns


class Standing(IntEnum):
    """What is known of a lane, and so which line it stands in. Numbers, as they are hashed for every job."""

    PROVEN = 1  # answers quickly, or is our own
    UNPROVEN = 2  # is new, or answered slowly
    STALLED = 3  # keeps us waiting, or did until its last try hung


#: Below every `run_at`: look at the whole lane.
FLOOR = datetime(1, 1, 1, tzinfo=UTC)
#: A claim looks this far below the last row that it took, for what committed late.
FLOOR_SLACK = timedelta(seconds=1)
#: What a cautious lane may have in flight at first.
START_WINDOW = 1
#: Quick tries in a row after which a cautious lane that kept us waiting is trusted again; a new one needs one.
PROVEN_AFTER = 5
#: Of unproven and stalled lanes together, so many halves of what stalled ones may have may be in flight.
MOST_STALLED = 3
#: One claim starts at most so many of them: a crowd that starts together times out together, time and again, and the
#: others wait for the processor each time.
A_FEW = {Standing.UNPROVEN: 10, Standing.STALLED: 1}
#: A lane's classes, and the one for a person's retry, which a pause does not hold.
CLASSES, FORCED = range(8), 0


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
    rate: tuple[float, int] | None = None  #: tokens a second, and how many its bucket holds; None = it starts as it may
    eased_until: float = 0.0  #: it was switched on a while ago, and starts few until then
    empty_until: float = 0.0  #: of its bucket, as the last claim found it
    asked_at: int = 0  #: number of the read that told this; an older one does not overwrite it
    in_flight: int = 0
    window: int = START_WINDOW  #: of a cautious lane: how many at once it has earned
    streak: int = PROVEN_AFTER - 1  #: quick tries in a row
    stalled: bool = False  #: a try keeps us waiting, or the last one hung
    is_new: bool = True  #: no try of it has told us anything yet
    ready: set[int] = field(default_factory=set)  #: classes that may have due work
    floors: dict[int, datetime] = field(default_factory=dict)  #: class -> look no lower than this
    #: class -> what its floor was lowered to since it was last asked for
    lowered: dict[int, datetime] = field(default_factory=dict)
    more: set[int] = field(default_factory=set)  #: classes that may have later work which no alarm is set for
    asked: bool = False  #: a claim asks for it right now
    wakes: int = 0  #: raised by each wake-up, so that an answer older than the wake-up does not undo it

    @property
    def room(self) -> int:
        """Return how many more may start."""
        most = min(self.limit, self.window) if self.cautious else self.limit
        return max(most - self.in_flight, 0)

    @property
    def standing(self) -> Standing:
        """Say which line the lane stands in."""
        if not self.cautious or self.streak >= PROVEN_AFTER:
            return Standing.PROVEN
        return Standing.STALLED if self.stalled else Standing.UNPROVEN

    def runnable(self, now: float) -> int | None:
        """Return the class that is next, or None where nothing may start."""
        if not self.ready or not self.on or not self.room or self.held_until > now:
            return None
        return min(self.ready)

    @property
    def held_until(self) -> float:
        """Return until when what is ready waits: for a token, or for a pause, which a person's retry does not."""
        return self.empty_until if min(self.ready) == FORCED else max(self.empty_until, self.paused_until)


@dataclass(frozen=True, slots=True)
class Ask:
    """What one claim asks of one lane."""

    slot: int  #: lane id * 8 + class
    slots: int
    floor: datetime
    wakes: int
    shard: int
    paced: bool  #: the lane has a bucket


class LaneBook:
    """The lanes of the shards that this process owns."""

    def __init__(self) -> None:
        self._lanes: dict[int, Lane] = {}
        self._flying: set[int] = set()  # lanes with jobs in flight
        self._turns = {standing: Turns() for standing in Standing}
        self._lines = deque(Standing)  # the one whose turn it is first
        self._alarms = Alarms()
        self._unsure: dict[int, datetime] = {}  # slots of which nobody here knows when their next job is due -> floors

    def __contains__(self, lane_id: int) -> bool:
        return lane_id in self._lanes

    def __iter__(self) -> Iterator[int]:
        return iter(list(self._lanes))

    def get(self, lane_id: int) -> Lane | None:
        """Return a lane that is known here."""
        return self._lanes.get(lane_id)

    def learn(self, lane: Lane) -> None:
        """Take what a lane's row says, unless a later read said more; what is in flight and ready is kept."""
        known = self._lanes.get(lane.id)
        if known is None:
            self._lanes[lane.id] = lane
            return
        if lane.asked_at < known.asked_at:
            return
        if (known.owner_id, known.cautious) != (lane.owner_id, lane.cautious):  # else it keeps its place in line
            self._unqueue(known)
        known.limit, known.on, known.owner_id, known.cautious = lane.limit, lane.on, lane.owner_id, lane.cautious
        known.paused_until, known.asked_at = lane.paused_until, lane.asked_at
        known.eased_until = lane.eased_until
        if known.rate != lane.rate:  # the next claim says anew when there is a token
            known.rate, known.empty_until = lane.rate, 0.0
        self._queue(known)

    def pause(self, lane_id: int, until: float) -> None:
        """Hold a lane until `until`."""
        lane = self._lanes.get(lane_id)
        if lane is not None and lane.paused_until < until:
            lane.paused_until = until

    def empty(self, lane_id: int, until: float) -> None:
        """A lane's bucket has no token before `until`."""
        lane = self._lanes.get(lane_id)
        if lane is not None:
            lane.empty_until = until

    def forget(self, keep: Iterable[int]) -> None:
        """Drop every lane whose shard is not in `keep`."""
        kept = set(keep)
        for lane_id in [lane_id for lane_id, lane in self._lanes.items() if lane.shard not in kept]:
            self._unqueue(self._lanes.pop(lane_id))
            self._flying.discard(lane_id)

    def wake(self, slot: int, *, floor: datetime | None = None, swept: bool = False) -> None:
        """Due work may have come to a lane, or a sweep found some; `floor` lowers from where its claim looks."""
        lane = self._lanes.get(slot >> 3)
        if lane is None:
            return
        kind = slot & 7
        lane.wakes += 1
        self.lower(slot, floor)
        lane.ready.add(kind)
        self._queue(lane, first=not lane.asked)
        if not swept and lane.cautious and lane.is_new:  # in use: so it is tried before what a sweep found
            self._turns[lane.standing].hasten(lane.owner_id, lane.id)

    def lower(self, slot: int, floor: datetime | None) -> None:
        """Claims look from `floor` on, also where one is under way that will have taken what is later."""
        lane = self._lanes.get(slot >> 3)
        if lane is not None and floor is not None:
            kind = slot & 7
            lane.floors[kind] = min(lane.floors.get(kind, FLOOR), floor)
            lane.lowered[kind] = min(lane.lowered.get(kind, floor), floor)

    def wake_at(self, slot: int, when: float, *, more: bool = False) -> None:
        """Wake the lane at a time; `more`: there may be later times, of which nothing is known here."""
        self._alarms.set(slot, when, more=more)

    def expect_more(self, slot: int) -> None:
        """There may be later work, of which nothing is known here."""
        lane = self._lanes.get(slot >> 3)
        if lane is not None:
            lane.more.add(slot & 7)

    def look_ahead(self, lane_id: int) -> None:
        """Nothing is known of a lane's work."""
        self._unsure |= {lane_id * 8 + kind: FLOOR for kind in CLASSES}

    def take_unsure(self) -> dict[int, datetime]:
        """Take out the slots of which it has to be read when their next job is due, and from where to look."""
        unsure, self._unsure = self._unsure, {}
        return {slot: floor for slot, floor in unsure.items() if slot >> 3 in self._lanes}

    def stay_unsure(self, slots: dict[int, datetime]) -> None:
        """Put back what could not be read."""
        self._unsure = slots | self._unsure

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
        self._stand(lane, streak=lane.streak + 1 if quick else 0, stalled=hung)

    def drag(self, lane_id: int) -> None:
        """A try of this lane keeps us waiting right now."""
        lane = self._lanes.get(lane_id)
        if lane is not None and not lane.stalled:
            self._stand(lane, streak=0, stalled=True)

    @property
    def is_unsure(self) -> bool:
        """Say whether there is something to take by `take_unsure`."""
        return bool(self._unsure)

    def next_alarm(self) -> float | None:
        """Return when `ring` is next due."""
        return self._alarms.next()

    def ring(self, now: float) -> None:
        """Wake the lanes whose time has come."""
        for slot, more in list(self._alarms.due(now)):
            if slot >= 0:
                self.wake(slot)
                if more:
                    self.expect_more(slot)
            elif (lane := self._lanes.get(~slot)) is not None:
                self._queue(lane, first=True)

    def ask(self, now: float, budget: int, *, drag: int | None = None, most_lanes: int = 200) -> list[Ask]:
        """Choose what the next claim asks for: at most `budget` jobs, in turns over owners, then lanes.

        Those in flight included, at most `drag` jobs of stalled lanes, and half as many of unproven ones; None = no
        bound.
        """
        self.ring(now)
        left = self._left(budget, drag)
        chosen = self._choose(now, min(most_lanes, budget), dict(left))
        share = -(-budget // len(chosen)) if chosen else 0
        asks = []
        for lane, kind in chosen:
            slots = min(share, lane.room, budget, left[lane.standing])
            if slots <= 0:
                self._queue(lane)
                continue
            budget -= slots
            left[lane.standing] -= slots
            lane.asked = True
            lane.lowered.pop(kind, None)
            floor, paced = lane.floors.get(kind, FLOOR), lane.rate is not None or lane.eased_until > now
            asks.append(Ask(lane.id * 8 + kind, slots, floor, lane.wakes, lane.shard, paced))
        return asks

    def answered(self, ask: Ask, count: int, last_run_at: datetime | None, *, granted: int | None = None) -> None:
        """Take what a claim brought for one ask; in flight was counted by `take_off`.

        `granted` is how many it had tokens for; None = for all.
        """
        lane = self._lanes.get(ask.slot >> 3)
        if lane is None:
            return
        lane.asked = False
        kind = ask.slot & 7
        if last_run_at is not None:
            risen = max(last_run_at - FLOOR_SLACK, FLOOR)
            lane.floors[kind] = min(risen, lane.lowered.get(kind, risen))  # a claim does not see what commits meanwhile
        if count < (ask.slots if granted is None else granted) and lane.wakes == ask.wakes:
            lane.ready.discard(kind)
            if kind in lane.more:
                lane.more.discard(kind)
                self._unsure[ask.slot] = lane.floors.get(kind, FLOOR)
        self._queue(lane)

    def _left(self, budget: int, drag: int | None) -> dict[Standing, int]:
        """Count how many more jobs of each line may start."""
        if drag is None:
            return dict.fromkeys(Standing, budget)
        flying: Counter[Standing] = Counter()
        for lane_id in self._flying:
            lane = self._lanes[lane_id]
            flying[lane.standing] += lane.in_flight
        unproven, stalled = flying[Standing.UNPROVEN], flying[Standing.STALLED]
        # Whoever is found out in the second line flies on in the third: so both together have an end, too.
        probes = min(max(drag // 2, 1) - unproven, drag * MOST_STALLED // 2 - unproven - stalled)
        left = {Standing.PROVEN: budget, Standing.UNPROVEN: probes, Standing.STALLED: drag - stalled}
        return left | {line: min(left[line], few) for line, few in A_FEW.items()}

    def _choose(self, now: float, most: int, left: dict[Standing, int]) -> list[tuple[Lane, int]]:
        """Take lanes out of the three lines in turn, while there is room for each."""
        chosen: list[tuple[Lane, int]] = []
        while len(chosen) < most:
            line = next((line for line in self._lines if self._turns[line] and left[line] > 0), None)
            if line is None:
                break
            self._lines.remove(line)
            self._lines.append(line)
            lane = self._lanes[self._turns[line].pop()]
            kind = lane.runnable(now)
            if kind is not None:
                chosen.append((lane, kind))
                left[line] -= 1
            elif lane.ready and lane.on and lane.held_until > now:
                self._alarms.set(~lane.id, lane.held_until)  # no slot's: the lane's
        return chosen

    def _queue(self, lane: Lane, *, first: bool = False) -> None:
        """Give a lane with work and room its place in line."""
        if lane.ready and lane.on and lane.room:
            self._turns[lane.standing].add(lane.owner_id, lane.id, first=first)

    def _stand(self, lane: Lane, *, streak: int, stalled: bool) -> None:
        """Take what is known of a lane now; it changes lines where that says so."""
        before = lane.standing
        lane.streak, lane.stalled, lane.is_new = streak, stalled, False
        if lane.standing is not before:
            self._turns[before].remove(lane.owner_id, lane.id)
        self._queue(lane)

    def _unqueue(self, lane: Lane) -> None:
        """Take a lane out of line: before it changes in what its place depends on."""
        self._turns[lane.standing].remove(lane.owner_id, lane.id)
