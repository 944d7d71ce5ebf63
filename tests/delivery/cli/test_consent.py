"""What no later command brings back asks first; where nobody can be asked, it does nothing without --yes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress

import pytest

from .conftest import PATIENCE_S, TOP, Cli, eventually, fingerprint, the_line
from .test_command_tree import TREE, options

URL = "https://example.com/hook"
#: All of them, and what is asked.
DESTRUCTIVE = {
    "endpoints remove": (
        "endpoints remove {short}",
        "Remove endpoint {endpoint} (https://example.com/hook) for good, with what subscribes it (all)? [y/N]: ",
    ),
    "endpoints rotate-secret": (
        "endpoints rotate-secret {endpoint} --revoke-now",
        "Let the old keys of endpoint {endpoint} sign nothing any more?"
        " Its receiver refuses every delivery until it has the new one. [y/N]: ",
    ),
    "subscriptions remove": (
        "subscriptions remove all",
        "Remove subscription all (invoice.* to endpoint {endpoint})?"
        " What is recorded without it is never sent there. [y/N]: ",
    ),
}


@pytest.fixture
def endpoint(declared: Cli) -> str:
    endpoint = declared.json("endpoints", "add", URL)["id"]
    declared("subscriptions", "add", "all", "invoice.*", "--endpoint", endpoint)
    return str(endpoint)


def on_a_terminal(
    cli: Cli, line: str, answer: str | signal.Signals, meanwhile: Callable[[], object] = lambda: None
) -> tuple[int, str, str]:
    """Run a command whose question is answered; returns its exit code, its results, and what the terminal shows."""
    ours, theirs = os.openpty()
    outside = {name: value for name, value in os.environ.items() if not name.startswith("TIDINGS_")}
    process = subprocess.Popen(
        [sys.executable, "-m", "delivery.cli", *line.split()],
        cwd=TOP,
        env=outside | cli.environment | {"TERM": "dumb"},
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=theirs,
        text=True,
    )
    os.close(theirs)
    seen = b""
    with suppress(OSError):  # how Linux says that nobody holds the other end any more
        while b"[y/N]: " not in seen:
            seen += os.read(ours, 65_536)
    meanwhile()
    if isinstance(answer, signal.Signals):
        interrupt(process, answer)
    else:
        os.write(ours, answer.encode() + b"\n")
    stdout, _ = process.communicate(timeout=PATIENCE_S)
    with suppress(OSError):
        while part := os.read(ours, 65_536):
            seen += part
    os.close(ours)
    return process.returncode, stdout, seen.decode().replace("\r\n", "\n")


def interrupt(process: subprocess.Popen[str], number: signal.Signals) -> None:
    """Press until it ends: Python does not see a signal that comes just before it waits for a line."""
    for _ in range(int(PATIENCE_S)):
        process.send_signal(number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(1.0)
            return


def test_no_destructive_command_is_forgotten_here():
    asking = {name for name, command in TREE.items() if "--yes" in options(command)}
    assert asking == set(DESTRUCTIVE) | {"endpoints import"}, "test_setup.py asks the latter"


@pytest.mark.parametrize("name", DESTRUCTIVE)
def test_without_a_terminal_and_without_yes_nothing_is_changed(
    declared: Cli, dsn: str, endpoint: str, refused, name: str
):
    before = fingerprint(dsn)
    line = DESTRUCTIVE[name][0].format(endpoint=endpoint, short=endpoint[:13])
    told = refused(declared, *line.split(), code=2)
    assert (
        told == f"this cannot be undone, and there is no terminal to ask on: give --yes (see `tidings {name} --help`)"
    )
    assert fingerprint(dsn) == before


def test_it_is_refused_before_the_database_is_looked_for(standing: Cli):
    away = standing.having(TIDINGS_DATABASE_URL="postgresql://127.0.0.1:1/none")
    assert "there is no terminal" in the_line(away.run("subscriptions", "remove", "all"))


@pytest.mark.parametrize("name", DESTRUCTIVE)
def test_with_yes_nobody_is_asked(declared: Cli, dsn: str, endpoint: str, name: str):
    before = fingerprint(dsn)
    assert declared.json(*DESTRUCTIVE[name][0].format(endpoint=endpoint, short=endpoint[:13]).split(), "--yes")
    assert fingerprint(dsn) != before


@pytest.mark.parametrize("name", DESTRUCTIVE)
@pytest.mark.parametrize("answer", ["n", "", signal.SIGINT])
def test_nothing_is_changed_unless_somebody_agrees(
    declared: Cli, dsn: str, endpoint: str, name: str, answer: str | signal.Signals
):
    before = fingerprint(dsn)
    line, question = (each.format(endpoint=endpoint, short=endpoint[:13]) for each in DESTRUCTIVE[name])
    code, stdout, seen = on_a_terminal(declared, line, answer)
    assert seen.startswith(question)
    assert stdout == ""
    assert fingerprint(dsn) == before
    if isinstance(answer, str):
        assert (code, seen.splitlines()[-1]) == (1, "tidings: nothing was changed")
    else:
        assert code == 130


@pytest.mark.parametrize("name", DESTRUCTIVE)
def test_it_is_done_once_somebody_agrees(declared: Cli, dsn: str, endpoint: str, name: str):
    before = fingerprint(dsn)
    line = DESTRUCTIVE[name][0].format(endpoint=endpoint, short=endpoint[:13])
    code, stdout, seen = on_a_terminal(declared, f"{line} --json", "y")
    assert code == 0, seen
    assert stdout.startswith("{"), "the question is not among what a program reads"
    assert fingerprint(dsn) != before


def test_the_question_says_how_many_deliveries_are_cancelled(declared: Cli, endpoint: str):
    declared("events", "record", "invoice.paid", "--data", "1")
    with declared.running("relay", "--quiet"):
        eventually(lambda: declared.json("deliveries", "list"))
    _, _, seen = on_a_terminal(declared, f"endpoints remove {endpoint}", "n")
    assert "(all), and cancel 1 delivery that would go there?" in seen


def test_a_rotation_that_overlaps_does_not_ask(declared: Cli, endpoint: str, refused):
    assert declared.json("endpoints", "rotate-secret", endpoint)["secret"]
    assert "there is no terminal" in refused(declared, "endpoints", "rotate-secret", endpoint, "--overlap=0", code=2)


@pytest.mark.parametrize("line", ["subscriptions remove gone", "endpoints remove 01890000", "endpoints remove {}"])
def test_one_that_is_not_there_is_not_asked_about(standing: Cli, line: str):
    code, _, seen = on_a_terminal(standing, line.format("01890000-0000-7000-8000-000000000001"), "y")
    assert code == 1
    assert seen.replace("y\n", "", 1).startswith("tidings: owner 'default' has no ")
