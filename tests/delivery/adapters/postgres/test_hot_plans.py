"""What runs for every delivery finds its rows by their keys, also in tables that nobody has analysed yet.

So is every partition in the first minute of its day, and planners guess then.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest

from delivery.adapters.postgres.buckets import EASES
from delivery.adapters.postgres.lanes import FLOOR
from delivery.adapters.postgres.statements import statement

#: Pages that finding one event and its type, or one endpoint and its keys, may take.
PAGES_A_ROW = 20
ASKED = 10

_EVENTS = """
INSERT INTO tidings.event (id, owner_id, type, occurred_at, data)
SELECT tidings.new_id(), 'acme', 'order.paid', now(), '{}'
FROM generate_series(1, 10000) RETURNING id
"""
_ENDPOINTS = """
WITH made AS (
  INSERT INTO tidings.endpoint (id, owner_id, url, policy, job_limit, timeout_ms, created_at, updated_at)
  SELECT tidings.new_id(), 'acme', 'https://example.com/', 'standard', 10, 10000, now(), now()
  FROM generate_series(1, 2000) RETURNING id
), keys AS (
  INSERT INTO tidings.endpoint_key (id, endpoint_id, sealed, created_at)
  SELECT tidings.new_id(), id, 'key', now() FROM made
)
SELECT id FROM made
"""


@pytest.fixture
def parcels(connection: psycopg.Connection[Any]) -> dict[str, dict[str, Any]]:
    """Fill a platform with the events and endpoints of one owner; returns what asks for some of them, by statement."""
    for table in ("event_default", "endpoint", "endpoint_key"):
        connection.execute(f"ALTER TABLE tidings.{table} SET (autovacuum_enabled = off)")
    connection.execute("INSERT INTO tidings.event_type (type, exposure) VALUES ('order.paid', 'webhook')")
    endpoints = some(connection.execute(_ENDPOINTS))
    return {
        "load_events": {"ids": some(connection.execute(_EVENTS))},
        "load_endpoints": {"ids": endpoints, "versions": [None] * ASKED},
    }


def some(cursor: psycopg.Cursor[Any]) -> list[UUID]:
    rows = cursor.fetchall()
    return [row[0] for row in rows[:: len(rows) // ASKED]][:ASKED]


def pages_read(connection: psycopg.Connection[Any], name: str, parameters: dict[str, Any]) -> int:
    """Run a statement and return how many pages it looked at."""
    explain = b"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + statement(name)
    [[[explained]]] = connection.execute(explain, parameters)
    return int(explained["Plan"]["Shared Hit Blocks"] + explained["Plan"]["Shared Read Blocks"])


@pytest.mark.parametrize("analysed", [False, True])
@pytest.mark.parametrize("name", ["load_events", "load_endpoints"])
def test_a_parcel_is_loaded_by_a_few_pages_however_many_its_owner_has(
    connection: psycopg.Connection[Any], parcels: dict[str, dict[str, Any]], name: str, analysed: bool
):
    if analysed:
        connection.execute("ANALYZE")
    assert pages_read(connection, name, parcels[name]) <= PAGES_A_ROW * ASKED


@pytest.mark.parametrize("name", ["load_events", "load_endpoints"])
def test_what_loads_one_parcel_is_not_planned_anew_each_time(
    connection: psycopg.Connection[Any], parcels: dict[str, dict[str, Any]], name: str
):
    connection.execute("ANALYZE")
    connection.prepare_threshold = 0
    one = {key: values[:1] for key, values in parcels[name].items()}
    for _ in range(10):
        connection.execute(statement(name), one)
    plans = connection.execute(
        "SELECT generic_plans, custom_plans FROM pg_prepared_statements WHERE statement ~ '^-- E'"
    )
    assert plans.fetchall() == [(5, 5)]  # the server tries five first


def test_what_is_known_of_an_endpoint_costs_no_look_at_its_policy(
    connection: psycopg.Connection[Any], parcels: dict[str, dict[str, Any]]
):
    connection.execute("INSERT INTO tidings.policy VALUES ('mine', '{1000}', 2, 1000, NULL, 'short')")
    connection.execute("UPDATE tidings.endpoint SET policy = 'mine'")
    connection.execute("ANALYZE")
    new = parcels["load_endpoints"]
    known = dict(connection.execute(b"SELECT asked, version FROM (" + statement("load_endpoints") + b") AS l", new))
    seen = new | {"versions": [known[endpoint_id] for endpoint_id in new["ids"]]}
    assert pages_of_policies(connection, new) > 0
    assert pages_of_policies(connection, seen) == 0


def pages_of_policies(connection: psycopg.Connection[Any], parameters: dict[str, Any]) -> int:
    """Load endpoints and return how many pages of policies and their index it looked at."""
    explain = b"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + statement("load_endpoints")
    [[[explained]]] = connection.execute(explain, parameters)

    def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
        yield plan
        for each in plan.get("Plans", ()):
            yield from nodes(each)

    found = [each for each in nodes(explained["Plan"]) if each.get("Relation Name") == "policy"]
    assert found
    return sum(each["Shared Hit Blocks"] + each["Shared Read Blocks"] for each in found)


# Settling --------------------------------------------------------------------------------------------------------

LEASE = timedelta(seconds=30)
#: Results written at once.
BATCH = 200
_JOBS = """
INSERT INTO tidings.job (kind, lane, args, state, max_attempts, lease, lease_until, attempt)
SELECT 'work', 8, '{}', 'running', 5, 7, now() + interval '1 hour', 1 FROM generate_series(1, 20000) RETURNING id
"""


def results(ids: list[int], state: str) -> dict[str, Any]:
    """Return what settles jobs that run under the lease 7."""
    same = {
        "leases": 7, "states": state, "delays": 60.0, "charges": True, "memos": None, "reasons": None, "took": 3,
        "outcomes": state, "codes": "http_204", "rules": "2xx", "statuses": 204, "heads": b"HTTP/1.1 204",
        "bodies": None, "details": None,
    }  # fmt: skip
    return {"ids": ids} | {name: [value] * len(ids) for name, value in same.items()}


def compared(plan: dict[str, Any]) -> float:
    """Count the rows that a plan looked at for nothing, in all of its nodes."""
    mine = (plan.get("Rows Removed by Join Filter", 0) + plan.get("Rows Removed by Filter", 0)) * plan["Actual Loops"]
    read = plan["Actual Rows"] * plan["Actual Loops"] if plan.get("Relation Name") == "job" else 0
    return float(mine + read + sum(compared(below) for below in plan.get("Plans", [])))


@pytest.mark.parametrize("state", ["completed", "retryable"])
@pytest.mark.parametrize("mode", ["force_generic_plan", "force_custom_plan"])
@pytest.mark.parametrize("analysed", ["never", "empty", "full"])
def test_what_settles_a_batch_looks_at_its_jobs_alone(
    connection: psycopg.Connection[Any], state: str, mode: str, analysed: str
):
    connection.execute("ALTER TABLE tidings.job SET (autovacuum_enabled = off)")
    if analysed == "empty":
        connection.execute("VACUUM ANALYZE tidings.job")
    ids = [row[0] for row in connection.execute(_JOBS)]
    if analysed == "full":
        connection.execute("VACUUM ANALYZE tidings.job")
    connection.execute(f"SET plan_cache_mode = {mode}")
    connection.execute("SET random_page_cost = 1.1")  # where tables are kept in memory, scans look dear
    explain = b"EXPLAIN (ANALYZE, FORMAT JSON) " + statement("settle_jobs")
    [[[explained]]] = connection.execute(explain, results(ids[:BATCH], state), prepare=True)
    assert compared(explained["Plan"]) <= 10 * BATCH


# Claiming where there are rates ------------------------------------------------------------------------------------

_LANES = """
WITH lanes AS (
  INSERT INTO tidings.lane (key, rate, burst)
  SELECT 'lane ' || n, 10, 20 FROM generate_series(1, 5000) AS n RETURNING id
), jobs AS (
  INSERT INTO tidings.job (kind, lane, args, max_attempts, run_at)
  SELECT 'work', id * 8 + 4, '{}', 5, now() - interval '1 minute' FROM lanes, generate_series(1, 10)
)
SELECT id FROM lanes ORDER BY id LIMIT 20
"""


@pytest.mark.parametrize("mode", ["force_generic_plan", "force_custom_plan"])
@pytest.mark.parametrize("analysed", ["never", "empty", "full"])
def test_a_claim_from_lanes_with_a_rate_looks_at_those_and_their_jobs_alone(
    connection: psycopg.Connection[Any], mode: str, analysed: str
):
    connection.execute("ALTER TABLE tidings.job SET (autovacuum_enabled = off)")
    connection.execute("ALTER TABLE tidings.lane SET (autovacuum_enabled = off)")
    connection.execute("UPDATE tidings.shard SET owner = 7, until = now() + interval '1 hour'")
    if analysed == "empty":
        connection.execute("VACUUM ANALYZE tidings.job, tidings.lane")
    lanes = [row[0] for row in connection.execute(_LANES)]
    if analysed == "full":
        connection.execute("VACUUM ANALYZE tidings.job, tidings.lane")
    connection.execute(f"SET plan_cache_mode = {mode}")
    connection.execute("SET random_page_cost = 1.1")
    asked = EASES | {
        "lanes": [lane * 8 + 4 for lane in lanes], "slots": [10] * len(lanes), "floors": [FLOOR] * len(lanes),
        "shards": [lane % 64 for lane in lanes], "worker": 7, "margin": timedelta(0), "lease": 1, "lease_for": LEASE,
    }  # fmt: skip
    explain = b"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + statement("claim_paced")
    [[[explained]]] = connection.execute(explain, asked, prepare=True)
    assert compared(explained["Plan"]) <= 10 * BATCH
