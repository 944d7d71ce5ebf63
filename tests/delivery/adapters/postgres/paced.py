"""A lane with a rate: made by hand, claimed by the statement itself, judged by the database's stamps."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import psycopg
from psycopg.rows import dict_row

from delivery.adapters.postgres.buckets import EASES
from delivery.adapters.postgres.lanes import FLOOR
from delivery.adapters.postgres.statements import statement

Row = dict[str, Any]
#: Keeps the lane in shard 0's hands; and how long a claim here keeps a job, so that its stamp tells when it was made.
WORKER, LEASE = 7, timedelta(hours=1)
#: What is added up in floating point may be off by so much.
HAIR = 1e-6


def exceeds(times: Sequence[datetime], rate: float, burst: int) -> str | None:
    """Say where more started than `burst` and what came in the time between; None = nowhere."""
    times = sorted(times)
    for first in range(len(times)):
        for last in range(first, len(times)):
            span = (times[last] - times[first]).total_seconds()
            if last - first + 1 > burst + rate * span + HAIR:
                return f"{last - first + 1} within {span:.6f} s, from {times[first]}"
    return None


class Paced:
    """One lane with a rate, with jobs that are due."""

    def __init__(self, dsn: str, connection: psycopg.Connection[Any], rate: float, burst: int, jobs: int) -> None:
        self.dsn, self.connection = dsn, connection
        connection.execute("UPDATE tidings.shard SET owner = %s, until = now() + interval '1 hour'", [WORKER])
        [(self.id,)] = connection.execute(
            "INSERT INTO tidings.lane (key, job_limit, rate, burst) VALUES ('paced', 1000, %s, %s) RETURNING id",
            [rate, burst],
        ).fetchall()
        self.slot = self.id * 8 + 4
        connection.execute(
            "INSERT INTO tidings.job (kind, lane, args, max_attempts, run_at)"
            " SELECT 'work', %s, '{}', 5, now() - interval '1 minute' FROM generate_series(1, %s)",
            [self.slot, jobs],
        )

    def claim(self, connection: psycopg.Connection[Any], slots: int = 100) -> tuple[list[Row], Row | None]:
        """Claim once; returns the jobs, and what is said of the bucket."""
        asked = EASES | {
            "lanes": [self.slot],
            "slots": [slots],
            "floors": [FLOOR],
            "shards": [self.id % 64],
            "worker": WORKER,
            "margin": timedelta(0),
            "lease": 1,
            "lease_for": LEASE,
        }
        with connection.cursor(row_factory=dict_row) as cursor:
            rows = cursor.execute(statement("claim_paced"), asked).fetchall()
        buckets = [row for row in rows if row["id"] is None]
        return [row for row in rows if row["id"] is not None], buckets[0] if buckets else None

    def claimed_at(self) -> list[datetime]:
        """Return when each claim was made that stands."""
        rows = self.connection.execute("SELECT lease_until - %s FROM tidings.job WHERE lease = 1", [LEASE])
        return [row[0] for row in rows]
