"""Each scenario in short: about 200 deliveries and 3 kills. `make soak` runs the long ones.

A seed is printed with what was found; TIDINGS_SEED runs it again.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from .clusters import Cluster, cluster, small_disk_cluster
from .scenarios import (
    Outcome,
    Size,
    a_snapshot_is_held,
    a_worker_is_frozen_past_its_lease,
    clocks_are_wrong,
    connections_are_cut,
    everything_is_killed,
    fifty_processes_claim_one_lane,
    one_of_many_workers_is_always_down,
    relays_are_killed,
    the_disk_is_full,
    the_server_is_killed,
    the_server_refuses_writes,
    workers_are_killed,
)

SHORT = Size(deliveries=200, kills=3)
pytestmark = pytest.mark.timeout(400)  # for a machine that others keep busy


@pytest.fixture
def seed() -> str:
    seed = os.environ.get("TIDINGS_SEED") or secrets.token_hex(4)
    print(f"TIDINGS_SEED={seed}")
    return seed


@pytest.fixture
def own() -> Iterator[Cluster]:
    with cluster() as server:
        yield server


@pytest.fixture
def on_small_disk() -> Iterator[Cluster]:
    try:
        opened = small_disk_cluster()
        server = opened.__enter__()
    except PermissionError as error:
        pytest.skip(f"no file system of its own may be mounted here: {error}")
    try:
        yield server
    finally:
        opened.__exit__(None, None, None)


def holds(outcome: Outcome, *, kills: int = 3) -> None:
    """Nothing is lost, nothing is in two states, every duplicate is explained; and the scenario was one."""
    verdict = outcome.verdict
    print(f"deliveries {verdict.deliveries}, kills {outcome.kills}, states {dict(verdict.states)}")
    print(f"duplicates {dict(verdict.duplicates)}", *outcome.notes, sep="\n")
    assert outcome.wrong == []
    assert verdict.states == {"completed": verdict.deliveries}
    assert verdict.deliveries >= SHORT.deliveries
    assert outcome.kills >= kills


async def test_workers_that_are_killed_lose_and_double_nothing(dsn: str, tmp_path: Path, seed: str) -> None:
    holds(await workers_are_killed(dsn, tmp_path, seed, SHORT))


async def test_relays_that_are_killed_lose_and_double_nothing(dsn: str, tmp_path: Path, seed: str) -> None:
    holds(await relays_are_killed(dsn, tmp_path, seed, SHORT))


async def test_nothing_is_lost_when_everything_is_killed_at_once(dsn: str, tmp_path: Path, seed: str) -> None:
    holds(await everything_is_killed(dsn, tmp_path, seed, SHORT), kills=12)


async def test_a_worker_that_thaws_after_its_lease_changes_nothing(dsn: str, tmp_path: Path, seed: str) -> None:
    holds(await a_worker_is_frozen_past_its_lease(dsn, tmp_path, seed, SHORT))


async def test_others_go_on_while_one_worker_after_the_other_dies(dsn: str, tmp_path: Path, seed: str) -> None:
    holds(await one_of_many_workers_is_always_down(dsn, tmp_path, seed, SHORT))


async def test_wrong_clocks_change_nothing_and_signatures_are_of_the_right_time(
    dsn: str, tmp_path: Path, seed: str
) -> None:
    holds(await clocks_are_wrong(dsn, tmp_path, seed, SHORT))


async def test_cut_stalled_and_slow_connections_lose_nothing_and_heal_without_a_restart(
    dsn: str, tmp_path: Path, seed: str
) -> None:
    holds(await connections_are_cut(dsn, tmp_path, seed, SHORT))


async def test_a_snapshot_that_is_held_open_stops_nothing(dsn: str, tmp_path: Path, seed: str) -> None:
    holds(await a_snapshot_is_held(dsn, tmp_path, seed, SHORT))


async def test_one_runs_at_a_time_where_fifty_processes_claim_a_lane_of_one(
    dsn: str, tmp_path: Path, seed: str
) -> None:
    holds(await fifty_processes_claim_one_lane(dsn, tmp_path, seed, SHORT))


async def test_a_server_that_is_killed_loses_nothing(own: Cluster, tmp_path: Path, seed: str) -> None:
    holds(await the_server_is_killed(own, tmp_path, seed, SHORT))


async def test_a_server_that_refuses_writes_loses_nothing(own: Cluster, tmp_path: Path, seed: str) -> None:
    holds(await the_server_refuses_writes(own, tmp_path, seed, SHORT))


async def test_a_full_disk_loses_nothing(on_small_disk: Cluster, tmp_path: Path, seed: str) -> None:
    holds(await the_disk_is_full(on_small_disk, tmp_path, seed, SHORT))
