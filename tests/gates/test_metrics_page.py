"""Metrics: the operating guide lists each of them, with its labels and as it is named when it is scraped."""

from __future__ import annotations

import re

from delivery.metrics import METRICS, Sort

from .pages import blocks, rows

PAGE, HEADING = "docs/operating.md", "Metrics and health"
ENDINGS = {Sort.COUNTER: "_total"}


def test_the_guide_lists_every_metric_with_its_labels():
    told = {name.strip("`"): re.findall(r"`([^`]+)`", labels) for name, labels, _ in rows(PAGE, HEADING)}
    assert told == {f"{name}{ENDINGS.get(each.sort, '')}": list(each.labels) for name, each in METRICS.items()}


def test_alert_rules_name_metrics_that_exist():
    named = set(re.findall(r"\btidings_[a-z_]+", "\n".join(blocks(PAGE, HEADING, "yaml"))))
    assert named
    assert named <= {f"{name}{ENDINGS.get(each.sort, '')}" for name, each in METRICS.items()}
