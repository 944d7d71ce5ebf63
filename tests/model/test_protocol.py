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

pytestmark = pytest.mark.timeout(600)  # for a machine that others keep busy: some faults take many games

#: Which games are played depends on the constants in the source, of all things: a rare fault may take some more.
GAMES, MOST_GAMES = 100, 2_000
Places = tuple[tuple[int, int], tuple[int, int]]

PLAY = settings(
    stateful_step_count=6,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
#: What a fault takes away -> the statement it is seeded in, what stands there, and what stands there instead.
FAULTS: dict[str, tuple[str, str, str]] = {
    "a final result counts whoever holds the claim": (
        "settle_jobs",
        "AND job.lease = r.lease LIMIT 1 FOR",
        "AND (job.lease = r.lease OR r.state IN ('completed', 'discarded', 'cancelled')) LIMIT 1 FOR",
    ),
    "a result to try again counts whoever holds the claim": (
        "settle_jobs",
        "AND job.lease = r.lease LIMIT 1 FOR",
        "AND (job.lease = r.lease OR r.state IN ('retryable', 'pending')) LIMIT 1 FOR",
    ),
    "a result waits for whoever holds the job": ("settle_jobs", "SKIP LOCKED", ""),
    "a result whose job is held counts for nothing": (
        "settle_jobs",
        "SELECT r.id, j.lane, NULL, r.lease, 0",
        "SELECT r.id, j.lane, NULL, NULL, 0",
    ),
    "a renewal waits for whoever holds the job": ("renew_leases", "SKIP LOCKED", ""),
    "a lease whose job is held is renewed": (
        "renew_leases",
        "SELECT r.id, j.cancelled_by, false",
        "SELECT r.id, j.cancelled_by, true",
    ),
    "a lease is renewed whoever holds the claim": ("renew_leases", "AND job.lease = r.lease", ""),
    "a lease is renewed after it has run out": ("renew_leases", "AND job.lease_until > now()", ""),
    "a claim takes what is leased": ("claim_jobs", "AND (job.lease_until IS NULL OR job.lease_until <= now())", ""),
    "a claim rescues nothing": ("claim_jobs", "OR job.lease_until <= now())", ")"),
    "an expiry takes what is leased": ("expire_jobs", "AND (job.lease_until IS NULL OR job.lease_until <= now())", ""),
    "a cancel ends what runs": ("cancel_waiting", "(state <> 'running' OR lease_until <= now())", "true"),
    "a claim asks nobody whose the shard is": ("claim_jobs", "AND s.owner = %(worker)s", "AND %(worker)s > 0"),
    "a claim under a shard's lease that ends": (
        "claim_jobs",
        "s.until > clock_timestamp() + %(margin)s",
        "s.until > clock_timestamp() - %(margin)s",
    ),
    "a shard is taken from its owner": (
        "grab_shards",
        "(until <= now() OR until > now() + interval '2 hours') AND",
        "",
    ),
    "a shard is renewed after its lease": ("renew_shards", "AND until > now()", ""),
    "a shard is renewed by another": ("renew_shards", "owner = %(worker)s AND", "%(worker)s > 0 AND"),
    "a shard is given back by another": ("release_shards", "owner = %(worker)s AND", "%(worker)s > 0 AND"),
    "a claim before the time": ("claim_jobs", "AND job.run_at <= now()", ""),
    "a lost try is not kept": ("claim_jobs", "FROM picked WHERE state = 'running'", "FROM picked WHERE false"),
    "a lost try is kept as the snapshot had it": (
        "claim_jobs",
        "FROM picked WHERE state = 'running'",
        "FROM tidings.job WHERE id = ANY (ARRAY (SELECT id FROM picked)) AND state = 'running'",
    ),
    "a lost try is not counted": (
        "claim_jobs",
        "lost = CASE WHEN state = 'running' THEN lost + 1 ELSE lost END",
        "lost = lost",
    ),
    "the lost try of an expired job is not kept": (
        "expire_jobs",
        "FROM gone WHERE lease_until IS NOT NULL",
        "FROM gone WHERE false",
    ),
    "the lost try of a cancelled job is not kept": (
        "cancel_waiting",
        "FROM gone WHERE lease_until IS NOT NULL",
        "FROM gone WHERE false",
    ),
    "a claim given back keeps its number": (
        "settle_jobs",
        "j.attempt - (r.outcome IS NULL)::int AS attempt",
        "j.attempt",
    ),
    "a try again spends nothing": ("settle_jobs", "j.spent + r.charges::int AS spent", "j.spent"),
    "a try is not kept": ("settle_jobs", "WHERE outcome IS NOT NULL", "WHERE outcome = 'completed'"),
    "a cancelled job is tried again": (
        "settle_jobs",
        "r.state NOT IN ('retryable', 'pending') OR j.cancelled_by IS NOT NULL AS ends",
        "r.state NOT IN ('retryable', 'pending') AS ends",
    ),
    "who cancels last stands": ("cancel_running", "coalesce(cancelled_by, %(reason)s)", "%(reason)s"),
    "who cancels a dead one last stands": ("cancel_waiting", "coalesce(cancelled_by, %(reason)s)", "%(reason)s"),
    "a cancel that does not hold the job first": ("lock_jobs", "FOR UPDATE", ""),
    "a retry by hand starts what runs": ("retry_live", "AND state <> 'running'", ""),
    "a retry by hand keeps what was spent": (
        "retry_finished",
        "attempt, max_attempts, code, created_at)",
        "spent, max_attempts, code, created_at)",
    ),
    "a replay takes every state": (
        "retry_finished",
        "AND state = ANY (%(states)s::text[])",
        "AND %(states)s::text[] IS NOT NULL",
    ),
    "a unique job is added beside the one that stands": (
        "enqueue_by_key",
        "FROM r WHERE id IN (SELECT job_id FROM fresh)",
        "FROM r",
    ),
    "a unique delivery is added beside the one that stands": (
        "enqueue_by_identity",
        "FROM r WHERE id IN (SELECT job_id FROM fresh)",
        "FROM r",
    ),
}


#: Faults that take hundreds of games to be found: `pytest -m long` plays those.
RARE = {
    "a cancelled job is tried again",
    "a claim under a shard's lease that ends",
    "a lease whose job is held is renewed",
    "a lost try is kept as the snapshot had it",
    "a renewal waits for whoever holds the job",
    "the lost try of an expired job is not kept",
    "who cancels last stands",
}


@pytest.fixture
def places(connection: psycopg.Connection) -> Places:
    """Two shards, each of a queue of its own, and a lane in each."""
    connection.execute(statement("ensure_queues"), {"queues": list(QUEUES)})
    shards = connection.execute("SELECT id FROM tidings.shard WHERE queue <> 'default' ORDER BY queue").fetchall()
    lanes = {"keys": list(QUEUES), "owners": [None] * 2, "limits": [10] * 2, "cautious": [False] * 2}
    connection.execute(statement("ensure_lanes"), lanes | {"queues": list(QUEUES)})
    ids = connection.execute("SELECT id FROM tidings.lane ORDER BY key").fetchall()
    return (shards[0][0], shards[1][0]), (ids[0][0], ids[1][0])


def play(dsn: str, places: Places, fault: Fault, games: int) -> None:
    how = settings(PLAY, max_examples=games)
    with Store(dsn, fault) as store:
        run_state_machine_as_test(lambda: Protocol(store, *places), settings=how)


def test_the_protocol_keeps_its_invariants(dsn: str, places: Places):
    play(dsn, places, {}, GAMES)


@pytest.mark.parametrize(
    "fault", [pytest.param(fault, marks=pytest.mark.long) if fault in RARE else fault for fault in FAULTS]
)
def test_a_seeded_fault_is_found(dsn: str, places: Places, fault: str):
    name, there, instead = FAULTS[fault]
    with pytest.raises((AssertionError, psycopg.Error)):
        play(dsn, places, {name: (there, instead)}, MOST_GAMES)
