"""Keep replays, and move them on batch by batch: `delivery.replays.Replays`.

Exactly once, whatever dies: a batch locks the replay's row, takes what comes behind its place, puts that back and moves
the place on, in one transaction. So runs of one replay never overlap, not even two of them at once, and after a crash
the next one begins just where the last commit left it. What fails again meanwhile lies before the place, and was
finished after the replay's start: it is not taken again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from psycopg.rows import DictRow
from psycopg.types.json import Jsonb

from delivery.adapters.postgres.database import Database
from delivery.adapters.postgres.jobs import Lanes, ring
from delivery.adapters.postgres.partitions import database_now
from delivery.adapters.postgres.pools import Conn
from delivery.adapters.postgres.replay_rows import Columns, put_back_of, replay_columns, replay_of, walk_of
from delivery.adapters.postgres.replay_sifting import sifted
from delivery.adapters.postgres.rows import change_columns
from delivery.adapters.postgres.statements import statement
from delivery.compiler import endpoint_lane, job_for, route_to
from delivery.errors import Conflict, NotFound
from delivery.events import Event
from delivery.jobs import EnqueueOptions, JobId, Jobs
from delivery.replays import (
    BY,
    DELIVERY_EXISTS,
    KIND,
    MOVED,
    NewReplay,
    Replay,
    ReplayFilter,
    ReplayState,
    Source,
    Step,
    Tally,
)
from subscriptions.model import EndpointState, EndpointTarget
from subscriptions.store import Change

#: Deliveries that a batch puts back at most, and rows that it looks at for them.
BATCH, LOOK = 500, 1_000
_BEGINNING: Columns = {"after_lane": 0, "after_id": 0, "after_event": UUID(int=0)}
_LAST_ID = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """What one walk came upon."""

    put_back: DictRow  #: the rows to be put back, as columns
    skipped: Counter[str]
    place: Columns  #: where the next walk begins
    is_over: bool


class PostgresReplays:
    """`delivery.replays.Replays`."""

    def __init__(
        self, database: Database, jobs_on: Callable[[Conn], Jobs], *, batch: int = BATCH, look: int = LOOK
    ) -> None:
        """Enqueue in a transaction by `jobs_on`; a batch puts `batch` back at most, of `look` rows."""
        self._database, self._jobs_on, self._batch, self._look = database, jobs_on, batch, look
        self._lanes = Lanes(database)

    async def now(self) -> datetime:
        """Read the database's clock."""
        return await database_now(self._database)

    async def count(self, which: ReplayFilter, *, before: datetime) -> Tally:
        """Count what a replay that starts at `before` would find, in statements as short as its batches are."""
        place, skipped, number = _BEGINNING | {"last_id": _LAST_ID}, Counter[str](), 0
        while True:
            async with self._database.transaction(deadline=self._database.deadlines.statement) as tx:
                found = await self._walk(tx, which, before, place, most=self._look)
            number += len(found.put_back["ids"])
            skipped += found.skipped
            place |= found.place
            if found.is_over:
                return Tally(put_back=number, skipped=skipped)

    async def start(self, new: NewReplay) -> Replay:
        """Keep a replay, and enqueue its job with it."""
        async with self._database.transaction() as tx:
            [row] = await _rows(tx, "add_replay", replay_columns(new))
            replay_id = int(row["id"])
            await self._enqueue(tx, replay_id, 1, new.which.owner_id)
            await _keep(tx, new.which.owner_id, replay_id, "started", new.by, new.reason)
        return await self.get(None, replay_id)

    async def get(self, owner_id: str | None, replay_id: int) -> Replay:
        """Return one replay of the owner."""
        found = await self._list(owner_id, id=replay_id, limit=1, before=None) if 0 < replay_id < 2**63 else []
        if not found:
            whose = "there is" if owner_id is None else f"owner {owner_id!r} has"
            raise NotFound(f"{whose} no replay {replay_id}: `tidings replays list` shows those that are kept")
        return found[0]

    async def list(self, owner_id: str | None, *, limit: int = 50, before: int | None = None) -> Sequence[Replay]:
        """List replays, newest first."""
        return await self._list(owner_id, id=None, limit=limit, before=before)

    async def switch(
        self, owner_id: str | None, replay_id: int, state: ReplayState, *, by: str, reason: str | None
    ) -> Replay:
        """Pause, resume or cancel; waits for a batch that is under way."""
        await self.get(owner_id, replay_id)  # before it is locked: another owner's is never
        async with self._database.transaction() as tx:
            await _rows(tx, "lock_replay", {"id": replay_id})
            [row] = await _rows(tx, "list_replays", {"id": replay_id, "owner_id": owner_id, "limit": 1, "before": None})
            replay = replay_of(row)
            if replay.state is state and not replay.is_stalled:
                return replay
            if replay.state.is_final:
                raise Conflict(f"replay {replay_id} is {replay.state}, for good: start another one")
            await self._switch(tx, replay, state, by, reason)
            if state is ReplayState.RUNNING:
                await self._enqueue(tx, replay_id, replay.run + 1, replay.which.owner_id)
        return await self.get(owner_id, replay_id)

    async def step(self, replay_id: int, run: int) -> Step:
        """Move one batch on, in one transaction."""
        async with self._database.transaction(deadline=self._database.deadlines.statement) as tx:
            rows = await _rows(tx, "lock_replay", {"id": replay_id})
            if not rows:
                return Step(replay=None, goes_on=False)
            [row] = rows
            replay = replay_of(row)
            if replay.run != run or replay.state is not ReplayState.RUNNING:
                return Step(replay=replay, goes_on=False)
            if (hindered := _hindrance(replay, row["endpoint_state"])) is not None:
                return Step(replay=await self._switch(tx, replay, hindered[0], BY, hindered[1]), goes_on=False)
            if row["wait_s"] > 0:
                return Step(replay=replay, goes_on=True, wait=timedelta(seconds=row["wait_s"]))
            return await self._advance(tx, replay, row)

    async def _advance(self, tx: Conn, replay: Replay, row: DictRow) -> Step:
        most = self._batch if replay.pace is None else max(1, min(self._batch, int(replay.pace)))
        place = {name: row[name] for name in (*_BEGINNING, "last_id")}
        found = await self._walk(tx, replay.which, replay.started_at, place, most=most)
        put_back, untaken = await self._put_back(tx, replay, found.put_back)
        tally = Tally(
            put_back=replay.tally.put_back + put_back,
            skipped=Counter(replay.tally.skipped) + found.skipped + untaken,
        )
        parameters = place | found.place
        parameters |= {
            "id": replay.id,
            "seen": tally.seen - replay.tally.seen,
            "put_back": put_back,
            "skipped": Jsonb(tally.skipped),
            "is_over": found.is_over,
        }
        await tx.execute(statement("advance_replay"), parameters)
        state = ReplayState.COMPLETED if found.is_over else replay.state
        return Step(replay=replace(replay, tally=tally, state=state), goes_on=not found.is_over)

    async def _walk(self, tx: Conn, which: ReplayFilter, before: datetime, place: Columns, *, most: int) -> _Found:
        """Look for what comes behind a place."""
        lane = None
        if which.source is Source.DELIVERIES and which.endpoint_id is not None:
            lane = await self._lanes.find(endpoint_lane(which.endpoint_id))
            if lane is None:  # no delivery to it was ever made
                return _Found(put_back={"ids": []}, skipped=Counter(), place=place, is_over=True)
        name = "walk_deliveries" if which.source is Source.DELIVERIES else "walk_events"
        parameters = place | walk_of(which, before, lane) | {"look": self._look, "most": most}
        [row] = await _rows(tx, name, parameters)
        if which.sifts and row["ids"]:
            row = await sifted(tx, which, row)
        return _Found(
            put_back=row,
            skipped=Counter(row["skips"]),
            place={key: value for key, value in row.items() if key.startswith("after_")},
            is_over=row["is_over"],
        )

    async def _put_back(self, tx: Conn, replay: Replay, found: DictRow) -> tuple[int, Counter[str]]:
        """Put back what was found; returns how many, and why others were not."""
        if not found["ids"]:
            return 0, Counter()
        if replay.which.source is Source.EVENTS:
            moved, why = await self._enqueue_deliveries(tx, replay, found), DELIVERY_EXISTS
        else:
            rows = await _rows(tx, "put_back", put_back_of(found["ids"], found["finished_ats"]))
            await ring(tx, [(row["lane"], None) for row in rows])
            moved, why = len(rows), MOVED
        return moved, +Counter({why: len(found["ids"]) - moved})

    async def _enqueue_deliveries(self, tx: Conn, replay: Replay, found: DictRow) -> int:
        """Make the deliveries of events to the endpoint, each unless it is there, as the relay would."""
        which = replay.which
        assert which.endpoint_id is not None and which.owner_id is not None  # noqa: S101, PT018 - started with both
        route = route_to(EndpointTarget(endpoint_id=which.endpoint_id))
        jobs = [
            job_for(_event(which.owner_id, event_id, event_type, replay.started_at), route)
            for event_id, event_type in zip(found["ids"], found["types"], strict=True)
        ]
        return sum(each.is_new for each in await self._jobs_on(tx).enqueue_many(jobs))

    async def _switch(self, tx: Conn, replay: Replay, state: ReplayState, by: str, reason: str | None) -> Replay:
        parameters = {"id": replay.id, "state": state.value, "by": by, "reason": reason}
        await tx.execute(statement("switch_replay"), parameters)
        what = "resumed" if state is ReplayState.RUNNING else state.value
        await _keep(tx, replay.which.owner_id, replay.id, what, by, reason)
        return replace(replay, state=state, state_by=by, state_reason=reason)

    async def _enqueue(self, tx: Conn, replay_id: int, run: int, owner_id: str | None) -> JobId:
        """Begin a run; the job takes its turn among those of the owner."""
        args = {"replay_id": replay_id, "run": run}
        job_id = await self._jobs_on(tx).enqueue(KIND, args, EnqueueOptions(owner_id=owner_id))
        await tx.execute(statement("assign_replay"), {"id": replay_id, "job_id": job_id})
        return job_id

    async def _list(self, owner_id: str | None, **which: Any) -> Sequence[Replay]:
        rows = await self._database.fetch(statement("list_replays"), which | {"owner_id": owner_id})
        return [replay_of(row) for row in rows]


def _hindrance(replay: Replay, endpoint_state: str | None) -> tuple[ReplayState, str] | None:
    """Say what becomes of a replay to one endpoint that takes no deliveries now."""
    match endpoint_state:
        case EndpointState.REMOVED.value:
            return ReplayState.CANCELLED, f"endpoint {replay.which.endpoint_id} was removed"
        case EndpointState.DISABLED.value:
            return ReplayState.PAUSED, f"endpoint {replay.which.endpoint_id} is disabled"
        case _:
            return None


def _event(owner_id: str, event_id: UUID, event_type: str, at: datetime) -> Event:
    """Name an event; a delivery loads the rest of it."""
    return Event(
        id=event_id, owner_id=owner_id, type=event_type, subject=None, occurred_at=at, data="", traceparent=None
    )


async def _keep(tx: Conn, owner_id: str | None, replay_id: int, what: str, by: str, reason: str | None) -> None:
    """Keep who did it, and why."""
    change = Change(
        owner_id=owner_id,
        what=f"replay.{what}",
        of=f"replay:{replay_id}",
        by=by,
        at=datetime.now(UTC),
        after={} if reason is None else {"reason": reason},
    )
    await tx.execute(statement("record_change"), change_columns(change))


async def _rows(tx: Conn, name: str, parameters: dict[str, Any]) -> list[DictRow]:
    cursor = await tx.execute(statement(name), parameters)
    return await cursor.fetchall()
