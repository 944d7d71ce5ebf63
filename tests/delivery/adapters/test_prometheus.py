"""Numbers as Prometheus reads them, by its own parser."""

from __future__ import annotations

import subprocess
import sys

import prometheus_client
from prometheus_client.parser import text_string_to_metric_families

from delivery import metrics
from delivery.adapters.prometheus import exposition
from delivery.metrics import METRICS, Metrics, gauges


def read(text: bytes) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Return every sample by its name and labels."""
    families = text_string_to_metric_families(text.decode())
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def test_numbers_are_written_with_their_labels():
    counted = Metrics()
    counted.attempt("delivered", "http_200", 0.3)
    counted.attempt("delivered", "http_200", 40.0)
    kind, text = exposition(counted.numbers() | gauges((metrics.SLOTS, 200)))
    samples = read(text)
    assert kind.startswith("text/plain; version=")
    assert samples["tidings_attempts_total", (("code", "http_2xx"), ("outcome", "delivered"))] == 2
    assert samples["tidings_slots", ()] == 200

    def bucket(bound: str) -> float:
        return samples["tidings_attempt_duration_seconds_bucket", (("le", bound), ("outcome", "delivered"))]

    assert [bucket(bound) for bound in ("0.25", "0.5", "30.0", "+Inf")] == [0, 1, 1, 2]
    assert samples["tidings_attempt_duration_seconds_count", (("outcome", "delivered"),)] == 2


def test_what_has_not_happened_yet_is_zero_and_what_nobody_knows_is_missing():
    names = {name for name, _ in read(exposition({})[1])}
    assert {"tidings_stale_results_total", "tidings_claim_duration_seconds_count"} <= names
    assert not {"tidings_outbox_events", "tidings_slots", "tidings_attempts_total"} & names


def test_a_label_that_is_hostile_stays_in_its_place():
    strange = 'a"b\\c\nd{},='
    samples = read(exposition({metrics.DUE.name: {strange: [1.0]}})[1])
    assert samples["tidings_jobs_due", (("kind", strange),)] == 1


def test_no_alert_at_all_is_no_series():
    assert not any(name == "tidings_alert" for name, _ in read(exposition({metrics.ALERT.name: {}})[1]))


def test_nothing_of_ours_is_in_the_registry_that_is_everybodys():
    exposition(gauges((metrics.SLOTS, 1)))
    everybodys = {family.name for family in prometheus_client.REGISTRY.collect()}
    assert not everybodys & METRICS.keys()


def test_a_process_that_nobody_asks_does_without_the_library():
    ask = "import sys, delivery.app, delivery.cli.loops; print('prometheus_client' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"
