"""Replays as columns and back, and what a walk is asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from psycopg.rows import DictRow
from psycopg.types.json import Jsonb

from delivery.adapters.postgres.days import midnight
from delivery.adapters.postgres.event_log import first_id
from delivery.adapters.postgres.pools import FIRST
from delivery.jobs import JobState
from delivery.replays import NewReplay, Replay, ReplayFilter, ReplayState, Source, Tally
from subscriptions.match import Pattern

Columns = dict[str, Any]
_ID_STEP = timedelta(milliseconds=1)


def replay_columns(new: NewReplay) -> Columns:
    """Write a new replay."""
    which = new.which
    return {
        "source": which.source.value,
        "owner_id": which.owner_id,
        "endpoint_id": which.endpoint_id,
        "filter": Jsonb(_filter(which)),
        "pace": new.pace,
        "by": new.by,
        "reason": new.reason,
        "before": new.before,
        "total": new.total,
    }


def replay_of(row: DictRow) -> Replay:
    """Read a replay."""
    return Replay(
        id=row["id"],
        which=_which(row),
        pace=row["pace"],
        state=ReplayState(row["state"]),
        state_by=row["state_by"],
        state_reason=row["state_reason"],
        started_by=row["started_by"],
        reason=row["reason"],
        started_at=row["started_at"].astimezone(UTC),
        ended_at=row["ended_at"] and row["ended_at"].astimezone(UTC),
        total=row["total"],
        tally=Tally(put_back=row["put_back"], skipped=Counter(row["skipped"])),
        run=row["run"],
        job_id=row["job_id"],
        is_stalled=row["is_stalled"],
    )


def walk_of(which: ReplayFilter, before: datetime, lane: int | None) -> Columns:
    """Ask for what a replay that began at `before` goes through."""
    types = [Pattern.parse(text).expression for text in which.types]
    if which.source is Source.EVENTS:
        until = before + _ID_STEP  # ids are of a whole millisecond
        return {
            "owner_id": which.owner_id,
            "endpoint_id": which.endpoint_id,
            "types": types,
            "from_id": first_id(which.since or FIRST),
            "to_id": first_id(until if which.until is None else min(which.until, until)),
        }
    low, high = which.statuses or (None, None)
    return {
        "lane": lane,
        "is_incomplete": JobState.COMPLETED not in which.states,
        "from_day": FIRST if which.since is None else midnight(which.since.astimezone(UTC).date()),
        "before": before,
        "states": [state.value for state in which.states],
        "owner_id": which.owner_id,
        "types": types or None,
        "since": which.since,
        "until": which.until,
        "error": which.error,
        "asks_attempt": bool(which.outcomes or which.statuses),
        "outcomes": list(which.outcomes) or None,
        "status_from": low,
        "status_to": high,
        "only_undelivered": which.only_undelivered,
    }


def put_back_of(ids: Sequence[int], finished_ats: Sequence[datetime]) -> Columns:
    """Ask for jobs, at least one, to be put back that were finished at these times."""
    spans = {"first": min(finished_ats), "last": max(finished_ats)}
    return {"ids": ids, "finished_ats": finished_ats} | spans


def _filter(which: ReplayFilter) -> Columns:
    """Write what has no column of its own."""
    return {
        "types": list(which.types),
        "sifts": which.sifts,
        "since": which.since and which.since.isoformat(),
        "until": which.until and which.until.isoformat(),
        "states": [state.value for state in which.states],
        "error": which.error,
        "outcomes": list(which.outcomes),
        "statuses": which.statuses and list(which.statuses),
        "only_undelivered": which.only_undelivered,
    }


def _which(row: DictRow) -> ReplayFilter:
    kept = row["filter"]
    return ReplayFilter(
        source=Source(row["source"]),
        owner_id=row["owner_id"],
        endpoint_id=row["endpoint_id"],
        types=tuple(kept["types"]),
        sifts=kept.get("sifts", False),
        since=kept["since"] and datetime.fromisoformat(kept["since"]),
        until=kept["until"] and datetime.fromisoformat(kept["until"]),
        states=tuple(JobState(state) for state in kept["states"]),
        error=kept["error"],
        outcomes=tuple(kept["outcomes"]),
        statuses=kept["statuses"] and (kept["statuses"][0], kept["statuses"][1]),
        only_undelivered=kept["only_undelivered"],
    )
