"""The set-up in files: what is written where, what is said of it, and what changes while somebody is asked."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from .conftest import Cli
from .test_consent import on_a_terminal


def test_a_link_leads_on_and_the_mode_stays(declared: Cli, tmp_path: Path):
    kept, link = tmp_path / "kept.json", tmp_path / "link.json"
    kept.touch(0o600)
    link.symlink_to(kept)
    declared("endpoints", "export", link)
    assert link.is_symlink()
    assert (json.loads(kept.read_text())["tidings"], kept.stat().st_mode & 0o777) == (1, 0o600)
    assert list(tmp_path.glob(".*")) == []


def test_what_is_no_file_is_written_to(declared: Cli):
    device = Path("/dev/null")
    declared("endpoints", "export", device, "--format", "json")
    assert device.is_char_device()


@pytest.mark.parametrize("options", [(), ("--any-owner",), ("--format", "json"), ("--any-owner", "--format", "yaml")])
def test_the_command_that_is_named_brings_it_back(declared: Cli, tmp_path: Path, options: tuple[str, ...]):
    declared("endpoints", "add", "https://example.com/hook", "--owner", "acme")
    file = tmp_path / ("setup.json" if "--format" not in options else "set up")
    said = declared("endpoints", "export", file, *options)
    found = re.search("`tidings (.+)`", said)
    assert found is not None
    assert declared(*shlex.split(found[1])).startswith("nothing to change")


def test_no_header_goes_that_was_not_asked_about(declared: Cli, tmp_path: Path):
    endpoint = declared.json("endpoints", "add", "https://example.com/hook", "--header", "X-Team: a")["id"]
    file = tmp_path / "setup.json"
    entry = {"id": endpoint, "url": "https://example.com/hook", "headers": {}}
    file.write_text(json.dumps({"tidings": 1, "owners": {"default": {"endpoints": [entry]}}}))

    def meanwhile() -> None:
        declared("endpoints", "update", endpoint, "--header", "X-Team: a", "--header", "X-Late: b")

    code, _, seen = on_a_terminal(declared, f"endpoints import {file} --prune", "y", meanwhile)
    assert f"does not name: header X-Team of endpoint {endpoint}?" in seen
    assert (code, "run it again to see them" in seen) == (1, True)
    assert declared.json("endpoints", "show", endpoint)["headers"] == ["X-Team", "X-Late"]
    code, *_ = on_a_terminal(declared, f"endpoints import {file} --prune", "y")
    assert (code, declared.json("endpoints", "show", endpoint)["headers"]) == (0, [])
