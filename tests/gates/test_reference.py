"""Reference: docs/cli.md is what the commands say of themselves."""

from __future__ import annotations

import os

import pytest

from .reference import PAGE, commands, help_of, page, tidings
from .source import read


def test_the_reference_is_what_help_prints():
    assert read(PAGE).text == page(), f"{PAGE} is not what --help prints: `make reference` writes it again"


def test_every_command_has_its_section():
    headings = [line.lstrip("#").split() for line in read(PAGE).text.splitlines() if line.startswith("##")]
    assert headings == [["tidings", *path] for path in commands(tidings)]
    assert ["tidings", "deliveries", "replay"] in headings


@pytest.mark.parametrize("columns", ["60", "300"])
def test_the_terminal_does_not_matter(monkeypatch: pytest.MonkeyPatch, columns: str):
    before = help_of("endpoints", "add")
    monkeypatch.setitem(os.environ, "COLUMNS", columns)
    monkeypatch.setitem(os.environ, "FORCE_COLOR", "1")
    assert help_of("endpoints", "add") == before
