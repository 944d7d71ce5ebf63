"""Turns and alarms: the two queues that the lane book keeps."""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Iterator

#: Entries of the heap that are let stand besides twice as many as there are alarms.
_SPARE = 64


class Turns:
    """Lanes in line: turns rotate over owners, then over the lanes of each."""

    def __init__(self) -> None:
        self._owners: OrderedDict[str | None, OrderedDict[int, None]] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._owners)

    def add(self, owner_id: str | None, lane_id: int, *, first: bool = False) -> None:
        """Put a lane at the end, or first; one that is in line keeps its place."""
        lanes = self._owners.setdefault(owner_id, OrderedDict())
        is_new = lane_id not in lanes
        lanes[lane_id] = None
        if first and is_new:
            lanes.move_to_end(lane_id, last=False)
            self._owners.move_to_end(owner_id, last=False)

    def hasten(self, owner_id: str | None, lane_id: int) -> None:
        """Bring a lane that is in line before the others of its owner."""
        lanes = self._owners.get(owner_id)
        if lanes is not None and lane_id in lanes:
            lanes.move_to_end(lane_id, last=False)

    def remove(self, owner_id: str | None, lane_id: int) -> None:
        """Take a lane out of line, where it is in."""
        lanes = self._owners.get(owner_id)
        if lanes is not None:
            lanes.pop(lane_id, None)
            if not lanes:
                del self._owners[owner_id]

    def pop(self) -> int:
        """Take out the lane whose turn it is; the next turn is another owner's."""
        owner_id, lanes = next(iter(self._owners.items()))
        lane_id, _ = lanes.popitem(last=False)
        if lanes:
            self._owners.move_to_end(owner_id)
        else:
            del self._owners[owner_id]
        return lane_id


class Alarms:
    """The earliest time that each slot is to ring at, and whether there are others after it."""

    def __init__(self) -> None:
        self._when: dict[int, float] = {}
        self._more: set[int] = set()  # slots that have later times, too
        self._heap: list[tuple[float, int]] = []  # of each slot its time, and some that others took the place of

    def __len__(self) -> int:
        return len(self._when)

    def set(self, slot: int, when: float, *, more: bool = False) -> None:
        """Ring for the slot at a time; of several times the earliest is kept. `more`: there may be later ones."""
        known = self._when.get(slot)
        if more or known not in (None, when):
            self._more.add(slot)
        if known is None or when < known:
            self._when[slot] = when
            self._push(slot)

    def next(self) -> float | None:
        """Return when the next one rings."""
        while self._heap and self._when.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)  # an earlier one took its place
        return self._heap[0][0] if self._heap else None

    def due(self, now: float) -> Iterator[tuple[int, bool]]:
        """Take out the slots that ring now, each once, and whether there may be later times."""
        while (when := self.next()) is not None and when <= now:
            _, slot = heapq.heappop(self._heap)
            del self._when[slot]
            more = slot in self._more
            self._more.discard(slot)
            yield slot, more

    def _push(self, slot: int) -> None:
        heapq.heappush(self._heap, (self._when[slot], slot))
        if len(self._heap) > 2 * len(self._when) + _SPARE:
            self._heap = [(when, slot) for slot, when in self._when.items()]
            heapq.heapify(self._heap)
