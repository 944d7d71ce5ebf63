"""Benchmarks: every scenario runs from end to end, in its smoke form. How fast is never a test's matter."""

from __future__ import annotations

import subprocess
import sys

import pytest

from benchmarks.__main__ import SCENARIOS

from .source import ROOT

PATIENCE_S = 300


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


@pytest.mark.timeout(PATIENCE_S + 30)
@pytest.mark.parametrize("name", [str(scenario.name) for scenario in SCENARIOS])
def test_every_scenario_runs_in_its_smoke_form(name: str, server: str):
    done = bench("--short", "--dsn", server, name)
    assert done.returncode == 0, done.stderr
    machine, outcome = done.stdout.splitlines()
    assert "cores" in machine
    assert outcome.startswith(f"{name}: ")
    assert f'make bench ARGS="{name} --' in outcome
