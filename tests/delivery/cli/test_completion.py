"""A shell completes commands, options and what they take; ids and types from the database, at once or not at all."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from delivery.cli.completing import WITHIN_S

from .conftest import PATIENCE_S, TOP, Cli, eventually, fingerprint

URL = "https://example.com/hook"


def asked(cli: Cli, line: str) -> subprocess.CompletedProcess[str]:
    """Ask as bash does, for the last word of a line."""
    outside = {name: value for name, value in os.environ.items() if not name.startswith("TIDINGS_")}
    words = line.split(" ")
    question = {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1), "_TIDINGS_COMPLETE": "bash_complete"}
    return subprocess.run(
        [sys.executable, "-m", "delivery.cli"],
        cwd=TOP,
        env=outside | cli.environment | question,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def completed(cli: Cli, line: str) -> list[str]:
    """Return what a line may be completed by, and see that nothing else is said."""
    done = asked(cli, line)
    assert (done.returncode, done.stderr) == (0, "")
    return [each.partition(",")[2] for each in done.stdout.splitlines() if each]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("tidings deli", ["deliveries"]),
        ("tidings deliveries wa", ["watch"]),
        ("tidings deliveries list --sta", ["--state"]),
        (
            "tidings deliveries list --state ",
            ["pending", "running", "retryable", "completed", "discarded", "cancelled"],
        ),
        ("tidings deliveries replay --state c", ["completed", "cancelled"]),
        ("tidings endpoints add x --format c", ["cloudevents"]),
        ("tidings endpoints add x --policy p", ["patient"]),
        ("tidings policies add x --client-errors d", ["discard"]),
        ("tidings verify --from s", ["standard", "svix", "stripe", "slack", "shopify"]),
        ("tidings completion ", ["bash", "zsh", "fish"]),
    ],
)
def test_commands_options_and_choices_are_completed(cli: Cli, line: str, words: list[str]):
    away = cli.having(TIDINGS_DATABASE_URL="postgresql://127.0.0.1:1/none")
    assert completed(away, line) == words


def test_ids_and_types_are_completed_from_the_database(declared: Cli):
    declared("event-types", "declare", "invoice.seen")
    endpoint, gone = (declared.json("endpoints", "add", f"{URL}/{n}")["id"] for n in range(2))
    declared("endpoints", "remove", gone, "--yes")
    event = declared.json("events", "record", "invoice.paid", "--data", "1")["id"]
    declared("endpoints", "add", URL, "--owner", "acme")
    declared("policies", "add", "patience")
    for line, words in (
        ("tidings endpoints show ", [endpoint]),
        (f"tidings endpoints show {endpoint[:9]}", [endpoint]),
        ("tidings endpoints show ffff", []),
        ("tidings endpoints show x", []),
        ("tidings endpoints show --owner globex ", []),
        ("tidings --owner globex endpoints show ", []),
        ("tidings deliveries list --endpoint ", [endpoint]),
        ("tidings events show ", [event]),
        (f"tidings events show {event[:7]}", [event]),
        ("tidings events record invoice.s", ["invoice.seen"]),
        ("tidings deliveries watch --type invoice.", ["invoice.paid", "invoice.seen"]),
        ("tidings subscriptions add all invoice.p", ["invoice.paid"]),
        ("tidings endpoints add x --policy p", ["patient", "patience"]),
        ("tidings policies show p", ["patient", "patience"]),
        ("tidings policies update p", ["patience"]),
        ("tidings policies remove ", ["patience"]),
    ):
        found = eventually(lambda line=line: completed(declared, line), lambda found, words=words: found == words)
        assert found == words, line
    assert len(eventually(lambda: completed(declared, "tidings endpoints list --any-owner --after "))) == 2


def test_what_goes_wrong_is_not_told(cli: Cli, empty_dsn: str, tmp_path: Path):
    for environment in (
        {"TIDINGS_DATABASE_URL": "postgresql://127.0.0.1:1/none"},
        {"TIDINGS_DATABASE_URL": "nonsense"},
        {"TIDINGS_DATABASE_URL": empty_dsn},
        {"TIDINGS_OWNER": "a b"},
        {"TIDINGS_POOL_SIZE": "many"},
    ):
        assert completed(cli.having(**environment), "tidings endpoints show ") == [], environment


def test_a_database_that_does_not_answer_is_not_waited_for(cli: Cli):
    """A socket that takes connections and says nothing: without an end of its own it would wait for half a minute."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        away = cli.having(TIDINGS_DATABASE_URL=f"postgresql://127.0.0.1:{silent.getsockname()[1]}/none?sslmode=disable")
        assert WITHIN_S < 5
        assert completed(away, "tidings endpoints show ") == []


def test_nothing_is_made_or_changed_for_it(cli: Cli, dsn: str, tmp_path: Path):
    before = fingerprint(dsn)
    completed(cli, "tidings endpoints show ")
    assert fingerprint(dsn) == before
    home = tmp_path / "none"
    embedded = cli.without("TIDINGS_DATABASE_URL").having(TIDINGS_HOME=str(home))
    assert completed(embedded, "tidings endpoints show ") == []
    assert not home.exists()


def test_the_embedded_database_is_asked_while_up_runs_on_it(cli: Cli, home: Path):
    embedded = cli.without("TIDINGS_DATABASE_URL").having(TIDINGS_HOME=str(home))
    with embedded.running("up", "--quiet", "--allow-local"):
        endpoint = embedded.json("endpoints", "add", "http://127.0.0.1:8400/")["id"]
        assert eventually(lambda: completed(embedded, "tidings endpoints show ")) == [endpoint]
    assert completed(embedded, "tidings endpoints show ") == []


@pytest.mark.parametrize(
    ("shell", "says"),
    [
        ("bash", "complete -o nosort -F _tidings_completion tidings"),
        ("zsh", "compdef _tidings_completion tidings"),
        ("fish", "complete --no-files --command tidings"),
    ],
)
def test_each_shell_gets_its_script(standing: Cli, shell: str, says: str):
    script = standing("completion", shell)
    assert says in script
    assert f"_TIDINGS_COMPLETE={shell}_complete" in script


def test_another_shell_is_refused(standing: Cli, refused):
    assert "'ksh' is not one of 'bash', 'zsh', 'fish'" in refused(standing, "completion", "ksh", code=2)


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
def test_bash_completes_with_it(cli: Cli):
    typed = """
eval "$(tidings completion bash)"
COMP_WORDS=(tidings deliveries list --state r) COMP_CWORD=4
_tidings_completion tidings
printf '%s\\n' "${COMPREPLY[@]}"
"""
    tools = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    done = subprocess.run(
        ["bash", "-eu", "-c", typed],
        env=cli.environment | {"PATH": tools},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "running\nretryable\n"), done.stderr
