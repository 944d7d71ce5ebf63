"""Counting: plain numbers, whose series have a bound, and which processes add up."""

from __future__ import annotations

import json

import pytest

from delivery import metrics
from delivery.channels import FaultCode
from delivery.metrics import JOINT, METRICS, MOST_SERIES, OTHER, Metrics, Numbers, Sort, folded, gauges, lasting, summed


def test_what_is_counted_is_told():
    counted = Metrics()
    counted.count(metrics.JOBS, "webhook.deliver", "completed")
    counted.count(metrics.JOBS, "webhook.deliver", "completed", by=4)
    counted.count(metrics.STALE, by=0)
    assert counted.numbers() == {
        "tidings_jobs": {f"webhook.deliver{JOINT}completed": [5.0]},
        "tidings_stale_results": {"": [0.0]},
    }


def test_a_duration_falls_into_the_first_bucket_that_holds_it():
    counted, bounds = Metrics(), metrics.ATTEMPT_S.bounds
    for seconds in (0.0, bounds[0], bounds[0] + 0.001, bounds[-1] + 1):
        counted.took(metrics.ATTEMPT_S, seconds, "delivered")
    [*buckets, total] = counted.numbers()[metrics.ATTEMPT_S.name]["delivered"]
    assert (buckets[0], buckets[1], buckets[-1], sum(buckets)) == (2, 1, 1, 4)
    assert total == pytest.approx(bounds[0] * 2 + 0.001 + bounds[-1] + 1)


def test_a_clock_that_went_back_takes_nothing_from_a_sum():
    counted = Metrics()
    counted.took(metrics.RELAY_LAG_S, -5.0)
    [first, *_, total] = counted.numbers()[metrics.RELAY_LAG_S.name][""]
    assert (first, total) == (1, 0)


@pytest.mark.parametrize(
    ("code", "label"),
    [
        ("http_200", "http_2xx"),
        ("http_999", "http_9xx"),
        ("timeout", "timeout"),
        ("of a channel of somebody's own", OTHER),
    ],
)
def test_a_code_is_folded(code: str, label: str):
    assert folded(code) == label


def test_whatever_receivers_answer_makes_few_series():
    counted = Metrics()
    codes = [f"http_{status}" for status in range(100, 1000)] + [str(code) for code in FaultCode] + ["a", "b"]
    for code in codes:
        for outcome in ("delivered", "retryable", "snoozed", "permanent", "ours"):
            counted.attempt(outcome, code, 0.1)
    numbers = counted.numbers()
    assert len(numbers[metrics.ATTEMPTS.name]) == 5 * (9 + len(FaultCode) + 1)
    assert len(numbers[metrics.ATTEMPT_S.name]) == 5


def test_no_more_series_are_kept_than_fit():
    counted = Metrics()
    for number in range(MOST_SERIES + 50):
        counted.count(metrics.JOBS, f"kind {number}", "completed")
    counted.took(metrics.ATTEMPT_S, 0.1, "delivered")
    numbers = counted.numbers()
    assert len(numbers[metrics.JOBS.name]) == MOST_SERIES + 1
    assert numbers[metrics.JOBS.name][f"{OTHER}{JOINT}{OTHER}"] == [50.0]
    assert list(numbers[metrics.ATTEMPT_S.name]) == [OTHER]


def test_numbers_of_processes_are_added_up_also_as_json():
    first, second = Metrics(), Metrics()
    for counted, outcome in ((first, "delivered"), (second, "delivered"), (second, "permanent")):
        counted.attempt(outcome, "http_200", 0.1)
    sent: Numbers = json.loads(json.dumps(second.numbers() | gauges((metrics.SLOTS, 200))))
    total = summed([first.numbers() | gauges((metrics.SLOTS, 100)), sent])
    assert total[metrics.ATTEMPTS.name] == {f"delivered{JOINT}http_2xx": [2.0], f"permanent{JOINT}http_2xx": [1.0]}
    assert sum(total[metrics.ATTEMPT_S.name]["delivered"][:-1]) == 2
    assert total[metrics.SLOTS.name] == {"": [300.0]}
    assert sum(first.numbers()[metrics.ATTEMPT_S.name]["delivered"][:-1]) == 1, "nothing was added in place"


def test_what_another_release_sends_and_this_one_does_not_know_is_left_out():
    odd = {
        "tidings_of_tomorrow": {"": [1.0]},
        metrics.ATTEMPT_S.name: {"delivered": [1.0, 2.0]},
        metrics.ATTEMPTS.name: {"delivered": [1.0]},
        metrics.STALE.name: {"": [7.0]},
    }
    total = summed([odd])
    assert {name: series for name, series in total.items() if series} == {metrics.STALE.name: {"": [7.0]}}


def test_gauges_end_with_their_process_and_counters_do_not():
    counted = Metrics()
    counted.count(metrics.STALE)
    assert lasting(counted.numbers() | gauges((metrics.SLOTS, 100))) == counted.numbers()


def test_every_metric_has_a_name_of_ours_and_a_help():
    assert all(name.startswith("tidings_") and metric.help.endswith(".") for name, metric in METRICS.items())
    assert len(METRICS) == len(metrics.OF_PROCESSES) + len(metrics.OF_PLATFORM)
    for metric in METRICS.values():
        assert (metric.sort is Sort.HISTOGRAM) == bool(metric.bounds)
        assert list(metric.bounds) == sorted(metric.bounds)
