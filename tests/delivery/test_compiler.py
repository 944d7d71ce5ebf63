from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import count
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delivery.compiler import (
    DELIVER,
    MEMO_SIZE,
    Routes,
    compile_owners,
    compile_routes,
    deliver_kind,
    endpoint_lane,
    handler_kind,
    job_for,
    jobs_for,
    route_to,
)
from delivery.events import Event
from delivery.jobs import EnqueueOptions, Job
from delivery.outbox import OutboxRow
from subscriptions.errors import InvalidPattern
from subscriptions.match import Pattern, matches
from subscriptions.model import EndpointTarget, Exposure, HandlerTarget, Subscription, Target
from subscriptions.policies import MAX_ATTEMPTS, POLICIES

START = datetime(2026, 1, 1, tzinfo=UTC)
WEBHOOK, INTERNAL = Exposure.WEBHOOK, Exposure.INTERNAL


def endpoint(number: int) -> EndpointTarget:
    return EndpointTarget(endpoint_id=UUID(int=number))


def to(target: Target, *patterns: str, owner_id: str | None = "acme") -> Subscription:
    """Subscribe a target; name and id do not matter here."""
    return Subscription(
        id=UUID(int=0), owner_id=owner_id, name="any", patterns=patterns, target=target, created_at=START
    )


def row(
    number: int,
    *,
    owner_id: str = "acme",
    event_type: str = "invoice.paid",
    subject: str | None = None,
    occurred_at: datetime = START,
    exposure: Exposure = WEBHOOK,
    after_target: str | None = None,
) -> OutboxRow:
    event = Event(
        id=UUID(int=number),
        owner_id=owner_id,
        type=event_type,
        subject=subject,
        occurred_at=occurred_at,
        data="",
    )
    return OutboxRow(event=event, exposure=exposure, after_target=after_target)


def fan(size: int) -> Routes:
    """Route everything to `size` endpoints."""
    return compile_routes([to(endpoint(number), "*") for number in range(1, size + 1)])


def names(routes: Routes, event_type: str, exposure: Exposure = WEBHOOK) -> list[str]:
    return [route.sort_key for route in routes.targets(event_type, exposure)]


async def nothing(job: Job) -> None:
    """Handle a job."""


def test_a_delivery_goes_into_its_endpoints_lane_once_in_its_life():
    job = job_for(row(1).event, route_to(endpoint(7)))
    assert job.kind == DELIVER == "webhook.deliver"
    assert job.args == {"event_id": str(UUID(int=1)), "endpoint_id": str(UUID(int=7)), "type": "invoice.paid"}
    assert job.options == EnqueueOptions(
        unique_by_args=True, lane=f"endpoint:{UUID(int=7)}", owner_id="acme", run_at=None
    )


def test_a_handler_runs_in_the_lane_of_its_kind_for_the_platform():
    job = job_for(row(1).event, route_to(HandlerTarget(kind="handler.mail")))
    assert job.kind == "handler.mail"
    assert (job.args["event_id"], job.args["type"]) == (str(UUID(int=1)), "invoice.paid")
    assert job.options == EnqueueOptions(unique_by_args=True)


def test_a_handler_has_one_id_in_all_its_jobs_and_no_other_has_it():
    first, again = (job_for(row(n).event, route_to(HandlerTarget(kind="handler.mail"))) for n in (1, 2))
    other = job_for(row(1).event, route_to(HandlerTarget(kind="handler.post")))
    assert first.args["handler_id"] == again.args["handler_id"] != other.args["handler_id"]


def test_the_kind_of_deliveries_outlasts_the_most_patient_policy():
    kind = deliver_kind(nothing, max_age=timedelta(days=3))
    assert kind.name == DELIVER
    assert kind.identity == ("event_id", "endpoint_id")
    assert kind.max_attempts == MAX_ATTEMPTS >= max(policy.max_attempts for policy in POLICIES.values())
    assert kind.timeout > timedelta(seconds=30)
    assert kind.max_age == timedelta(days=3)


def test_the_kind_of_a_handler_bears_its_name():
    kind = handler_kind("mail", nothing, max_attempts=3, limit=2)
    assert (kind.name, kind.max_attempts, kind.limit, kind.identity) == (
        "handler.mail",
        3,
        2,
        ("event_id", "handler_id"),
    )
    assert kind.queue == "handler.mail"


def test_an_endpoint_gets_an_event_once_however_many_patterns_match():
    routes = compile_routes(
        [to(endpoint(1), "*", "invoice.*", "invoice.paid"), to(endpoint(1), "*.paid"), to(endpoint(2), "*")]
    )
    assert names(routes, "invoice.paid") == [endpoint_lane(UUID(int=1)), endpoint_lane(UUID(int=2))]


def test_targets_are_those_with_a_pattern_that_matches():
    routes = compile_routes([to(endpoint(1), "invoice.*"), to(endpoint(2), "order.*")])
    assert names(routes, "order.paid") == [endpoint_lane(UUID(int=2))]
    assert names(routes, "user.created") == []


def test_internal_events_go_to_handlers_only():
    routes = compile_routes([to(endpoint(1), "*"), to(HandlerTarget(kind="handler.a"), "*")])
    assert names(routes, "invoice.paid", INTERNAL) == ["handler.a"]
    assert names(routes, "invoice.paid", WEBHOOK) == [endpoint_lane(UUID(int=1)), "handler.a"]
    assert names(routes, "invoice.paid", INTERNAL) == ["handler.a"]


def test_the_platforms_own_events_go_only_where_they_are_asked_for():
    routes = compile_routes([to(endpoint(1), "*"), to(endpoint(2), "tidings.*")])
    assert names(routes, "tidings.endpoint.disabled") == [endpoint_lane(UUID(int=2))]


def test_a_handler_coalesces_only_if_every_subscription_that_matches_says_so():
    routes = compile_routes(
        [
            to(HandlerTarget(kind="handler.a", coalesce=True), "invoice.*"),
            to(HandlerTarget(kind="handler.a"), "invoice.paid"),
        ]
    )
    assert [route.coalesce for route in routes.targets("invoice.sent", WEBHOOK)] == [True]
    assert [route.coalesce for route in routes.targets("invoice.paid", WEBHOOK)] == [False]


def test_what_was_never_a_pattern_stops_the_compiler():
    with pytest.raises(InvalidPattern):
        compile_routes([to(endpoint(1), "invoice.*"), to(endpoint(2), "inv*")])


def test_remembered_answers_stay_right_past_the_bound():
    routes = compile_routes([to(endpoint(1), "a.*"), to(endpoint(2), "b.*")])
    for _ in range(2):
        for number in range(MEMO_SIZE + 10):
            assert names(routes, f"a.t{number}") == [endpoint_lane(UUID(int=1))]
            assert names(routes, f"c.t{number}") == []
    assert len(routes._memo) == MEMO_SIZE


def test_owners_get_their_own_routes_and_the_handlers_of_all():
    everybody = to(HandlerTarget(kind="handler.audit"), "*", owner_id=None)
    compiled = compile_owners(
        ["acme", "none"],
        [to(endpoint(1), "*"), to(endpoint(2), "*", owner_id="other"), everybody],
    )
    assert set(compiled) == {"acme", "none"}
    assert names(compiled["acme"], "a.b") == [endpoint_lane(UUID(int=1)), "handler.audit"]
    assert names(compiled["none"], "a.b") == ["handler.audit"]


def test_a_batch_becomes_a_job_for_each_event_and_target_in_order():
    plan = jobs_for([row(2), row(1)], {"acme": fan(2)}, chunk=10)
    assert [(job.args["event_id"][-1], job.args["endpoint_id"][-1]) for job in plan.jobs] == [
        ("2", "1"),
        ("2", "2"),
        ("1", "1"),
        ("1", "2"),
    ]
    assert plan.relayed == (UUID(int=2), UUID(int=1))
    assert plan.kept == ()


def test_an_event_without_targets_is_relayed():
    plan = jobs_for([row(1)], {"acme": compile_routes([])}, chunk=1)
    assert (plan.jobs, plan.relayed, plan.kept) == ((), (UUID(int=1),), ())


def test_an_empty_batch_is_an_empty_plan():
    plan = jobs_for([], {})
    assert (plan.jobs, plan.relayed, plan.kept) == ((), (), ())


def test_an_owner_without_compiled_routes_is_an_error_and_no_silence():
    with pytest.raises(KeyError):
        jobs_for([row(1)], {}, chunk=10)


def test_a_big_fanout_is_cut_and_goes_on_after_the_last_target():
    routes = {"acme": fan(25)}
    served: list[str] = []
    after, passes = None, 0
    while True:
        plan = jobs_for([row(1, after_target=after)], routes, chunk=10)
        served += [job.args["endpoint_id"] for job in plan.jobs]
        passes += 1
        if plan.relayed:
            break
        assert len(plan.jobs) == 10
        ((event_id, after),) = plan.kept
        assert event_id == UUID(int=1)
    assert passes == 3
    assert served == [str(UUID(int=number)) for number in range(1, 26)]


def test_a_place_that_is_kept_holds_when_its_target_was_removed():
    remaining = compile_routes([to(endpoint(number), "*") for number in (1, 2, 4)])
    plan = jobs_for([row(1, after_target=endpoint_lane(UUID(int=3)))], {"acme": remaining}, chunk=10)
    assert [job.args["endpoint_id"] for job in plan.jobs] == [str(UUID(int=4))]


def test_small_events_do_not_wait_behind_a_big_one():
    routes = {"big": fan(1000), "acme": fan(1)}
    plan = jobs_for([row(1, owner_id="big"), *(row(number) for number in range(2, 6))], routes, chunk=10)
    assert plan.relayed == tuple(UUID(int=number) for number in range(2, 6))
    assert plan.kept == ((UUID(int=1), endpoint_lane(UUID(int=6))),)
    assert len(plan.jobs) == 10


def test_a_big_event_does_not_wait_behind_small_ones():
    routes = {"big": fan(1000), "acme": fan(1)}
    plan = jobs_for([*(row(number) for number in range(2, 50)), row(1, owner_id="big")], routes, chunk=10)
    assert len(plan.relayed) == 5
    assert plan.kept == ((UUID(int=1), endpoint_lane(UUID(int=5))),)


def test_events_that_found_no_room_are_left_as_they_are():
    plan = jobs_for([row(number) for number in range(1, 6)], {"acme": fan(4)}, chunk=10)
    assert plan.relayed == (UUID(int=1), UUID(int=2))
    assert plan.kept == ()


def test_deliveries_to_a_held_endpoint_start_later_and_others_now():
    later = START + timedelta(minutes=5)
    plan = jobs_for([row(1)], {"acme": fan(2)}, not_before={UUID(int=2): later})
    assert [job.options.run_at for job in plan.jobs] == [None, later]


def coalescing(*more: Subscription) -> dict[str, Routes]:
    return {"acme": compile_routes([to(HandlerTarget(kind="handler.a", coalesce=True), "*"), *more])}


def runs(rows: Sequence[OutboxRow], routes: dict[str, Routes], chunk: int = 100) -> list[tuple[str, int]]:
    plan = jobs_for(rows, routes, chunk=chunk)
    return [(job.kind, UUID(job.args["event_id"]).int) for job in plan.jobs]


def test_a_coalescing_handler_runs_once_a_subject_for_the_latest_event():
    rows = [
        row(1, subject="x", occurred_at=START + timedelta(seconds=9)),
        row(2, subject="x"),
        row(3, subject="y"),
        row(4, subject="y", event_type="order.paid"),
    ]
    assert runs(rows, coalescing()) == [("handler.a", 1), ("handler.a", 4)]
    assert jobs_for(rows, coalescing()).relayed == tuple(UUID(int=number) for number in (1, 2, 3, 4))


def test_the_id_decides_between_events_of_one_instant():
    assert runs([row(2, subject="x"), row(1, subject="x")], coalescing()) == [("handler.a", 2)]


def test_events_without_a_subject_do_not_coalesce():
    assert runs([row(1), row(2)], coalescing()) == [("handler.a", 1), ("handler.a", 2)]


def test_deliveries_and_handlers_that_did_not_ask_never_coalesce():
    routes = {"acme": compile_routes([to(endpoint(1), "*"), to(HandlerTarget(kind="handler.b"), "*")])}
    rows = [row(1, subject="x"), row(2, subject="x")]
    assert runs(rows, routes) == [(DELIVER, 1), ("handler.b", 1), (DELIVER, 2), ("handler.b", 2)]


def test_the_same_subject_of_two_owners_is_two_subjects():
    routes = coalescing()
    routes["other"] = routes["acme"]
    rows = [row(1, subject="x"), row(2, subject="x", owner_id="other")]
    assert runs(rows, routes) == [("handler.a", 1), ("handler.a", 2)]


def test_an_event_that_finds_no_room_takes_no_earlier_one_with_it():
    # The later event of the subject stays in the outbox, so the earlier one must run now.
    routes = coalescing(*(to(endpoint(number), "*") for number in (1, 2, 3)))
    plan = jobs_for([row(1, subject="x"), row(2, subject="x")], routes, chunk=8)
    assert plan.relayed == (UUID(int=1), UUID(int=2))
    plan = jobs_for([row(1, subject="x"), row(2, subject="x")], routes, chunk=7)
    assert [(job.kind, UUID(job.args["event_id"]).int) for job in plan.jobs][3] == ("handler.a", 1)
    assert plan.kept == ((UUID(int=2), endpoint_lane(UUID(int=3))),)


patterns = st.sampled_from(["*", "a.*", "a.b", "*.b", "a.b.c", "a.*.c", "tidings.*"])
targets = st.integers(1, 9).map(endpoint) | st.builds(
    HandlerTarget, kind=st.sampled_from(["handler.x", "handler.y"]), coalesce=st.booleans()
)
subscribed = st.lists(
    st.builds(lambda target, texts: to(target, *texts), targets, st.lists(patterns, min_size=1, max_size=3)),
    max_size=12,
)
event_types = st.sampled_from(["a", "a.b", "a.b.c", "a.x.c", "b.b", "tidings.b"])


@given(subscriptions=subscribed, event_type=event_types, exposure=st.sampled_from(Exposure))
def test_targets_are_what_reading_every_subscription_gives(
    subscriptions: list[Subscription], event_type: str, exposure: Exposure
):
    naive = {
        route_to(each.target).sort_key
        for each in subscriptions
        if any(matches(Pattern.parse(text), event_type) for text in each.patterns)
        and (exposure is WEBHOOK or isinstance(each.target, HandlerTarget))
    }
    assert names(compile_routes(subscriptions), event_type, exposure) == sorted(naive)


@given(
    subscriptions=subscribed,
    events=st.lists(st.tuples(event_types, st.sampled_from([None, "s"])), max_size=8),
    chunk=st.integers(1, 12),
)
def test_pass_by_pass_every_event_reaches_every_target_once_within_the_chunk(
    subscriptions: list[Subscription], events: list[tuple[str, str | None]], chunk: int
):
    # Coalescing aside, whose rule is to leave jobs out.
    plain = [
        to(HandlerTarget(kind=each.target.kind), *each.patterns) if isinstance(each.target, HandlerTarget) else each
        for each in subscriptions
    ]
    routes = {"acme": compile_routes(plain)}
    waiting = [row(n, event_type=kind, subject=subject) for n, (kind, subject) in enumerate(events, 1)]
    owed = {
        (each.event.id, route.sort_key)
        for each in waiting
        for route in routes["acme"].targets(each.event.type, WEBHOOK)
    }
    made: list[tuple[UUID, str]] = []
    for passes in count():
        if not waiting:
            break
        assert passes <= len(owed) + 1, "a pass that moves nothing"
        plan = jobs_for(waiting, routes, chunk=chunk)
        assert len(plan.jobs) <= chunk
        made += [(UUID(job.args["event_id"]), job.options.lane or job.kind) for job in plan.jobs]
        places = dict(plan.kept)
        waiting = [
            row(
                each.event.id.int,
                event_type=each.event.type,
                after_target=places.get(each.event.id, each.after_target),
            )
            for each in waiting
            if each.event.id not in plan.relayed
        ]
    assert sorted(made) == sorted(owed)
