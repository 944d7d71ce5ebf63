"""Write numbers in the text format of Prometheus. A registry of its own for each text; nothing is global.

Why: the library counts in objects that lock and look up at every step. In the path plain numbers are counted
(`delivery.metrics`), and the library only writes them, in a process that is asked for them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from delivery.metrics import JOINT, METRICS, Metric, Numbers, Sort

if TYPE_CHECKING:
    from prometheus_client.core import Metric as Family


def exposition(numbers: Numbers) -> tuple[str, bytes]:
    """Return the content type and the text; beside the numbers, what the system says of this process."""
    # Imported here: a process that nobody asks does without it.
    from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, ProcessCollector, generate_latest

    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Numbers(numbers))
    ProcessCollector(registry=registry)
    return CONTENT_TYPE_LATEST, generate_latest(registry)


class _Numbers:
    """`prometheus_client.registry.Collector`."""

    def __init__(self, numbers: Numbers) -> None:
        self._numbers = numbers

    def collect(self) -> Iterator[Family]:
        for name, metric in METRICS.items():
            series = self._numbers.get(name)
            if series is None and metric.sort is not Sort.GAUGE and not metric.labels:
                series = {"": [0.0] * (len(metric.bounds) + 2)}  # nothing yet is a number, too
            if series is not None:
                yield _family(metric, series)


def _family(metric: Metric, series: dict[str, list[float]]) -> Family:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

    family: CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily
    match metric.sort:
        case Sort.HISTOGRAM:
            family = HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
            for labels, numbers in series.items():
                family.add_metric(_labels(metric, labels), _buckets(metric, numbers), numbers[-1])
            return family
        case Sort.COUNTER:
            family = CounterMetricFamily(metric.name, metric.help, labels=metric.labels)
        case Sort.GAUGE:
            family = GaugeMetricFamily(metric.name, metric.help, labels=metric.labels)
    for labels, numbers in series.items():
        family.add_metric(_labels(metric, labels), numbers[0])
    return family


def _labels(metric: Metric, labels: str) -> list[str]:
    return labels.split(JOINT) if metric.labels else []


def _buckets(metric: Metric, numbers: list[float]) -> list[tuple[str, float]]:
    """Return the buckets as the format has them: each holds those below it, too."""
    found, total = [], 0.0
    for bound, number in zip((*map(str, metric.bounds), "+Inf"), numbers, strict=False):
        total += number
        found.append((bound, total))
    return found
