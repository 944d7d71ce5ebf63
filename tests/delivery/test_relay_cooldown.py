"""Endpoints that fail get new deliveries later, and once they recover one after the other."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from itertools import pairwise
from uuid import UUID

import pytest

from delivery.adapters.postgres.health import APART, MOST_LET_GO, PostgresHealth
from delivery.adapters.postgres.outbox import PostgresOutbox
from delivery.health import COOLS_AFTER
from tests.conformance.patience import eventually

from .post import Post

FIVE = timedelta(minutes=5)


@pytest.fixture
def health(post: Post) -> PostgresHealth:
    return PostgresHealth(post.database, write_every_s=0)


async def fails(health: PostgresHealth, endpoint: UUID, times: int = COOLS_AFTER) -> None:
    """Let tries fail, one after the other."""
    for _ in range(times):
        await health.failed(endpoint, "http_500")


def starts(post: Post, endpoint: UUID) -> list[timedelta]:
    """Return how long from now each delivery to an endpoint starts, in the order in which their events came."""
    now = post.now()
    rows = post.sql.execute(
        "SELECT run_at FROM tidings.job WHERE args->>'endpoint_id' = %s ORDER BY id", [str(endpoint)]
    )
    return [run_at - now for (run_at,) in rows]


async def relay(post: Post, number: int = 1) -> tuple[datetime, datetime]:
    """Record events, relay them, and return between which times that was."""
    before = post.now()
    for _ in range(number):
        post.record()
    await post.relay.turn()
    return before, post.now()


async def test_new_deliveries_to_who_fails_start_five_minutes_out_and_to_others_at_once(
    post: Post, health: PostgresHealth
) -> None:
    broken, well = post.subscribe("acme"), post.subscribe("acme")
    await fails(health, broken)
    before, after = await relay(post)
    rows = post.sql.execute("SELECT args->>'endpoint_id', run_at FROM tidings.job")
    run_at = {UUID(str(endpoint)): at for endpoint, at in rows}
    assert before + FIVE <= run_at[broken] <= after + FIVE
    assert run_at[well] <= after


@pytest.mark.parametrize("change", ["policy = 'demo'", "state = 'disabled'"])
async def test_a_policy_without_a_cooldown_has_none_and_what_is_parked_needs_none(
    post: Post, health: PostgresHealth, change: str
) -> None:
    broken = post.subscribe("acme")
    await fails(health, broken)
    post.sql.execute(f"UPDATE tidings.endpoint SET {change}".encode())
    if "disabled" in change:
        post.sql.execute("UPDATE tidings.endpoint_health SET probe_at = now() + interval '1 hour'")
    await relay(post)
    [start] = starts(post, broken)
    assert start <= timedelta(0)


async def test_what_waits_is_tried_before_its_policy_lets_it_expire(post: Post, health: PostgresHealth) -> None:
    broken = post.subscribe("acme")
    await fails(health, broken)
    post.sql.execute("INSERT INTO tidings.policy VALUES ('brief', '{1000}', 2, 1000, 120000, 'short')")
    post.sql.execute("UPDATE tidings.endpoint SET policy = 'brief'")
    before, after = await relay(post)
    [[run_at]] = post.sql.execute("SELECT run_at FROM tidings.job").fetchall()
    assert before + timedelta(minutes=1) <= run_at <= after + timedelta(minutes=1)


async def test_the_cooldown_may_be_another_or_none(post: Post, health: PostgresHealth) -> None:
    broken = post.subscribe("acme")
    await fails(health, broken)
    for cooldown in (timedelta(hours=1), timedelta(0)):
        post.relay = post.new_relay(PostgresOutbox(post.database), cooldown=cooldown)
        before, after = await relay(post)
        [[last]] = post.sql.execute("SELECT run_at FROM tidings.job ORDER BY id DESC LIMIT 1").fetchall()
        assert before + cooldown <= last <= after + cooldown


async def test_the_first_success_lets_what_waits_go_in_turn_and_not_all_at_once(
    post: Post, health: PostgresHealth
) -> None:
    broken = post.subscribe("acme")
    await fails(health, broken)
    await relay(post, 50)
    before = post.now()
    await health.recovered(broken)
    after = post.now()
    run_ats = [at for (at,) in post.sql.execute("SELECT run_at FROM tidings.job ORDER BY id")]
    assert before + APART <= run_ats[0] <= after + APART
    assert {later - earlier for earlier, later in pairwise(run_ats)} == {APART}
    await relay(post)
    assert starts(post, broken)[-1] <= timedelta(0), "a success ended it"


async def test_what_was_tried_already_keeps_to_its_next_try(post: Post, health: PostgresHealth) -> None:
    broken = post.subscribe("acme")
    await fails(health, broken)
    await relay(post)
    post.sql.execute("UPDATE tidings.job SET attempt = 1, state = 'retryable'")
    await health.recovered(broken)
    [start] = starts(post, broken)
    assert start > timedelta(minutes=1)


async def test_no_more_than_a_bounded_number_is_written_and_none_is_put_off(post: Post, health: PostgresHealth) -> None:
    """What is left starts when it was to, in its order."""
    broken = post.subscribe("acme")
    await fails(health, broken)
    await relay(post)
    post.sql.execute(
        "INSERT INTO tidings.job (kind, lane, args, max_attempts, run_at)"
        " SELECT kind, lane, args, max_attempts, now() + n * interval '100 ms' FROM tidings.job,"
        " generate_series(1, %s) AS n",
        [MOST_LET_GO + 100],
    )
    post.sql.execute("CREATE TABLE public.before AS SELECT id, run_at FROM tidings.job")
    await health.recovered(broken)
    [[moved, later]] = post.sql.execute(
        "SELECT count(*) FILTER (WHERE j.run_at <> b.run_at), count(*) FILTER (WHERE j.run_at > b.run_at)"
        " FROM tidings.job AS j JOIN public.before AS b USING (id)"
    ).fetchall()
    assert 0 < moved <= MOST_LET_GO
    assert later == 0


async def test_another_lane_is_left_alone(post: Post, health: PostgresHealth) -> None:
    broken, other = post.subscribe("acme"), post.subscribe("acme")
    for endpoint in (broken, other):
        await fails(health, endpoint)
    await relay(post)
    await health.recovered(broken)
    assert starts(post, broken)[0] < timedelta(minutes=1) < starts(post, other)[0]


async def test_a_try_that_failed_for_once_holds_up_nothing(post: Post, health: PostgresHealth) -> None:
    """As one does whose event the receiver refuses."""
    broken = post.subscribe("acme")
    await fails(health, broken, COOLS_AFTER - 1)
    await relay(post)
    [start] = starts(post, broken)
    assert start <= timedelta(0)


async def test_what_is_relayed_as_the_endpoint_recovers_does_not_stay_behind(
    post: Post, health: PostgresHealth
) -> None:
    """The success waits until what was held back is there to be let go."""
    broken = post.subscribe("acme")
    await fails(health, broken)
    post.record()
    async with PostgresOutbox(post.database).claim(10) as batch:
        assert set(await batch.not_before([broken], FIVE, [])) == {broken}
        recovering = asyncio.ensure_future(health.recovered(broken))

        def waits() -> bool:
            who = "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
            return bool(post.sql.execute(who).fetchall())

        await eventually(waits)
        assert not recovering.done()
    await recovering
    async with PostgresOutbox(post.database).claim(10) as batch:
        assert await batch.not_before([broken], FIVE, []) == {}
