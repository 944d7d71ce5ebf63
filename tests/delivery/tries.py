"""Tries of deliveries that no runtime claimed."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

from delivery.compiler import DELIVER
from delivery.jobs import Job


def first_try(event_id: UUID, endpoint_id: UUID, type: str) -> Job:
    """The first try of a delivery, whose lease stands."""
    return Job(
        id=1,
        kind=DELIVER,
        args={"event_id": str(event_id), "endpoint_id": str(endpoint_id), "type": type},
        attempt=1,
        spent=0,
        max_attempts=34,
        created_at=datetime.now(UTC),
        memo={},
        holds_lease=lambda: True,
    )
