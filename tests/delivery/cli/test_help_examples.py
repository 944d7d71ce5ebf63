"""Every line under Examples is one that the command takes, and does what it says when it is typed."""

from __future__ import annotations

import json
import os
import shlex
import signal
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import psycopg
import pytest
from psycopg import sql

from delivery.cli.examples import EXAMPLES
from delivery.cli.root import tidings
from signing import SigningSecret, WebhookSigner
from tests.gates.shapes import faults_of, printed

from .conftest import PATIENCE_S, Cli, Receiver, eventually
from .test_command_tree import TREE, options

#: What stands for what only the reader knows, and something of that form.
PLACEHOLDERS = {
    "ENDPOINT_ID": "01890000-0000-7000-8000-000000000001",
    "EVENT_ID": "01890000-0000-7000-8000-000000000002",
    "DELIVERY_ID": "17",
    "JOB_ID": "17",
    "REPLAY_ID": "17",
    "APP_ROLE": "app",
    "TOKEN": "sesame",
}
LINES = [(name, each.line) for name, examples in EXAMPLES.items() for each in examples]
#: Not run here -> who runs it.
RUN_ELSEWHERE = {"demo": "test_demo.py plays it"}
#: They run until they are stopped, and say so.
LOOPS = {"up": "ready", "relay": "ready", "worker": "ready", "listen": "Listening", "deliveries watch": "Ctrl-C ends"}
#: As somebody would come to them; `up` runs from the first of the two groups on.
BEFORE_UP = (
    "migrate",
    "event-types declare",
    "event-types list",
    "policies add",
    "policies list",
    "policies show",
    "policies update",
    "policies remove",
    "endpoints add",
    "endpoints list",
    "endpoints show",
    "endpoints update",
    "endpoints keys",
    "endpoints jwks",
    "endpoints disable",
    "endpoints enable",
    "endpoints test",
    "subscriptions add",
    "subscriptions test-filter",
    "subscriptions list",
    "endpoints export",
    "endpoints import",
    "events record",
    "events list",
    "events show",
    "events requeue",
)
WITH_UP = (
    "status",
    "doctor",
    "deliveries list",
    "deliveries show",
    "deliveries retry",
    "deliveries cancel",
    "deliveries replay",
    "events replay",
    "replays start",
    "replays list",
    "replays show",
    "replays pause",
    "replays resume",
    "replays cancel",
    "jobs overview",
    "jobs list",
    "jobs show",
    "jobs retry",
    "jobs cancel",
    "periodic list",
    "periodic run",
    "verify",
    "keys generate",
    "keys list",
    "keys rotate",
    "completion",
    "endpoints rotate-secret",
    "subscriptions remove",
    "endpoints remove",
    "pause",
    "resume",
)


def test_every_command_shows_examples():
    assert list(EXAMPLES) == list(TREE)


def test_the_page_about_json_names_every_command():
    assert sorted(printed()) == sorted(TREE)
    silent = {name for name, what in printed().items() if what == "nothing for programs"}
    assert silent == {name for name, command in TREE.items() if "--json" not in options(command)}


@pytest.mark.parametrize("name", TREE)
def test_examples_stand_last_in_the_help_one_a_line(standing, name: str):
    text = standing(*name.split(), "--help")
    _, examples = text.split("\nExamples:\n")
    wanted = [line for each in EXAMPLES[name] for line in (f"  # {each.why}", f"  {each.line}") if line != "  # "]
    assert examples.splitlines() == wanted
    assert max(map(len, wanted)) <= 100
    whys = [bool(each.why) for each in EXAMPLES[name]]
    assert whys == sorted(whys), "put the ones that need no word first: else they seem to belong to the one above"


@pytest.mark.parametrize(("name", "line"), LINES)
def test_every_example_is_taken_by_its_command(name: str, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    write_files(SigningSecret.generate())
    assert parsed(filled(line, PLACEHOLDERS)) == name


@pytest.mark.parametrize("line", ["tidings gone", "tidings up --gone", "tidings jobs show", "tidings jobs show x"])
def test_an_example_of_what_is_not_there_is_refused(line: str):
    with pytest.raises(click.UsageError):
        parsed(line)


@pytest.mark.parametrize("as_json", [False, True], ids=["people", "json"])
def test_every_example_goes_well_when_it_is_typed(
    cli: Cli, dsn: str, receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_json: bool
):
    """With --json, what each prints is what docs/json.md says."""
    assert {*BEFORE_UP, *WITH_UP, *LOOPS, *RUN_ELSEWHERE} == set(EXAMPLES), "say here when to run it"
    monkeypatch.chdir(tmp_path)
    places = dict(PLACEHOLDERS)
    with role(dsn) as places["APP_ROLE"]:
        places["https://example.com"] = receiver.url.removesuffix("/hook")
        for name in BEFORE_UP:
            look_around(cli, places)
            type_in(cli, name, places, as_json=as_json)
        with cli.running():
            eventually(lambda: len(cli.json("deliveries", "list", "--state", "completed")) > 1)
            look_around(cli, places)
            slow = cli.json("replays", "start", "--state", "completed", "--pace", "0.01")
            places["REPLAY_ID"] = str(slow["id"])
            for name in WITH_UP:
                type_in(cli, name, places, as_json=as_json)
    for name, ready in LOOPS.items():
        for each in EXAMPLES[name]:
            begin_and_end(cli, filled(each.line, places), ready)


def parsed(line: str) -> str:
    """Read a line as the command line does, up to where the command would run; returns the command's name."""
    program, *words = shlex.split(line)
    assert program == "tidings"
    context, names = tidings.make_context(program, words), list[str]()
    while isinstance(group := context.command, click.Group):
        name, command, rest = group.resolve_command(context, [*context._protected_args, *context.args])
        assert command is not None
        context = command.make_context(name, rest, parent=context)
        names.append(name or "")
    context.close()  # and the files that it opened
    return " ".join(names)


def filled(line: str, places: dict[str, str]) -> str:
    for placeholder, value in places.items():
        line = line.replace(placeholder, value)
    return line


def look_around(cli: Cli, places: dict[str, str]) -> None:
    """Find ids to put for the placeholders, as a reader does."""
    found: dict[str, Callable[[], list[Any]]] = {
        "ENDPOINT_ID": lambda: cli.json("endpoints", "list"),
        "EVENT_ID": lambda: cli.json("events", "list"),
        "DELIVERY_ID": lambda: cli.json("deliveries", "list"),
        "JOB_ID": lambda: cli.json("jobs", "list", "--any-owner"),
    }
    for placeholder, look in found.items():
        if things := look():
            places[placeholder] = str(things[0]["id"])


def type_in(cli: Cli, name: str, places: dict[str, str], *, as_json: bool) -> None:
    secret, takes = SigningSecret.generate(), options(TREE[name])
    write_files(secret)
    for each in EXAMPLES[name]:
        line = filled(each.line, places | {"whsec_...": secret.reveal()})
        words = shlex.split(line)[1:]
        words += ["--yes"] if "--yes" in takes and "--yes" not in words else []
        is_for_a_shell = "--curl" in words or words[1:] == ["export", "setup.yaml"]
        prints_json = as_json and "--json" in takes and not is_for_a_shell
        words += ["--json"] if prints_json and not {"--json", "--jsonl"} & set(words) else []
        result = cli.run(*words)
        assert result.exit_code in ({0, 3} if name in {"status", "doctor"} else {0}), (line, result.stderr)
        assert result.stdout, line
        if prints_json:
            texts = result.stdout.splitlines() if "--jsonl" in words else [result.stdout]
            found = [json.loads(text) for text in texts]
            assert faults_of(name, found if "--jsonl" in words else found[0]) == [], line


def begin_and_end(cli: Cli, line: str, ready: str) -> None:
    """Start a loop, on a port that is free where it opens one, and stop it once it runs."""
    _, *words = shlex.split(line.replace("--port 8400", "").replace("whsec_...", SigningSecret.generate().reveal()))
    process = cli.start(*words, *(["--port", "0"] if words[0] == "listen" else []))
    said = process.stderr if "watch" in words else process.stdout
    assert said is not None
    assert any(ready in line for line in said), line
    process.send_signal(signal.SIGTERM)
    _, stderr = process.communicate(timeout=PATIENCE_S)
    assert process.returncode in (0, 143), (line, stderr)


def write_files(secret: SigningSecret) -> None:
    """Write the files that examples name into the current folder."""
    body = b'{"amount": "12.50"}'
    Path("data.json").write_bytes(body)
    Path("schema.json").write_text('{"type": "object"}')
    headers = "".join(f"{name}: {value}\n" for name, value in WebhookSigner([secret]).headers("a", body).items())
    Path("request.txt").write_bytes(headers.encode() + b"\n" + body)


@contextmanager
def role(dsn: str) -> Any:
    """A role that may be let record."""
    name = f"app_{os.urandom(6).hex()}"
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE ROLE {}").format(sql.Identifier(name)))
        try:
            yield name
        finally:
            connection.execute(sql.SQL("DROP OWNED BY {}").format(sql.Identifier(name)))
            connection.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(name)))
