"""Garbage: a worker looks for cycles rarely, and still finds them."""

from __future__ import annotations

import subprocess
import sys

_PROGRAM = """
import gc
from delivery.cli.loops import collect_rarely

class Knot:
    left = 0
    def __init__(self):
        self.me = self
        Knot.left += 1
    def __del__(self):
        Knot.left -= 1

collect_rarely()
most = 0
for _ in range(200_000):
    Knot()
    most = max(most, Knot.left)
print(gc.get_freeze_count() > 1_000, most)
"""


def test_cycles_are_collected_rarely_and_never_pile_up():
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True)
    frozen, most = done.stdout.split()
    assert frozen == "True"
    assert 1_000 < int(most) < 50_000
