"""What processes write on standard error: lines for people, or one JSON object a line."""

from __future__ import annotations

import json
import logging
import signal
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from delivery.cli.logs import JsonLines, Lines

from .conftest import PATIENCE_S, Cli, Receiver, eventually
from .test_running import end, subscribed


def record(msg: Any, *args: object, error: bool = False) -> logging.LogRecord:
    return logging.LogRecord("tidings.x", logging.WARNING, "x.py", 1, msg, args, sys.exc_info() if error else None)


def said(msg: Any, *args: object, error: bool = False) -> dict[str, Any]:
    line = JsonLines().format(record(msg, *args, error=error))
    assert line.isascii()
    assert "\n" not in line
    return dict(json.loads(line))


def test_a_record_is_an_object_with_what_its_message_names():
    found = said("event=%s endpoint=%s attempt=%d verdict=%s code=%s ms=%d", "e", "p", 3, "delivered", "http_200", 11.7)
    moment = datetime.fromisoformat(found.pop("time"))
    assert timedelta(0) <= datetime.now(UTC) - moment < timedelta(minutes=5)
    assert found == {
        "level": "WARNING",
        "logger": "tidings.x",
        "message": "event=e endpoint=p attempt=3 verdict=delivered code=http_200 ms=11",
        "event": "e",
        "endpoint": "p",
        "attempt": 3,
        "verdict": "delivered",
        "code": "http_200",
        "ms": 11,
    }


@pytest.mark.parametrize(
    ("msg", "args", "fields"),
    [
        ("event %s cannot be relayed (%d of %d): %s", ("e", 1, 5, "x"), {"event": "e"}),
        ("job %d (%s) failed", (17, "a kind"), {"job": 17}),
        ("jobs are of kind %s, which nobody declared", ("k",), {"kind": "k"}),
        ("100%% of endpoint %s", ("p",), {"endpoint": "p"}),
        ("nothing named: %s", ("event=e",), {}),
        ("no values, 100% so: event=%s", (), {}),
        ("level=%s time=%s message=%s logger=%s", ("l", "t", "m", "g"), {}),
        ("%(event)s", ({"event": "e"},), {}),
        ("event=%*d", (5, 1), {}),
        (ValueError("event=%s"), (), {}),
    ],
)
def test_fields_are_what_our_own_words_name(msg: Any, args: tuple[object, ...], fields: dict[str, object]):
    found = said(msg, *args)
    assert found["message"] == record(msg, *args).getMessage()
    assert (found["level"], found["logger"]) == ("WARNING", "tidings.x")
    assert {name: each for name, each in found.items() if name not in ("time", "level", "logger", "message")} == fields


def test_hostile_text_is_a_value_and_nothing_else():
    hostile = 'x" , "event": "forged\nevent=%s \x1b[31m\u202e \ud800'
    found = said("endpoint %s: %s", hostile, hostile)
    assert found["endpoint"] == hostile
    assert "event" not in found


def test_a_traceback_is_in_one_field():
    try:
        raise ValueError("it\nbroke")
    except ValueError:
        found = said("cannot %s", "go on", error=True)
    assert found["message"] == "cannot go on"
    assert found["exception"].startswith("Traceback (most recent call last):\n")
    assert found["exception"].endswith("ValueError: it\nbroke")
    assert "exception" not in said("nothing was raised", error=True)


def test_for_people_a_record_is_one_line_that_a_terminal_only_prints():
    line = Lines().format(record("a\nb %s", "\x1b[31m"))
    assert line.endswith("Z WARNING a b \\x1b[31m")


@pytest.mark.parametrize("by", ["option", "environment"])
def test_all_that_a_process_writes_is_objects(cli: Cli, receiver: Receiver, by: str):
    endpoint = subscribed(cli, receiver.url)
    chosen = ["--log-format", "json"] if by == "option" else []
    cli = cli.having(TIDINGS_GRACE="60s", **({} if chosen else {"TIDINGS_LOG_FORMAT": "json"}))
    process = cli.start("up", "--processes", "2", *chosen)
    event = cli.json("events", "record", "invoice.paid", "--data", "1")["id"]
    eventually(lambda: receiver.received)
    eventually(lambda: cli.json("deliveries", "list", "--state", "completed"))
    process.send_signal(signal.SIGTERM)
    stdout, stderr = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, stdout) == (0, "")
    lines = [json.loads(line) for line in stderr.splitlines()]
    messages = [line["message"] for line in lines]
    assert "ready: relay and worker run: Ctrl-C stops them in order" in messages
    assert len([each for each in messages if each.startswith("database: ")]) == 1, "said by the first process alone"
    assert messages[-1] == "stopped in order"
    [attempt] = [line for line in lines if line["logger"] == "tidings.delivery"]
    assert {name: attempt[name] for name in ("event", "endpoint", "attempt", "verdict", "code")} == {
        "event": event,
        "endpoint": endpoint,
        "attempt": 1,
        "verdict": "delivered",
        "code": "http_200",
    }
    assert type(attempt["ms"]) is int


def test_what_ends_a_process_is_an_object_too(cli: Cli):
    refused = cli.without("TIDINGS_KEYS").run("worker", "--log-format", "json")
    assert refused.exit_code == 1
    [line] = refused.stderr.splitlines()
    found = json.loads(line)
    assert (found["level"], found["logger"]) == ("ERROR", "tidings")
    assert "TIDINGS_KEYS" in found["message"]
    assert not found["message"].startswith("tidings:")
    after = cli.run("endpoints", "show", "nothing")
    assert after.stderr.startswith("tidings: ")


def test_a_format_that_is_none_is_refused(cli: Cli):
    refused = cli.run("up", "--log-format", "xml")
    assert refused.exit_code == 2
    assert "'console', 'json'" in refused.stderr
    by_environment = cli.having(TIDINGS_LOG_FORMAT="xml").run("up")
    assert by_environment.exit_code == 1
    assert by_environment.stderr.startswith("tidings: TIDINGS_LOG_FORMAT: ")


def test_a_process_is_quiet_in_json_too(cli: Cli, receiver: Receiver):
    subscribed(cli, receiver.url)
    process = cli.start("up", "--quiet", "--log-format", "json")
    cli("events", "record", "invoice.paid", "--data", "1")
    eventually(lambda: cli.json("deliveries", "list", "--state", "completed"))
    _, stderr = end(process, signal.SIGTERM)
    assert "tidings.delivery" not in stderr
