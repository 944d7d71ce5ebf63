"""Fan-out: how long does the relay take to make one event the deliveries of many endpoints?"""

from __future__ import annotations

import asyncio
import time

import click

from benchmarks.load import event_type
from benchmarks.scenario import Outcome, middle, progress, scenario
from benchmarks.stage import OWNER, Stage, until
from delivery import open_app
from subscriptions.model import Exposure

MOST_S = 0.3
#: Endpoints as the platform adds them, but for their keys, which no relay looks at.
_ENDPOINTS = """
WITH made AS (
  INSERT INTO tidings.endpoint (id, owner_id, url, policy, job_limit, timeout_ms, created_at, updated_at)
  SELECT tidings.new_id(), %s, 'http://127.0.0.1:9/' || n, 'standard', 10, 10000, now(), now()
  FROM generate_series(1, %s) AS n RETURNING id
)
INSERT INTO tidings.subscription (id, owner_id, name, patterns, endpoint_id, coalesces, created_at)
SELECT tidings.new_id(), %s, 'to ' || id, ARRAY[%s], id, false, now() FROM made
"""


@scenario(short={"endpoints": 100, "runs": 1}, endpoints=10_000, runs=5)
def fan_out(stage: Stage, endpoints: int, runs: int) -> Outcome:
    """Seconds from an event's commit to its last delivery's."""
    with stage.platform() as platform:
        asyncio.run(_declare(platform.settings))
        platform.sql(_ENDPOINTS, OWNER, endpoints, OWNER, event_type(0))
        platform.sql("VACUUM ANALYZE")
        took = []
        with platform.running("relay"):
            for run in range(runs + 1):
                began = time.perf_counter()
                platform.record(event_type(0), 1)
                until(lambda: not platform.sql("SELECT 1 FROM tidings.outbox LIMIT 1"), 0.005)  # gone with the last job
                took.append(time.perf_counter() - began)
                [[made]] = platform.sql("SELECT count(*) FROM tidings.job")
                if made != (run + 1) * endpoints:
                    raise click.ClickException(f"{made} deliveries were made of {(run + 1) * endpoints}")
                progress(f"fan-out: run {run}: {took[-1]:.3f} s")
    whole_s = middle(took[1:] or took)  # the first one compiles the subscriptions and makes the lanes
    return Outcome(
        figures=f"{whole_s:.3f} s for one event to {endpoints:,} endpoints, the first one {took[0]:.3f} s",
        bar=f"at most {MOST_S} s",
        kept=whole_s <= MOST_S,
    )


async def _declare(settings: object) -> None:
    async with open_app(settings) as app:  # type: ignore[arg-type]  # as the stage made them
        await app.event_types.declare(event_type(0), by="bench", exposure=Exposure.WEBHOOK)
