"""Plans of batches in which some subscriptions have filters."""

from __future__ import annotations

from uuid import UUID

import pytest

from delivery.compiler import Plan, Routes, compile_routes, jobs_for
from delivery.outbox import OutboxRow
from delivery.sieve import FILTER_FAILED, Sieve
from subscriptions.comparing import MAX_STEPS
from subscriptions.model import EndpointTarget, Exposure, HandlerTarget, Subscription, Target

from .test_compiler import INTERNAL, START, WEBHOOK, endpoint, row

ENDLESS = "$.big[?@ == 'x']"
SMALL, BIG = '{"n": 1}', '{"n": 1, "big": [' + "1," * MAX_STEPS + "1]}"


def to(target: Target, filter: str | None = None, pattern: str = "*") -> Subscription:
    return Subscription(
        id=UUID(int=0), owner_id="acme", name="any", patterns=(pattern,), filter=filter, target=target, created_at=START
    )


def planned(rows: list[OutboxRow], routes: Routes, data: str = SMALL, chunk: int = 100, budget: int = 10**9) -> Plan:
    sieve = Sieve({each.event.id: data for each in rows}, budget=budget)
    return jobs_for(rows, {"acme": routes}, chunk=chunk, sieve=sieve)


def served(plan: Plan) -> list[tuple[str, str | None]]:
    return [(job.args.get("endpoint_id", job.kind)[-2:], job.discarded and job.discarded.code) for job in plan.jobs]


def test_an_event_goes_where_its_payload_is_wanted():
    routes = compile_routes(
        [to(endpoint(1)), to(endpoint(2), "$.n == 1"), to(endpoint(3), "$.n == 2"), to(HandlerTarget(kind="handler.h"))]
    )
    plan = planned([row(9)], routes)
    assert served(plan) == [("01", None), ("02", None), (".h", None)]
    assert plan.relayed == (UUID(int=9),)


def test_an_event_that_nobody_wants_is_relayed_and_makes_nothing():
    plan = planned([row(9)], compile_routes([to(endpoint(1), "$.n > 5")]))
    assert plan == Plan(jobs=(), relayed=(UUID(int=9),), kept=())


@pytest.mark.parametrize("order", [1, -1])
def test_of_several_subscriptions_to_one_endpoint_one_is_enough(order: int):
    """Also without a filter. The same whatever order they come in."""
    for filters, wanted in [
        ((None, "$.n == 2"), [("01", None)]),
        (("$.n == 1", "$.n == 2"), [("01", None)]),
        (("$.n == 3", "$.n == 2"), []),
        ((ENDLESS, "$.n == 1"), [("01", None)]),
        ((ENDLESS, "$.n == 2"), [("01", FILTER_FAILED)]),
    ]:
        routes = compile_routes([to(endpoint(1), each) for each in filters[::order]])
        assert served(planned([row(9)], routes, BIG)) == wanted


def test_a_filter_counts_for_the_types_of_its_own_subscription():
    routes = compile_routes([to(endpoint(1), "$.n == 2", "invoice.*"), to(endpoint(1), None, "order.*")])
    assert routes.is_sifted("invoice.paid", WEBHOOK)
    assert not routes.is_sifted("order.paid", WEBHOOK)
    assert served(planned([row(9, event_type="order.paid")], routes)) == [("01", None)]
    assert served(planned([row(9)], routes)) == []


def test_what_never_leaves_is_not_read():
    routes = compile_routes([to(endpoint(1), "$.n == 1"), to(HandlerTarget(kind="handler.h"))])
    assert routes.has_filters
    assert not routes.is_sifted("invoice.paid", INTERNAL)
    assert not compile_routes([to(endpoint(1))]).has_filters
    assert served(planned([row(9, exposure=Exposure.INTERNAL)], routes)) == [(".h", None)]


def test_where_a_filter_fails_that_delivery_alone_is_set_aside():
    routes = compile_routes([to(endpoint(1), ENDLESS), to(endpoint(2), "$.n == 1"), to(endpoint(3))])
    plan = planned([row(8), row(9)], routes, BIG)
    assert served(plan) == [("01", FILTER_FAILED), ("02", None), ("03", None)] * 2
    assert len(plan.relayed) == 2


def test_what_is_beyond_the_work_of_a_batch_waits_where_it_stands():
    routes = compile_routes([to(endpoint(number), f"$.n == {number} || {ENDLESS}") for number in (1, 2, 3)])
    rows, seen = [row(8), row(9)], list[tuple[str, str | None]]()
    for _ in range(20):
        plan = planned(rows, routes, BIG, budget=1)
        assert plan.jobs or plan.kept or plan.relayed, "each batch moves on"
        seen += served(plan)
        kept = dict(plan.kept)
        left = [each for each in rows if each.event.id not in plan.relayed]
        rows = [row(each.event.id.int, after_target=kept.get(each.event.id, each.after_target)) for each in left]
        if not rows:
            break
    assert rows == []
    assert seen == [("01", None), ("02", FILTER_FAILED), ("03", FILTER_FAILED)] * 2


def test_events_without_filters_do_not_wait_for_those_with():
    routes = compile_routes([to(endpoint(1), ENDLESS, "invoice.*"), to(endpoint(2), None, "order.*")])
    rows = [row(1), row(2), row(3, event_type="order.paid")]
    plan = planned(rows, routes, BIG, budget=1)
    assert plan.relayed == (UUID(int=1), UUID(int=3))


@pytest.mark.parametrize("budget", [1, 10**9])
def test_a_big_fan_out_with_filters_serves_each_target_once(budget: int):
    wants = [to(EndpointTarget(endpoint_id=UUID(int=n)), "$.n == 1" if n % 3 else "$.n == 2") for n in range(1, 40)]
    routes, waiting, seen = compile_routes(wants), [row(99)], list[str]()
    while waiting:
        plan = planned(waiting, routes, chunk=10, budget=budget)
        assert len(plan.jobs) <= 10
        seen += [name for name, _ in served(plan)]
        waiting = [row(event_id.int, after_target=after) for event_id, after in plan.kept]
    assert len(seen) == len(set(seen)) == 26
