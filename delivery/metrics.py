"""What a process counts of its own work, and the numbers that are made of it: plain, so that counting costs little.

No library shows here: how numbers are written for a monitoring system is an adapter's matter. A series is a metric
with its labels; what labels hold is ours, never an owner's, so that their number has a bound whatever is delivered.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from delivery.channels import FaultCode


class Sort(StrEnum):
    """What a metric's number is."""

    COUNTER = "counter"  # grows while the process lives
    GAUGE = "gauge"  # stands at this now
    HISTOGRAM = "histogram"  # how many lasted how long


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One thing that is counted or measured."""

    name: str  #: without the endings that a text format adds (`_total`, `_bucket`)
    sort: Sort
    help: str
    labels: tuple[str, ...] = ()
    bounds: tuple[float, ...] = ()  #: of a histogram: upper ends of its buckets but the last, in seconds


#: Of an attempt, which waits for a receiver; and of statements, which should not take long.
_ATTEMPT_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_STATEMENT_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
_LAG_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0, 300.0, 3600.0)


def _counter(name: str, help: str, *labels: str) -> Metric:
    return Metric(name=name, sort=Sort.COUNTER, help=help, labels=labels)


def _gauge(name: str, help: str, *labels: str) -> Metric:
    return Metric(name=name, sort=Sort.GAUGE, help=help, labels=labels)


def _histogram(name: str, help: str, bounds: tuple[float, ...], *labels: str) -> Metric:
    return Metric(name=name, sort=Sort.HISTOGRAM, help=help, labels=labels, bounds=bounds)


# Of one process, or of several summed up ---------------------------------------------------------------------------

ATTEMPTS = _counter("tidings_attempts", "Tries of deliveries, by what the classifier said.", "outcome", "code")
ATTEMPT_S = _histogram("tidings_attempt_duration_seconds", "How long a try of a delivery took.", _ATTEMPT_S, "outcome")
JOBS = _counter("tidings_jobs", "Jobs that ended; those of the kind webhook.deliver are deliveries.", "kind", "state")
CLAIM_S = _histogram("tidings_claim_duration_seconds", "How long a claim of jobs took.", _STATEMENT_S)
CLAIMED = _counter("tidings_claimed_jobs", "Jobs that claims brought.")
SETTLE_S = _histogram("tidings_settle_duration_seconds", "How long it took to write a batch of results.", _STATEMENT_S)
SETTLED = _counter("tidings_settled_results", "Results of tries that were written.")
STALE = _counter("tidings_stale_results", "Results that came after their claim had lapsed, and changed nothing.")
RELAYED_EVENTS = _counter("tidings_relayed_events", "Events whose every target has its job.")
RELAYED_JOBS = _counter("tidings_relayed_jobs", "Jobs that events led to.")
RELAY_FAILURES = _counter(
    "tidings_relay_failures", "Turns of the relay that failed, and events that could not be relayed."
)
RELAY_TURN_S = _histogram(
    "tidings_relay_turn_duration_seconds", "How long a turn that found events took.", _STATEMENT_S
)
RELAY_LAG_S = _histogram("tidings_relay_lag_seconds", "How old the oldest event of a turn was, by this clock.", _LAG_S)
SLOTS = _gauge("tidings_slots", "Deliveries and other jobs that may run at once.")
IN_FLIGHT = _gauge("tidings_in_flight", "Deliveries and other jobs that run.")
UNWRITTEN = _gauge("tidings_unwritten_results", "Results that wait to be written.")
SHARDS = _gauge("tidings_shards", "Shards of lanes that are owned, of 64 over all workers.")
PROCESSES = _gauge("tidings_processes", "Processes that these numbers are of.")

# Of the whole platform, as of the last look at it ------------------------------------------------------------------

LOOK_AGE = _gauge(
    "tidings_status_age_seconds", "How long ago the platform was looked at; the figures below are so old."
)
ALERT = _gauge("tidings_alert", "1 while `tidings status` has this alert.", "code")
OUTBOX = _gauge("tidings_outbox_events", "Events that wait for the relay, counted up to 10,000.")
OUTBOX_AGE = _gauge("tidings_outbox_oldest_seconds", "For how long the oldest event in the outbox waits.")
POISONED = _gauge("tidings_outbox_poisoned_events", "Events that the relay gave up, counted up to 10,000.")
DUE = _gauge("tidings_jobs_due", "Jobs that are due and wait for a worker, counted up to 10,000.", "kind")
DUE_AGE = _gauge("tidings_jobs_oldest_due_seconds", "For how long the first job that is due waits.", "kind")
WORKERS = _gauge("tidings_workers", "Processes that run jobs, all over the platform.")
RELAYS = _gauge("tidings_relays", "Processes that relay events, all over the platform.")
SKEW = _gauge("tidings_clock_skew_seconds", "How far the database's clock is ahead of this process's.")
TABLE = _gauge("tidings_table_bytes", "How much space a table takes with its indexes.", "table")

OF_PROCESSES: tuple[Metric, ...] = (
    *(ATTEMPTS, ATTEMPT_S, JOBS, CLAIM_S, CLAIMED, SETTLE_S, SETTLED, STALE),
    *(RELAYED_EVENTS, RELAYED_JOBS, RELAY_FAILURES, RELAY_TURN_S, RELAY_LAG_S),
    *(SLOTS, IN_FLIGHT, UNWRITTEN, SHARDS, PROCESSES),
)
OF_PLATFORM: tuple[Metric, ...] = (
    *(LOOK_AGE, ALERT, OUTBOX, OUTBOX_AGE, POISONED, DUE, DUE_AGE, WORKERS, RELAYS, SKEW, TABLE),
)
METRICS = {metric.name: metric for metric in (*OF_PROCESSES, *OF_PLATFORM)}

#: A snapshot: metric -> what its labels hold, joined by `JOINT` -> its number; of a histogram, how many fell into each
#: bucket and then the sum of all in seconds. As JSON, it goes from process to process.
Numbers = dict[str, dict[str, list[float]]]
JOINT = "\x1f"

#: A label that would make one series too many, or that nobody knows.
OTHER = "other"
#: Series of one process at most. There are some hundred; this is the net beneath.
MOST_SERIES = 2_000

_FAULTS = frozenset(FaultCode)
_Key = tuple[str, ...]  # a metric's name, then what its labels hold


class Metrics:
    """What one process counted since it started."""

    __slots__ = ("_counts", "_durations")

    def __init__(self) -> None:
        self._counts: dict[_Key, int] = {}
        self._durations: dict[_Key, list[float]] = {}

    def count(self, metric: Metric, *labels: str, by: int = 1) -> None:
        """Count one more, or several."""
        key = (metric.name, *labels)
        number = self._counts.get(key)
        if number is None:
            key = self._new(metric, key)
            number = self._counts.get(key, 0)
        self._counts[key] = number + by

    def took(self, metric: Metric, seconds: float, *labels: str) -> None:
        """Take how long something lasted."""
        key = (metric.name, *labels)
        buckets = self._durations.get(key)
        if buckets is None:
            buckets = self._durations.setdefault(self._new(metric, key), [0.0] * (len(metric.bounds) + 2))
        buckets[bisect_left(metric.bounds, seconds)] += 1
        buckets[-1] += max(seconds, 0.0)

    def attempt(self, outcome: str, code: str, seconds: float) -> None:
        """Take what came of one try of a delivery."""
        self.count(ATTEMPTS, outcome, folded(code))
        self.took(ATTEMPT_S, seconds, outcome)

    def numbers(self) -> Numbers:
        """Return what was counted."""
        found: Numbers = {}
        for key, number in self._counts.items():
            found.setdefault(key[0], {})[JOINT.join(key[1:])] = [float(number)]
        for key, buckets in self._durations.items():
            found.setdefault(key[0], {})[JOINT.join(key[1:])] = list(buckets)
        return found

    def _new(self, metric: Metric, key: _Key) -> _Key:
        if len(self._counts) + len(self._durations) < MOST_SERIES:
            return key
        return (metric.name, *(OTHER for _ in metric.labels))


@lru_cache(maxsize=1_000)
def folded(code: str) -> str:
    """Return a verdict's code as a label: receivers choose their status, so those are told by their class alone."""
    if code.startswith("http_"):
        return f"{code[:6]}xx"
    return code if code in _FAULTS else OTHER


def gauges(*standing: tuple[Metric, float]) -> Numbers:
    """Return the numbers of metrics without labels."""
    return {metric.name: {"": [float(number)]} for metric, number in standing}


def summed(parts: Iterable[Numbers]) -> Numbers:
    """Add up the numbers of several processes. What is no number of ours, as another release may send, is left out."""
    total: Numbers = {}
    for numbers in parts:
        for name, series in numbers.items():
            if name in METRICS:
                for labels, values in series.items():
                    _add(total.setdefault(name, {}), labels, values, METRICS[name])
    return total


def _add(series: dict[str, list[float]], labels: str, values: list[float], metric: Metric) -> None:
    width = len(metric.bounds) + 2 if metric.sort is Sort.HISTOGRAM else 1
    if len(values) != width or len(labels.split(JOINT)) != max(len(metric.labels), 1):
        return
    before = series.get(labels)
    series[labels] = list(values) if before is None else [a + b for a, b in zip(before, values, strict=True)]


def lasting(numbers: Numbers) -> Numbers:
    """Return what goes on counting when the process that counted it has ended."""
    return {
        name: series for name, series in numbers.items() if name in METRICS and METRICS[name].sort is not Sort.GAUGE
    }
