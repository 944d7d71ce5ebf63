"""Policies in the set-up file: written down, brought along, changed where they stand, and never removed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from .conftest import Cli, fingerprint

URL = "https://example.com/hook"
STRICT = {
    "name": "strict",
    "ladder": ["5s", "5m", "1h"],
    "attempts": 20,
    "timeout": "1500ms",
    "max_age": "2d",
    "client_errors": "discard",
}


@pytest.fixture
def made(declared: Cli) -> Cli:
    """A platform with two policies, and an endpoint on each, of which one has a timeout of its own."""
    declared(
        *("policies", "add", "strict", "--ladder", "5s,5m,1h", "--attempts", "20", "--timeout", "1500ms"),
        *("--max-age", "2d", "--client-errors", "discard"),
    )
    declared("policies", "add", "once", "--attempts", "1")
    declared("endpoints", "add", f"{URL}/1", "--policy", "strict")
    declared("endpoints", "add", f"{URL}/2", "--policy", "once", "--timeout", "10s")
    return declared


def write(path: Path, *policies: dict[str, Any], endpoints: list[dict[str, Any]] | None = None) -> Path:
    document = {"tidings": 1, "policies": list(policies), "owners": {"default": {"endpoints": endpoints or []}}}
    path.write_text(yaml.safe_dump(document))
    return path


def changed(cli: Cli, file: Path, *args: object) -> list[tuple[str, str, str]]:
    found = cli.json("endpoints", "import", file, *args)["changes"]
    return [(each["action"], each["what"], each["id"]) for each in found if each["what"] == "policy"]


def test_policies_are_written_down_and_what_was_written_changes_nothing(made: Cli, dsn: str, tmp_path: Path):
    document = yaml.safe_load(made("endpoints", "export"))
    once = {"name": "once", "ladder": [], "attempts": 1, "timeout": "10s", "max_age": "platform"}
    assert document["policies"] == [once | {"client_errors": "short"}, STRICT]
    strict, plain = document["owners"]["default"]["endpoints"]
    assert (strict["policy"], strict["timeout"]) == ("strict", "policy")
    assert (plain["policy"], plain["timeout"]) == ("once", "10s")
    made("endpoints", "export", tmp_path / "setup.yaml")
    before = fingerprint(dsn)
    assert made("endpoints", "import", tmp_path / "setup.yaml") == "nothing to change: it stands like this\n"
    assert fingerprint(dsn) == before


def test_they_are_made_before_the_endpoints_that_choose_them(cli: Cli, tmp_path: Path):
    file = write(tmp_path / "a.yaml", STRICT, endpoints=[{"url": URL, "policy": "strict"}])
    trial = cli("endpoints", "import", file, "--dry-run")
    assert trial.startswith(
        "+ policy strict: after 5 s, 5 min, 1 h (the last repeats), 20 attempts, max age 2 d, client errors discard\n"
        "+ endpoint https://example.com/hook\n"
    )
    cli("endpoints", "import", file, "--by", "ann")
    assert cli.json("policies", "show", "strict")["endpoints"] == 1
    assert changed(cli, file) == []


def test_fields_that_are_not_there_stay_or_are_as_by_default(made: Cli, tmp_path: Path):
    file = write(tmp_path / "a.yaml", {"name": "strict", "attempts": 9, "max_age": "platform"}, {"name": "plain"})
    assert made("endpoints", "import", file, "--dry-run").splitlines()[:2] == [
        "~ policy strict: max_attempts 20 -> 9, max_age_s 172800.0 -> none",
        "+ policy plain: after 5 s, 5 min, 30 min, 2 h, 5 h, 10 h (the last repeats), 18 attempts",
    ]
    assert changed(made, file) == [("change", "policy", "strict"), ("add", "policy", "plain")]
    shown = made.json("policies", "show", "strict")
    assert (shown["max_attempts"], shown["max_age_s"], shown["timeout_s"]) == (9, None, 1.5)
    assert changed(made, file) == []


def test_a_timeout_is_taken_back_by_the_file(made: Cli, tmp_path: Path):
    file = write(tmp_path / "a.yaml", endpoints=[{"url": f"{URL}/2", "timeout": "policy"}])
    [change] = made.json("endpoints", "import", file)["changes"]
    assert (change["before"], change["after"]) == ({"timeout_s": 10.0}, {"timeout_s": None})
    assert made.json("endpoints", "import", file)["changes"] == []


def test_those_that_are_not_named_stay_also_where_the_rest_is_pruned(made: Cli, tmp_path: Path):
    file = write(tmp_path / "a.yaml")
    assert changed(made, file, "--prune", "--yes") == []
    assert [each["name"] for each in made.json("policies", "list") if not each["built_in"]] == ["once", "strict"]


AT = "line 3: policies[0]"


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ("{}", f"{AT}: the field 'name' is missing"),
        ("{name: Mine}", f"{AT}: 'Mine' is no name of a policy"),
        ("{name: quick, attempts: 2}", f"{AT}: the policy 'quick' is built in and stays as it is"),
        ("{name: x, ladder: 5s}", f"{AT}.ladder: input should be a valid list"),
        ("{name: x, ladder: [5]}", f"{AT}.ladder[0]: write it as 10s, 500ms or 1m"),
        ("{name: x, ladder: [5m, 30s]}", f"{AT}: the ladder goes down from 5m to 30s"),
        ("{name: x, attempts: 101}", f"{AT}: 101 attempts are not allowed: give 1 to 100"),
        ("{name: x, attempts: '3'}", f"{AT}.attempts: input should be a valid integer"),
        ("{name: x, timeout: policy}", f"{AT}.timeout: 'policy' is no duration"),
        ("{name: x, timeout: 1m}", f"{AT}: a timeout of 60s is not allowed"),
        ("{name: x, max_age: 15d}", f"{AT}: a max age of 15d is more than TIDINGS_MAX_AGE"),
        ("{name: x, max_age: never}", f"{AT}.max_age: 'never' is no duration"),
        ("{name: x, client_errors: keep}", f"{AT}.client_errors: input should be 'short', 'full' or 'discard'"),
        ("{name: x, atempts: 3}", f"{AT}: there is no field 'atempts' here"),
    ],
)
def test_what_is_refused_says_where_it_stands(cli: Cli, dsn: str, tmp_path: Path, refused, entry: str, says: str):
    file = tmp_path / "a.yaml"
    file.write_text(f"tidings: 1\npolicies:\n- {entry}\n")
    before = fingerprint(dsn)
    assert says in refused(cli, "endpoints", "import", file, code=1)
    assert fingerprint(dsn) == before
