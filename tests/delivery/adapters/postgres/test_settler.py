"""The settler: results in batches, until they are written. Against a database that answers as it is told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from delivery.adapters.postgres.settler import BATCH, UNKEPT, Result, Settler, _columns, pause_s
from delivery.attempts import Report
from delivery.errors import InvalidInput, Unavailable
from tests.conformance.patience import eventually


class Answers:
    """Keeps what is written, and answers with every id but those that are stale."""

    def __init__(self, trouble: Callable[[dict[str, Any]], Exception | None] = lambda _: None) -> None:
        self.trouble = trouble
        self.writes: list[dict[str, Any]] = []
        self.stale: set[int] = set()
        self.held: dict[int, int] = {}  #: how often another transaction still holds a job's row

    async def fetch(self, _: bytes, parameters: dict[str, Any], *, quick: bool) -> list[dict[str, Any]]:
        assert quick
        await asyncio.sleep(0)
        error = self.trouble(parameters)
        if error is not None:
            raise error
        self.writes.append(parameters)
        return [
            self._row(*claim)
            for claim in zip(parameters["ids"], parameters["leases"], strict=True)
            if claim[0] not in self.stale
        ]

    def _row(self, job_id: int, lease: int) -> dict[str, Any]:
        left = self.held.get(job_id, 0)
        self.held[job_id] = left - 1
        return {"id": job_id, "due_in_s": None, "held": lease if left > 0 else None}


@asynccontextmanager
async def settling(database: Any, settled: Callable[[Sequence[Any]], None] = lambda _: None) -> AsyncIterator[Settler]:
    settler = Settler(database, settled)
    task = asyncio.create_task(settler.run())
    try:
        yield settler
        async with asyncio.timeout(60):
            await settler.flushed()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def result(job_id: int, **more: Any) -> Result:
    return Result(**{"id": job_id, "lease": 1, "state": "completed", "outcome": "completed"} | more)


async def test_results_of_a_moment_are_written_together_in_the_order_of_their_jobs() -> None:
    database = Answers()
    async with settling(database) as settler:
        for job_id in (3, 1, 2):
            settler.add(result(job_id))
    assert [write["ids"] for write in database.writes] == [[1, 2, 3]]


async def test_more_than_a_batch_is_written_in_batches() -> None:
    database = Answers()
    told: list[int] = []
    async with settling(database, lambda rows: told.extend(row["id"] for row in rows)) as settler:
        for job_id in range(2 * BATCH + 50):
            settler.add(result(job_id))
    assert [len(write["ids"]) for write in database.writes] == [BATCH, BATCH, 50]
    assert told == list(range(2 * BATCH + 50))
    assert len(settler) == 0


async def test_nothing_to_write_is_flushed_already() -> None:
    async with settling(Answers()) as settler:
        async with asyncio.timeout(60):
            await settler.flushed()
        assert settler.stale == 0


async def test_results_that_came_too_late_are_counted() -> None:
    database = Answers()
    database.stale = {2}
    async with settling(database) as settler:
        for job_id in range(1, 4):
            settler.add(result(job_id))
    assert settler.stale == 1


async def test_a_result_whose_job_is_held_is_offered_again_and_keeps_no_other_waiting() -> None:
    database = Answers()
    database.held = {2: 2}
    told: list[int] = []
    async with settling(database, lambda rows: told.extend(row["id"] for row in rows)) as settler:
        for job_id in (1, 2, 3):
            settler.add(result(job_id))
        await eventually(lambda: told == [1, 3])
        assert len(settler) == 1
        settler.add(result(4))
        await eventually(lambda: 4 in told)
        await settler.flushed()
        assert (told[-1], len(settler), settler.stale) == (2, 0, 0)
    assert [write["ids"] for write in database.writes].count([2]) >= 1


async def test_a_result_whose_job_is_held_until_its_claim_is_over_is_stale() -> None:
    database = Answers()
    database.held = {1: 1}
    async with settling(database) as settler:
        settler.add(result(1))
        await eventually(lambda: len(settler) == 1 and database.writes)
        database.stale = {1}
        await settler.flushed()
        assert (settler.stale, len(settler)) == (1, 0)


async def test_a_database_that_is_away_is_asked_again() -> None:
    left = 2

    def trouble(_: dict[str, Any]) -> Exception | None:
        nonlocal left
        left -= 1
        return Unavailable("away") if left >= 0 else None

    database = Answers(trouble)
    async with settling(database) as settler:
        settler.add(result(1))
        settler.add(result(2))
    assert [write["ids"] for write in database.writes] == [[1, 2]]


@pytest.mark.parametrize(("failures", "pause"), [(1, 0.2), (2, 0.4), (6, 5.0), (100_000, 5.0)])
def test_however_long_a_database_is_away_it_is_asked_again_within_seconds(failures: int, pause: float) -> None:
    assert pause_s(failures) == pause


async def test_a_result_that_cannot_be_kept_loses_its_report_and_the_others_nothing() -> None:
    def trouble(parameters: dict[str, Any]) -> Exception | None:
        return InvalidInput("no") if b"bad" in parameters["bodies"] else None

    database = Answers(trouble)
    async with settling(database) as settler:
        settler.add(result(1, report=Report(body=b"good")))
        settler.add(result(2, report=Report(body=b"bad", code="http_200"), memo={"a": 1}))
        settler.add(result(3, report=Report(body=b"good")))
    written = {job_id: write for write in database.writes for job_id in write["ids"]}
    assert sorted(written) == [1, 2, 3]
    assert [write["bodies"] for write in database.writes] == [[b"good"], [None], [b"good"]]
    assert written[2]["codes"] == ["http_200"]
    assert written[2]["details"] != [None]


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("plain", "plain"),
        ("a\x00b", "a\N{REPLACEMENT CHARACTER}b"),
        ("a\ud800b", "a?b"),
        ("🂡" * 5_000, "🂡" * 4_000),
        (None, None),
        ("", ""),
    ],
)
async def test_texts_are_written_as_they_can_be_kept(text: str | None, kept: str | None) -> None:
    database = Answers()
    async with settling(database) as settler:
        settler.add(result(1, reason=text, report=Report(code=text, rule=text, detail=text)))
    [write] = database.writes
    assert [write[column] for column in ("reasons", "codes", "rules", "details")] == [[kept]] * 4


async def test_a_memo_is_written_as_json_and_an_empty_one_as_none() -> None:
    database = Answers()
    async with settling(database) as settler:
        settler.add(result(1, memo={"a": [1]}))
        settler.add(result(2, memo={}))
        settler.add(result(3))
    assert database.writes[0]["memos"] == ['{"a": [1]}', None, None]


class Mute:
    """Has no text."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    ("text", "kept"), [(5, "5"), (["a"], "['a']"), (Mute(), UNKEPT), (b"\x00", "b'\\x00'"), (False, "False")]
)
async def test_texts_that_are_none_cost_no_result(text: Any, kept: str) -> None:
    database = Answers()
    async with settling(database) as settler:
        settler.add(result(1, reason=text, outcome=text, report=Report(code=text, rule=text, detail=text)))
        settler.add(result(2))
    [write] = database.writes
    assert [write[column][0] for column in ("reasons", "outcomes", "codes", "rules", "details")] == [kept] * 5
    assert write["ids"] == [1, 2]


@pytest.mark.parametrize("memo", [{"at": object()}, {"n": float("nan")}, [object()]])
async def test_a_memo_that_is_no_json_costs_no_result(memo: Any) -> None:
    database = Answers()
    async with settling(database) as settler:
        settler.add(result(1, memo=memo))
        settler.add(result(2, memo={"n": 1}))
    [write] = database.writes
    assert write["memos"] == [None, '{"n": 1}']


@pytest.mark.parametrize("error", [TypeError(), ValueError(), AttributeError(), OverflowError(), RuntimeError()])
async def test_a_result_that_the_driver_cannot_take_costs_no_other(error: Exception) -> None:
    def trouble(parameters: dict[str, Any]) -> Exception | None:
        return error if "five" in parameters["statuses"] else None

    database = Answers(trouble)
    async with settling(database) as settler:
        settler.add(result(1, report=Report(status="five")))  # type: ignore[arg-type]
        settler.add(result(2))
    assert sorted(job_id for write in database.writes for job_id in write["ids"]) == [1, 2]


def test_a_claim_is_settled_once_however_often_it_is_told() -> None:
    columns = _columns([result(2, took_ms=1), result(1, took_ms=5), result(2, took_ms=9)])
    assert (columns["ids"], columns["took"]) == ([1, 2], [5, 1])
