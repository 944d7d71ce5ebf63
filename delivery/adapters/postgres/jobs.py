"""Enqueue jobs: one statement for many, in the caller's transaction or in one of our own."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Self
from uuid import UUID

from psycopg import AsyncConnection
from psycopg.rows import DictRow, dict_row

from delivery.adapters.postgres.database import Database
from delivery.adapters.postgres.discards import note_discards
from delivery.adapters.postgres.faults import mapped
from delivery.adapters.postgres.pools import LAST
from delivery.adapters.postgres.statements import statement
from delivery.attempts import Report
from delivery.errors import Conflict, InvalidInput
from delivery.jobs import DEFAULT, Enqueued, EnqueueOptions, JobId, JobKind, JobState, JsonObject, NewJob

#: The channel that rings for lanes with new work: `slot` or `slot+seconds`, comma-separated, or `*` for "sweep".
JOBS_CHANNEL = "tidings_jobs"
_PAYLOAD_BYTES = 7_000
_PRIORITIES = range(-3, 4)
#: Of a lane's and an owner's name: with a kind's, it still fits into an index, whatever the characters.
_MOST_CHARACTERS = 255
_JSON = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_JSON_TEXT = json.encoder.encode_basestring
_WRITTEN_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
#: The statement that adds what does not stand yet, and the one that finds what stands.
_BY_IDENTITY = ("enqueue_by_identity", "find_by_identity")
_BY_KEY = ("enqueue_by_key", "find_by_key")


class Lanes:
    """Lane ids by key; a lane is made when its first job is enqueued and never goes."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._ids: dict[str, int] = {}
        self._owners: dict[str, str | None] = {}

    async def ids(
        self, wanted: Mapping[str, tuple[str | None, JobKind]], tx: AsyncConnection[Any] | None = None
    ) -> dict[str, int]:
        """Return the ids of lanes given as key -> (owner, kind), making those that are missing.

        Read on the caller's connection, where there is one. Made in a transaction of its own, so that a caller's
        rollback leaves no id behind that is not there, and no caller waits until another's transaction ends; from
        the other pool, so that callers who hold all connections of theirs do not wait for one another.
        """
        missing = [key for key in wanted if key not in self._ids]
        if missing:
            await self._read(missing, tx)
            missing = [key for key in missing if key not in self._ids]
        if missing:
            kinds = [wanted[key][1] for key in missing]
            queues = [kind.queue for kind in kinds]
            await self._database.fetch(statement("ensure_queues"), {"queues": queues}, quick=True)
            parameters = {
                "keys": missing,
                "owners": [wanted[key][0] for key in missing],
                "limits": [kind.limit for kind in kinds],
                "cautious": [kind.cautious for kind in kinds],
                "queues": queues,
            }
            await self._database.fetch(statement("ensure_lanes"), parameters, quick=True)
            await self._read(missing)
        for key, (owner_id, _) in wanted.items():
            if self._owners[key] != owner_id:
                raise Conflict(f"lane {key!r} is another owner's: name a lane of this owner's")
        return {key: self._ids[key] for key in wanted}

    async def find(self, key: str) -> int | None:
        """Return a lane's id, or None where no job was ever enqueued on it."""
        if key not in self._ids:
            await self._read([key])
        return self._ids.get(key)

    async def _read(self, keys: Sequence[str], tx: AsyncConnection[Any] | None = None) -> None:
        parameters = {"keys": list(keys)}
        if tx is None:
            rows = await self._database.fetch(statement("read_lane_ids"), parameters, quick=True)
        else:
            with mapped():
                rows = await _rows(tx, "read_lane_ids", parameters)
        self._ids |= {row["key"]: row["id"] for row in rows}
        self._owners |= {row["key"]: row["owner_id"] for row in rows}


@dataclass(slots=True)
class _Placed:
    """One job with its lane found and its arguments written."""

    position: int
    job: NewJob
    kind: JobKind
    slot: int
    args: str


class PostgresJobs:
    """`delivery.jobs.Jobs`."""

    def __init__(
        self, database: Database, find: Callable[[str], JobKind], lanes: Lanes, tx: AsyncConnection[Any] | None = None
    ) -> None:
        """Enqueue kinds that `find` knows; it raises UnknownKind for others."""
        self._database, self._find, self._lanes, self._tx = database, find, lanes, tx

    def with_(self, tx: AsyncConnection[Any], /) -> Self:
        """Bind to the caller's transaction."""
        return type(self)(self._database, self._find, self._lanes, tx)

    async def enqueue(self, kind: str, args: JsonObject, options: EnqueueOptions = DEFAULT) -> JobId:
        """Add one job, or return the one already there."""
        [enqueued] = await self.enqueue_many([NewJob(kind=kind, args=args, options=options)])
        return enqueued.id

    async def enqueue_many(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        """Add many jobs at once."""
        if not jobs:
            return []
        placed = await self._place(jobs)
        if self._tx is not None:
            with mapped():
                return await _enqueue(self._tx, placed)
        async with self._database.transaction() as tx:
            return await _enqueue(tx, placed)

    async def _place(self, jobs: Sequence[NewJob]) -> list[_Placed]:
        lanes: dict[str, tuple[str | None, JobKind]] = {}
        for job in jobs:
            kind = self._find(job.kind)
            _check(job.options)
            lanes.setdefault(_lane(job), (job.options.owner_id, kind))
        ids = await self._lanes.ids(lanes, self._tx)
        return [
            _Placed(
                position,
                job,
                self._find(job.kind),
                ids[_lane(job)] * 8 + job.options.priority + 4,
                _text(job.args),
            )
            for position, job in enumerate(jobs)
        ]


def _check(options: EnqueueOptions) -> None:
    """Refuse what cannot be kept, or not be read again."""
    if type(options.priority) is not int or options.priority not in _PRIORITIES:
        raise InvalidInput(f"priority {options.priority!r} is no int within -3 and 3")
    for what, name in (("lane", options.lane), ("owner_id", options.owner_id)):
        if name is not None and not isinstance(name, str):
            raise InvalidInput(f"{what} is no text: {type(name).__name__}")
        if name is not None and len(name) > _MOST_CHARACTERS:
            raise InvalidInput(f"{what} is {len(name)} characters long, the most is {_MOST_CHARACTERS}: shorten it")
    if options.run_at is None:
        return
    if options.run_at.utcoffset() is None:
        raise InvalidInput("run_at has no time zone: pass an aware datetime, such as datetime.now(UTC)")
    if options.run_at > LAST:
        raise InvalidInput(f"run_at is past the year 9999 in UTC: pass a time before {LAST:%Y-%m-%d}")


def _lane(job: NewJob) -> str:
    """Name the lane of a job: the one that it asks for, or that of its kind and owner."""
    if job.options.lane is not None:
        return job.options.lane
    return job.kind if job.options.owner_id is None else f"{job.kind} of {job.options.owner_id}"


async def _enqueue(tx: AsyncConnection[Any], placed: Sequence[_Placed]) -> list[Enqueued]:
    found: dict[int, Enqueued] = {}
    plain = [p for p in placed if not p.job.options.unique_by_args]
    unique = [p for p in placed if p.job.options.unique_by_args]
    by_identity = [p for p in unique if p.kind.identity is not None]
    by_key = [p for p in unique if p.kind.identity is None]
    if plain:
        rows = await _rows(tx, "enqueue_jobs", _columns(plain))
        found |= {plain[row["ord"] - 1].position: Enqueued(id=row["id"], is_new=True) for row in rows}
    if by_identity:
        found |= await _enqueue_unique(tx, by_identity, _BY_IDENTITY, _identities(by_identity))
    if by_key:
        found |= await _enqueue_unique(tx, by_key, _BY_KEY, {"digests": [_digest(p) for p in by_key]})
    new = [p for p in placed if found[p.position].is_new]
    if unrun := [p for p in new if p.job.discarded is not None]:
        await _discard(tx, [(found[p.position].id, p) for p in unrun])
    await ring(tx, [(p.slot, p.job.options.run_at) for p in new if p.job.discarded is None])
    return [found[p.position] for p in placed]


async def _discard(tx: AsyncConnection[Any], unrun: Sequence[tuple[JobId, _Placed]]) -> None:
    """End jobs that were just added, and note which are deliveries that somebody wants to hear of."""
    ids = [job_id for job_id, _ in unrun]
    reports = [p.job.discarded or Report() for _, p in unrun]
    parameters = {
        "ids": ids,
        "outcomes": [report.outcome or JobState.DISCARDED.value for report in reports],
        "codes": [report.code or JobState.DISCARDED.value for report in reports],
        "details": [report.detail for report in reports],
    }
    await tx.execute(statement("discard_jobs"), parameters)
    await note_discards(tx, ids)


async def _enqueue_unique(
    tx: AsyncConnection[Any], placed: Sequence[_Placed], by: tuple[str, str], keys: dict[str, Any]
) -> dict[int, Enqueued]:
    columns = _columns(placed)
    rows = await _rows(tx, by[0], columns | keys)
    found = {placed[row["ord"] - 1].position: Enqueued(id=row["id"], is_new=True) for row in rows}
    if len(found) < len(placed):
        rows = await _rows(tx, by[1], keys | {"kinds": columns["kinds"]})
        for row in rows:
            found.setdefault(placed[row["ord"] - 1].position, Enqueued(id=row["id"], is_new=False))
    return found


def _columns(placed: Sequence[_Placed]) -> dict[str, Any]:
    return {
        "kinds": [p.kind.name for p in placed],
        "lanes": [p.slot for p in placed],
        "args": [p.args for p in placed],
        "priorities": [p.job.options.priority for p in placed],
        "run_ats": [p.job.options.run_at for p in placed],
        "max_attempts": [p.kind.max_attempts for p in placed],
    }


def _identities(placed: Sequence[_Placed]) -> dict[str, Any]:
    pairs = []
    for p in placed:
        assert p.kind.identity is not None  # noqa: S101 - the caller chose them by it
        try:
            pairs.append([_uuid(p.job.args[name]) for name in p.kind.identity])
        except (KeyError, ValueError) as error:
            raise InvalidInput(f"jobs of kind {p.kind.name} need the UUID arguments {p.kind.identity}") from error
    return {"firsts": [first for first, _ in pairs], "seconds": [second for _, second in pairs]}


def _uuid(value: Any) -> UUID | str:
    """Return what can be nothing but a UUID; as text where it is in the form that a UUID is written in."""
    return value if isinstance(value, str) and _is_written_uuid(value) else UUID(str(value))


@lru_cache(maxsize=50_000)
def _is_written_uuid(text: str) -> bool:
    return _WRITTEN_UUID.fullmatch(text) is not None


def _digest(placed: _Placed) -> bytes:
    kept = json.loads(placed.args)  # whose keys are text, and each there once
    canonical = json.dumps(kept, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(f"{placed.kind.name}\n{canonical}".encode()).digest()


def _text(args: JsonObject) -> str:
    if not isinstance(args, dict):
        raise InvalidInput(f"job arguments are no JSON object: {type(args).__name__}")
    try:
        text = _plain(args) if {*map(type, args), *map(type, args.values())} == {str} else _JSON.encode(args)
        text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"job arguments cannot be written as JSON: {error}") from error
    if "\\u0000" in text and "\\u0000" in text.replace("\\\\", ""):
        raise InvalidInput("job arguments hold the character NUL: remove it")
    return text


def _plain(args: Mapping[str, str]) -> str:
    """Write texts by name, which most arguments are, as the encoder would, in half of its time."""
    return f"{{{','.join([f'{_JSON_TEXT(name)}:{_JSON_TEXT(text)}' for name, text in args.items()])}}}"


async def _rows(tx: AsyncConnection[Any], name: str, parameters: dict[str, Any]) -> list[DictRow]:
    async with tx.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(statement(name), parameters)
        return await cursor.fetchall()


async def ring(tx: AsyncConnection[Any], slots: Iterable[tuple[int, datetime | None]]) -> None:
    """Tell the owners of these lanes, when the transaction commits, that work is or will be due."""
    now = datetime.now(UTC)
    words = {_word(slot, run_at, now) for slot, run_at in slots}
    if not words:
        return
    payload = ",".join(sorted(words))
    if len(payload) > _PAYLOAD_BYTES:
        payload = "*"
    async with tx.cursor() as cursor:
        await cursor.execute(statement("ring_jobs"), {"slots": payload})


def _word(slot: int, run_at: datetime | None, now: datetime) -> str:
    seconds = 0.0 if run_at is None else (run_at - now).total_seconds()
    return str(slot) if seconds <= 0 else f"{slot}+{seconds:.3f}"
