"""What a policy that operators made says of an attempt: how long it may take, what becomes of it, what comes next."""

from __future__ import annotations

from datetime import timedelta

import pytest

from delivery.channels import Fault, FaultCode, Reply
from delivery.jobs import Discard, Retry
from subscriptions.model import ClientErrors, EndpointChanges, PolicyChanges

from .test_worker import OWNER, Bench, bench  # noqa: F401 - a fixture

S = timedelta(seconds=1)


async def choose(bench: Bench, **policy: object) -> None:  # noqa: F811 - no fixture here
    """Make a policy, and let the endpoint go by it."""
    await bench.app.policies.add("mine", by="test", **policy)  # type: ignore[arg-type]  # as given
    await bench.app.endpoints.update(OWNER, bench.endpoint.id, EndpointChanges(policy="mine"), by="test")


async def test_an_attempt_may_take_as_long_as_the_policy_says_unless_the_endpoint_says_otherwise(
    bench: Bench,  # noqa: F811
) -> None:
    await choose(bench, timeout=3 * S)
    await bench()
    await bench.app.endpoints.update(OWNER, bench.endpoint.id, EndpointChanges(timeout=7 * S), by="test")
    await bench()
    await bench.app.policies.update("mine", PolicyChanges(timeout=4 * S), by="test")
    await bench()
    await bench.app.endpoints.update(OWNER, bench.endpoint.id, EndpointChanges(no_timeout=True), by="test")
    await bench()
    assert [each.timeout for each in bench.channel.messages] == [3 * S, 7 * S, 7 * S, 4 * S]


async def test_a_ladder_of_ones_own_is_climbed_to_its_end(bench: Bench) -> None:  # noqa: F811
    await choose(bench, ladder=[1 * S, 60 * S], max_attempts=4)
    for spent, delay in enumerate((1 * S, 60 * S, 60 * S)):
        with pytest.raises(Retry) as caught:
            await bench(Reply(status=500), spent=spent)
        assert caught.value.delay == delay
    with pytest.raises(Discard) as given_up:
        await bench(Reply(status=500), spent=3)
    assert given_up.value.report is not None
    assert (given_up.value.reason, given_up.value.report.detail) == ("exhausted", "mine: all 4 attempts failed")


async def test_client_errors_become_what_the_policy_says_from_its_change_on(bench: Bench) -> None:  # noqa: F811
    await choose(bench, client_errors=ClientErrors.DISCARD)
    with pytest.raises(Discard) as discarded:
        await bench(Reply(status=404))
    assert discarded.value.reason == "http_404"
    assert discarded.value.report is not None
    assert discarded.value.report.rule == "401/403/404/407/409/421/423/424, client errors discard"
    await bench.app.policies.update("mine", PolicyChanges(client_errors=ClientErrors.FULL), by="test")
    with pytest.raises(Retry) as retried:
        await bench(Reply(status=404), spent=1)
    assert (retried.value.delay, retried.value.memo) == (timedelta(minutes=5), {})
    await bench.app.policies.update("mine", PolicyChanges(client_errors=ClientErrors.SHORT), by="test")
    with pytest.raises(Retry) as shortly:
        await bench(Reply(status=404), spent=1)
    assert (shortly.value.delay, shortly.value.memo) == (5 * S, {"short": 1})


async def test_what_is_older_than_the_policy_allows_is_discarded_unsent(bench: Bench) -> None:  # noqa: F811
    await choose(bench, max_age=timedelta(minutes=10))
    await bench(age=timedelta(minutes=10))
    with pytest.raises(Discard) as caught:
        await bench(age=timedelta(minutes=10, milliseconds=1))
    assert (caught.value.reason, len(bench.channel.messages)) == ("expired", 1)
    assert caught.value.report is not None
    assert caught.value.report.detail == "not sent: older than its policy mine allows, 10m"


async def test_what_could_not_be_tried_again_in_time_ends_as_expired(bench: Bench) -> None:  # noqa: F811
    await choose(bench, ladder=[5 * S, 300 * S], max_attempts=9, max_age=timedelta(minutes=10))
    with pytest.raises(Discard) as caught:
        await bench(Fault(code=FaultCode.TIMEOUT, detail="no answer"), spent=1, age=timedelta(minutes=6))
    assert caught.value.reason == "expired"
    assert caught.value.report is not None
    assert caught.value.report.outcome == "retryable"
    assert caught.value.report.detail == "no answer; mine: the next try would be later than its max age, 10m"
