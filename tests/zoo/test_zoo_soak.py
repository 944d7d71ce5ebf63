"""Delivering to the zoo over and over leaves nothing behind. The long form: `make zoo`."""

from __future__ import annotations

import asyncio
import gc

import pytest

from .cage import receivers
from .open import Zoo
from .soak import rounds
from .test_zoo import open_files

ROUND = 2 * len(receivers())
ROUNDS = 5


@pytest.mark.timeout(300)
async def test_hostile_deliveries_leave_memory_sockets_and_tasks_flat(zoo: Zoo):
    gc.collect()  # what others left is not to be taken for ours
    files, tasks = open_files(), len(asyncio.all_tasks())
    *held, left = [each async for each in rounds(zoo, ROUNDS * ROUND, ROUND)]
    warm, later = held[:2], held[2:]
    assert len(later) == ROUNDS - 2
    for each in later:
        assert each.traced < max(it.traced for it in warm) + 262_144, held
        # What is kept is bounded by the receivers that can be kept, not by how many deliveries there were.
        assert each.sockets < max(it.sockets for it in warm) + len(receivers()), held
        assert each.tasks == tasks, held
    assert sum(left.codes.values()) == ROUNDS * ROUND
    assert left.codes["internal_error"] == 0
    assert left.sockets <= files
    assert left.tasks == tasks
