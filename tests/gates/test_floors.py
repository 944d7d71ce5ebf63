"""Floors: who may import whom, as `[tool.importlinter]` in pyproject.toml draws it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from .source import PACKAGES, ROOT

LINT = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"
ROOMS = (
    "jobs",
    "outbox",
    "channels",
    "attempts",
    "events",
    "errors",
    "app",
    "worker",
    "relay",
    "compiler",
    "backoff",
)


def lint(top: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", LINT], cwd=top, capture_output=True, text=True, check=False)


def test_every_import_goes_down_a_floor():
    found = lint(ROOT)
    assert found.returncode == 0, found.stdout + found.stderr


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """Build an empty house under the contracts of ours."""
    (tmp_path / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text())
    for package in (
        *PACKAGES,
        *(f"delivery/{name}" for name in ("cli", "adapters", "adapters/http", "adapters/postgres")),
    ):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").touch()
    for room in ROOMS:
        (tmp_path / "delivery" / f"{room}.py").touch()
    return tmp_path


def test_a_house_that_keeps_the_floors_is_accepted(house: Path):
    (house / "delivery/__init__.py").write_text("from delivery import app")
    (house / "delivery/app.py").write_text("import delivery.adapters.postgres, delivery.relay, signing")
    assert lint(house).returncode == 0


@pytest.mark.parametrize(
    ("room", "imported"),
    [
        ("signing/keys.py", "subscriptions"),
        ("subscriptions/match.py", "migrations"),
        ("migrations/runner.py", "delivery.errors"),
        ("delivery/jobs.py", "delivery.compiler"),
        ("delivery/events.py", "delivery"),  # re-exports `app`, see below
        ("delivery/backoff.py", "delivery.worker"),
        ("delivery/worker.py", "delivery.relay"),
        ("delivery/worker.py", "delivery.adapters.http"),
        ("delivery/app.py", "delivery.cli"),
        ("delivery/adapters/postgres/jobs.py", "delivery.adapters.http"),
        ("delivery/toolbox.py", "delivery.errors"),  # a room without a floor
    ],
)
def test_an_import_that_goes_up_is_refused(house: Path, room: str, imported: str):
    (house / "delivery/__init__.py").write_text("from delivery import app")
    (house / room).write_text(f"import {imported}")
    assert "BROKEN" in lint(house).stdout
