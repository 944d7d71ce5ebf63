"""The protocol of claim, lease, settle and rescue, played by hypothesis on a real database (docs/guarantees.md).

A model check that cannot fail is none: each fault below is seeded in a statement's text, and must be found.
"""

from __future__ import annotations

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from delivery.adapters.postgres.statements import statement

from .lines import Fault, Store
from .machine import Protocol
from .owners import QUEUES

Places = tuple[tuple[int, int], tuple[int, int]]

PLAY = settings(
    max_examples=int(__import__("os").environ.get("N", "120")),
    stateful_step_count=30,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate, *([Phase.shrink] if "S" in __import__("os").environ else [])],
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture
def places(connection: psycopg.Connection) -> Places:
    """Two shards, each of a queue of its own, and a lane in each."""
    connection.execute(statement("ensure_queues"), {"queues": list(QUEUES)})
    shards = connection.execute("SELECT id FROM tidings.shard WHERE queue <> 'default' ORDER BY queue").fetchall()
    lanes = {"keys": list(QUEUES), "owners": [None] * 2, "limits": [10] * 2, "cautious": [False] * 2}
    connection.execute(statement("ensure_lanes"), lanes | {"queues": list(QUEUES)})
    ids = connection.execute("SELECT id FROM tidings.lane ORDER BY key").fetchall()
    return (shards[0][0], shards[1][0]), (ids[0][0], ids[1][0])


def play(dsn: str, places: Places, fault: Fault, how: settings) -> None:
    with Store(dsn, fault) as store:
        run_state_machine_as_test(lambda: Protocol(store, *places), settings=how)


def test_the_protocol_keeps_its_invariants(dsn: str, places: Places):
    play(dsn, places, {}, PLAY)
