"""The relay on a real database, in every kind of trouble."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import pytest

from delivery.adapters.postgres.outbox import PostgresOutbox
from delivery.errors import ConfigurationError, TransactionConflict, Unavailable

from .post import Post

#: Two places where a relay asks for no rows, and so hears of trouble late: as a row leaves the outbox, and at commit.
LATE = {
    "removal": "CREATE TRIGGER late BEFORE DELETE ON tidings.outbox FOR EACH ROW EXECUTE FUNCTION public.late('{}');",
    "commit": "CREATE CONSTRAINT TRIGGER late AFTER INSERT ON tidings.job_identity DEFERRABLE INITIALLY DEFERRED"
    " FOR EACH ROW EXECUTE FUNCTION public.late('{}');",
}
BE_LATE = """
CREATE FUNCTION public.late() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'refused late' USING ERRCODE = TG_ARGV[0];
END $$;
"""


async def test_a_turn_moves_a_batch_on_and_says_how_many_rows(post: Post) -> None:
    post.subscribe("acme")
    events = {post.record(), post.record()}
    nobody = post.record("nobody")  # who subscribed to nothing: relayed, too
    assert await post.relay.turn() == 3
    assert post.jobs() == events
    assert nobody not in post.outbox()
    assert post.relay.relayed == 3
    assert await post.relay.turn() == 0


async def test_subscriptions_are_read_once_until_they_change(post: Post) -> None:
    post.subscribe("acme")
    for _ in range(3):
        post.record()
        await post.relay.turn()
    assert len(post.compiled) == 1
    post.subscribe("acme")
    post.record()
    await post.relay.turn()
    assert len(post.compiled) == 2
    post.record("other")
    await post.relay.turn()
    assert len(post.compiled) == 3, "the routes of an owner not met before were not read"


async def test_routes_of_a_history_that_was_lost_are_not_believed(post: Post) -> None:
    post.subscribe("acme")
    post.record()
    await post.relay.turn()
    post.sql.execute("DELETE FROM tidings.subscription")  # a standby took over that had not heard of it
    post.sql.execute("UPDATE tidings.routes_version SET version = version - 1")
    endpoint = post.subscribe("acme")
    event = post.record()
    await post.relay.turn()
    jobs = "SELECT args->>'endpoint_id' FROM tidings.job WHERE args->>'event_id' = %s"
    assert post.sql.execute(jobs, [str(event)]).fetchall() == [(str(endpoint),)]


async def test_no_more_owners_routes_are_kept_than_fit(post: Post, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("delivery.relay.KEPT_OWNERS", 3, raising=False)
    for number in range(9):
        post.record(f"owner{number}")
        post.record("acme")
        await post.relay.turn()
    assert len(post.relay._routes) <= 3


@pytest.mark.parametrize(
    ("sqlstate", "error"),
    [
        ("53300", Unavailable),
        ("57P01", Unavailable),
        ("25006", ConfigurationError),
        ("42P01", ConfigurationError),
        ("40001", TransactionConflict),
        ("40P01", TransactionConflict),
    ],
)
async def test_trouble_of_the_database_counts_against_no_row(post: Post, sqlstate: str, error: type[Exception]) -> None:
    post.subscribe("acme")
    event = post.record()
    post.refuse(sqlstate, "acme")
    with pytest.raises(error):
        await post.relay.turn()
    assert post.outbox() == {event: 0}
    post.relent()
    assert await post.relay.turn() == 1
    assert post.jobs() == {event}


@pytest.mark.parametrize("sqlstate", ["22003", "23514", "XX001", "P0001"])
async def test_a_row_that_the_database_refuses_fails_alone(post: Post, sqlstate: str) -> None:
    for owner_id in ("acme", "bad"):
        post.subscribe(owner_id)
    good, bad, late = post.record(), post.record("bad"), post.record()
    post.refuse(sqlstate, "bad")
    before = post.now()
    assert await post.relay.turn() == 3
    assert post.jobs() == {good, late}
    assert post.outbox() == {bad: 1}
    [error, next_at] = post.sql.execute("SELECT error, next_at FROM tidings.outbox").fetchone() or ()
    assert "refused" in error
    assert next_at >= before + timedelta(seconds=2), "it was not set aside"
    post.sql.execute("UPDATE tidings.outbox SET next_at = next_at + interval '1 hour'")  # for as long as this takes
    assert await post.relay.turn() == 0


@pytest.mark.parametrize("sqlstate", ["53300", "25006", "40001"])
async def test_trouble_while_rows_go_one_by_one_counts_against_none_of_them(post: Post, sqlstate: str) -> None:
    for owner_id in ("acme", "bad"):
        post.subscribe(owner_id)
    post.sql.execute("UPDATE tidings.subscription SET patterns = '{no..pattern}' WHERE owner_id = 'bad'")
    bad, good = post.record("bad"), post.record()
    post.refuse(sqlstate, "acme")
    with pytest.raises((Unavailable, ConfigurationError, TransactionConflict)):
        await post.relay.turn()
    assert post.outbox() == {bad: 1, good: 0}


@pytest.mark.parametrize("where", LATE)
async def test_trouble_that_shows_late_undoes_the_whole_turn(post: Post, where: str) -> None:
    post.subscribe("acme")
    event = post.record()
    post.sql.execute(BE_LATE + LATE[where].format("40001"))
    with pytest.raises(TransactionConflict):
        await post.relay.turn()
    assert post.outbox() == {event: 0}
    assert post.jobs() == set()
    post.sql.execute("DROP FUNCTION public.late CASCADE")
    assert await post.relay.turn() == 1
    assert post.jobs() == {event}
    assert post.outbox() == {}


@pytest.mark.parametrize("where", LATE)
async def test_a_row_that_is_refused_late_fails(post: Post, where: str) -> None:
    post.subscribe("acme")
    event = post.record()
    post.sql.execute(BE_LATE + LATE[where].format("23514"))
    assert await post.relay.turn() == 1
    assert post.outbox() == {event: 1}
    assert post.jobs() == set()
    [error] = post.sql.execute("SELECT error FROM tidings.outbox").fetchone() or ()
    assert "refused late" in error


async def test_a_kind_that_nobody_declared_fails_its_event_alone(post: Post) -> None:
    post.subscribe("acme")
    post.subscribe("odd", handler="unknown")
    post.subscribe("handy", handler="known")
    odd, good, handy = post.record("odd"), post.record(), post.record("handy")
    assert await post.relay.turn() == 3
    assert post.jobs() == {good, handy}
    assert post.outbox() == {odd: 1}


async def test_a_row_that_failed_waits_longer_each_time_and_is_left_alone_at_five(post: Post) -> None:
    post.subscribe("acme")
    post.refuse("22003", "acme")
    event = post.record()
    for failures, wait_s in enumerate([2, 4, 8, 16, 32], 1):
        before = post.now()
        assert await post.relay.turn() == 1
        after = post.now()
        assert post.outbox() == {event: failures}
        [next_at] = post.sql.execute("SELECT next_at FROM tidings.outbox").fetchone() or ()
        assert before <= next_at - timedelta(seconds=wait_s) <= after
        post.sql.execute("UPDATE tidings.outbox SET next_at = now()")
    post.relent()
    assert await post.relay.turn() == 0, "a poisoned row is for a person to requeue"
    assert await PostgresOutbox(post.database).requeue(event)
    assert await post.relay.turn() == 1
    assert post.jobs() == {event}


async def test_an_error_text_that_cannot_be_kept_is_kept_in_part(post: Post) -> None:
    event = post.record()
    outbox = PostgresOutbox(post.database)
    assert await outbox.failed(event, "a\x00b" + "x" * 600, timedelta(seconds=1), timedelta(seconds=2)) == 1
    [error] = post.sql.execute("SELECT error FROM tidings.outbox").fetchone() or ()
    assert error.startswith("a")
    assert len(error) == 500
    assert await outbox.failed(uuid4(), "gone", timedelta(seconds=1), timedelta(seconds=2)) == 0
    assert not await outbox.requeue(uuid4())


async def test_an_event_that_another_relay_holds_is_passed_over(post: Post) -> None:
    post.subscribe("acme")
    held, free = post.record(), post.record()
    async with PostgresOutbox(post.database).claim(1) as batch:
        assert [row.event.id for row in batch.rows] == [held]
        assert await post.relay.turn() == 1
        assert post.jobs() == {free}
    assert await post.relay.turn() == 1
    assert post.jobs() == {held, free}
