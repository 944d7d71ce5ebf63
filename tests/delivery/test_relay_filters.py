"""The relay where subscriptions have filters, on a real database."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from delivery.adapters.postgres.inspector import PostgresInspector
from delivery.adapters.postgres.jobs import Lanes
from delivery.adapters.postgres.outbox import PostgresOutbox, _Batch
from delivery.jobs import JobState
from delivery.metrics import JOBS, JOINT
from subscriptions.comparing import MAX_STEPS

from .post import Post

ENDLESS = "$.big[?@ == 'x']"
BIG = '{"n": 1, "big": [' + "1," * MAX_STEPS + "1]}"


def discarded(post: Post) -> list[tuple[UUID, str, str]]:
    query = "SELECT (args->>'event_id')::uuid, reason, code FROM tidings.job_done WHERE state = 'discarded' ORDER BY id"
    return post.sql.execute(query).fetchall()


def reads(post: Post, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count how many payloads each reading of them is for."""
    seen, read = list[int](), _Batch.payloads

    async def counted(self: Any, event_ids: Any) -> Any:
        seen.append(len(event_ids))
        return await read(self, event_ids)

    monkeypatch.setattr(_Batch, "payloads", counted)
    return seen


async def test_an_event_that_does_not_match_makes_no_delivery(post: Post) -> None:
    post.subscribe("acme", filter="$.n > 1")
    low, high = post.record(data='{"n": 1}'), post.record(data='{"n": 2}')
    assert await post.relay.turn() == 2
    assert post.jobs() == {high}
    assert low not in post.outbox()


async def test_payloads_are_read_only_where_a_filter_asks(post: Post, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = reads(post, monkeypatch)
    post.subscribe("acme")
    post.record()
    await post.relay.turn()
    assert seen == []
    post.subscribe("other", filter="$.n")
    for owner_id in ("acme", "other", "acme", "other", "nobody"):
        post.record(owner_id)
    await post.relay.turn()
    assert seen == [2]


async def test_a_filter_that_fails_sets_its_delivery_aside_and_nothing_else(post: Post) -> None:
    """It neither drops it nor tries for ever: frain-dev/convoy#2585."""
    odd, fine = post.subscribe("acme", filter=ENDLESS), post.subscribe("acme", filter="$.n == 1")
    event, late = post.record(data=BIG), post.record(data='{"n": 1, "big": ["x"]}')
    assert await post.relay.turn() == 2
    assert await post.relay.turn() == 0
    assert discarded(post) == [(event, "filter_failed", "filter_failed")]
    rows = "SELECT (args->>'endpoint_id')::uuid, (args->>'event_id')::uuid FROM tidings.job"
    assert set(post.sql.execute(rows).fetchall()) == {(fine, event), (fine, late), (odd, late)}
    tries = "SELECT n, outcome, code, detail FROM tidings.attempt"
    [(number, outcome, code, detail)] = post.sql.execute(tries).fetchall()
    assert (number, outcome, code) == (1, "permanent", "filter_failed")
    assert ENDLESS in detail
    assert post.relay._metrics.numbers()[JOBS.name] == {f"webhook.deliver{JOINT}discarded": [1.0]}


async def test_what_was_set_aside_is_sent_once_a_person_retries_it(post: Post) -> None:
    post.subscribe("acme", filter=ENDLESS)
    event = post.record(data=BIG)
    await post.relay.turn()
    [job_id] = post.sql.execute("SELECT id FROM tidings.job_done").fetchone() or ()
    inspector = PostgresInspector(post.database, {}, Lanes(post.database))
    assert (await inspector.get(job_id)).state is JobState.DISCARDED
    back = await inspector.retry(job_id)
    assert (back.state, back.attempt) == (JobState.PENDING, 1)
    assert post.jobs() == {event}


async def test_an_event_that_is_relayed_again_keeps_the_delivery_it_has(post: Post) -> None:
    endpoint = post.subscribe("acme")
    event = post.record(data=BIG)
    await post.relay.turn()
    post.sql.execute("DELETE FROM tidings.subscription")
    post.subscribe("acme", filter=ENDLESS, to=endpoint)
    post.sql.execute("INSERT INTO tidings.outbox (event_id) VALUES (%s)", [event])
    assert await post.relay.turn() == 1
    assert post.jobs() == {event}
    assert discarded(post) == []


async def test_a_filter_that_is_changed_counts_for_the_next_event(post: Post) -> None:
    """A relay that runs honours an edit: frain-dev/convoy#2790."""
    endpoint = post.subscribe("acme", filter="$.n == 1")
    first = post.record(data='{"n": 1}')
    await post.relay.turn()
    post.sql.execute("UPDATE tidings.subscription SET filter = '$.n == 2' WHERE endpoint_id = %s", [endpoint])
    post.sql.execute("UPDATE tidings.routes_version SET version = version + 1")
    post.record(data='{"n": 1}')
    third = post.record(data='{"n": 2}')
    await post.relay.turn()
    assert post.jobs() == {first, third}


async def test_what_nobody_could_read_as_a_filter_loses_nothing(post: Post) -> None:
    """It cannot be registered; a database may hold it all the same."""
    post.subscribe("acme", filter="$.n ==")
    event = post.record()
    assert await post.relay.turn() == 1
    assert discarded(post) == [(event, "filter_failed", "filter_failed")]


@pytest.mark.parametrize("data", ["5", "null", "[]", '"text"', '{"n": 1e400}', '{"n": ' + "9" * 5_000 + "}"])
async def test_no_payload_holds_up_the_relay(post: Post, data: str) -> None:
    post.subscribe("acme", filter="$.n > 1 || $ == 5")
    events = {post.record(data=data), post.record(data='{"n": 7}')}
    assert await post.relay.turn() == 2
    assert post.outbox() == {}
    assert discarded(post) == []
    assert post.jobs() <= events


async def test_a_deep_payload_is_set_aside(post: Post) -> None:
    post.subscribe("acme", filter="$.n > 1")
    depth = 5_000
    event = post.record(data="[" * depth + "]" * depth)
    assert await post.relay.turn() == 1
    [(found, reason, _)] = discarded(post)
    assert (found, reason) == (event, "filter_failed")


async def test_work_beyond_one_batch_goes_on_in_the_next(post: Post) -> None:
    for _ in range(12):
        post.subscribe("acme", filter="$.n == 2")
    others = {post.subscribe("acme", filter=f"$.n == {n} || {ENDLESS}") for n in range(3, 13)}
    event = post.record(data=BIG)
    turns = 0
    while post.outbox():
        await post.relay.turn()
        turns += 1
        assert turns < 50
    assert turns > 1
    assert [found for found, *_ in discarded(post)] == [event] * len(others)


async def test_an_outbox_reads_what_is_asked_for(post: Post) -> None:
    post.subscribe("acme")
    first, second = post.record(data='{"n":  1}'), post.record()
    async with PostgresOutbox(post.database).claim(10) as batch:
        assert await batch.payloads([first]) == {first: '{"n":  1}'}
        assert await batch.payloads([second, first]) == {first: '{"n":  1}', second: "{}"}
        assert await batch.payloads([]) == {}
