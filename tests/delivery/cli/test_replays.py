"""Replays from the command line: started, looked at, followed and switched, with the platform beside."""

from __future__ import annotations

import json
import re
import signal
from typing import Any

import pytest

from .conftest import PATIENCE_S, Cli, Receiver, eventually
from .test_terminal import on_a_terminal, plain


@pytest.fixture
def failed(cli: Cli, receiver: Receiver) -> dict[str, Any]:
    """Three deliveries that were discarded, of an endpoint whose receiver is repaired; nobody works."""
    cli("event-types", "declare", "invoice.paid", "--exposure", "webhook")
    cli("event-types", "declare", "invoice.lost", "--exposure", "webhook")
    endpoint = cli.json("endpoints", "add", receiver.url, "--policy", "demo", "--timeout", "30s")["id"]
    cli("subscriptions", "add", "all", "invoice.*", "--endpoint", endpoint)
    receiver.status = 400
    with cli.running():
        events = [
            cli.json("events", "record", each, "--data", "{}")["id"]
            for each in ("invoice.paid", "invoice.paid", "invoice.lost")
        ]
        eventually(lambda: cli.json("deliveries", "list", "--state", "discarded"), lambda found: len(found) == 3)
    receiver.status = 200
    return {"endpoint": endpoint, "events": events}


def counted(cli: Cli, *args: object) -> int:
    """Count by a dry run."""
    return int(cli.json("replays", "start", "--dry-run", *args)["put_back"])


def test_a_dry_run_counts_exactly_and_changes_nothing(cli: Cli, failed: dict[str, Any]):
    none = {"id": None, "dry_run": True, "seen": 3, "put_back": 3, "skipped": {}}
    assert cli.json("replays", "start", "--dry-run") == none
    assert cli("replays", "start", "--dry-run", "--type", "*.lost") == "1 delivery to send\n"
    for given, number in (
        (("--endpoint", failed["endpoint"]), 3),
        (("--type", "invoice.*"), 3),
        (("--type", "invoice.lost", "--type", "invoice.paid"), 3),
        (("--state", "completed"), 0),
        (("--state", "completed", "--state", "discarded"), 3),
        (("--error", "http_400"), 3),
        (("--error", "http_500"), 0),
        (("--class", "permanent"), 3),
        (("--class", "retryable"), 0),
        (("--class", "retryable", "--class", "permanent"), 3),
        (("--status", "400"), 3),
        (("--status", "4xx"), 3),
        (("--status", "5xx"), 0),
        (("--since", "1h"), 3),
        (("--until", "1h"), 0),
        (("--only-undelivered",), 3),
        (("--any-owner",), 3),
    ):
        assert counted(cli, *given) == number, given
    told = cli("replays", "start", "--dry-run", "--status", "5xx", "--type", "invoice.*", "--only-undelivered")
    assert told == (
        "nothing to send: there are no discarded deliveries of invoice.* answered with 500-599 never delivered\n"
    )
    assert cli.json("replays", "list") == []
    assert cli("replays", "list").startswith("no replays: `tidings replays start --dry-run`")


def test_one_is_started_shown_switched_and_ends(cli: Cli, failed: dict[str, Any], receiver: Receiver):
    args = ("--pace", "50", "--reason", "it is repaired", "--by", "ann", "--endpoint", failed["endpoint"])
    started = cli.json("replays", "start", *args)
    assert started | {"started_at": None, "job_id": None} == {
        "id": started["id"],
        "owner_id": "default",
        "source": "deliveries",
        "filter": {
            "endpoint_id": failed["endpoint"],
            "types": [],
            "sifts": False,
            "since": None,
            "until": None,
            "states": ["discarded"],
            "error": None,
            "classes": [],
            "statuses": None,
            "only_undelivered": False,
        },
        "pace": 50.0,
        "state": "running",
        "state_by": None,
        "state_reason": None,
        "stalled": False,
        "started_by": "ann",
        "reason": "it is repaired",
        "started_at": None,
        "ended_at": None,
        "total": 3,
        "seen": 0,
        "put_back": 0,
        "skipped": {},
        "job_id": None,
    }
    which = started["id"]
    assert cli.json("replays", "show", which) == started
    assert cli.json("replays", "list") == [started]
    paused = cli.json("replays", "pause", which, "--by", "bob", "--reason", "wait")
    assert (paused["state"], paused["state_by"], paused["state_reason"]) == ("paused", "bob", "wait")
    printed = cli("replays", "show", which)
    for said in (
        r"sends +discarded deliveries to ",
        r"state +paused \(by bob: wait\)",
        r"seen +0 of 3",
        r"pace +50 a second",
        r"started +.* by ann",
        r"reason +it is repaired",
        rf"next: `tidings replays resume {which}` goes on, `tidings replays cancel {which}` ends it",
    ):
        assert re.search(said, printed), said
    with cli.running():
        assert cli.json("replays", "show", which)["put_back"] == 0
        assert cli.json("replays", "resume", which)["state"] == "running"
        eventually(lambda: cli.json("replays", "show", which)["state"] == "completed")
        eventually(lambda: cli.json("deliveries", "list", "--state", "completed"), lambda found: len(found) == 3)
    [head, row] = cli("replays", "list").splitlines()
    assert head.split()[:4] == ["ID", "State", "Seen", "Put"]
    assert row.split()[:6] == [str(which), "completed", "3", "of", "3", "3"]
    assert [json.loads(line)["id"] for line in cli("replays", "list", "--jsonl").splitlines()] == [which]
    assert cli.json("replays", "list", "--before", which) == []


def test_waiting_shows_the_end_and_says_so_by_the_exit_code(cli: Cli, failed: dict[str, Any], refused):
    with cli.running():
        assert re.search(r"put back +3\n", cli("replays", "start", "--wait"))
        eventually(lambda: cli.json("deliveries", "list", "--state", "completed"), lambda found: len(found) == 3)
        second = cli.json("replays", "start", "--state", "completed", "--wait")
        assert (second["state"], second["put_back"]) == ("completed", 3)
    [stopped, *_] = cli.json("replays", "list")
    assert cli.json("replays", "show", stopped["id"], "--follow")["state"] == "completed"
    assert "nothing to send" in cli("replays", "start", "--wait")


def test_who_follows_one_that_is_cancelled_hears_of_it(cli: Cli, failed: dict[str, Any]):
    which = cli.json("replays", "start")["id"]
    process = cli.start("replays", "show", which, "--follow")
    cli("replays", "cancel", which, "--by", "bob")
    stdout, stderr = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1
    assert "cancelled (by bob)" in stdout
    assert stderr == (
        f"following replay {which}: Ctrl-C leaves it running\ntidings: replay {which} is cancelled, with 0 of 3 seen\n"
    )


@pytest.mark.parametrize("pace", ["nan", "inf", "-1", "0.000000001"])
def test_a_dry_run_refuses_what_a_start_would(cli: Cli, failed: dict[str, Any], refused, pace: str):
    assert "deliveries a second is not within" in refused(
        cli, "replays", "start", "--dry-run", f"--pace={pace}", code=1
    )


def test_a_reason_is_as_long_as_a_starts_whatever_it_is_for(cli: Cli, failed: dict[str, Any], refused):
    which = cli.json("replays", "start")["id"]
    for name in ("pause", "resume", "cancel"):
        assert "shorten it" in refused(cli, "replays", name, which, "--reason", "x" * 1_001, code=1)


def test_who_stops_following_leaves_it_running(cli: Cli, failed: dict[str, Any]):
    which = cli.json("replays", "start")["id"]
    process = cli.start("replays", "show", which, "--follow")
    assert process.stderr.readline() == f"following replay {which}: Ctrl-C leaves it running\n"
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert stderr == f"it goes on without you: `tidings replays show {which} --follow` tells how far it is\n"
    assert cli.json("replays", "show", which)["state"] == "running"


def test_one_whose_job_has_ended_says_how_it_goes_on(cli: Cli, failed: dict[str, Any]):
    started = cli.json("replays", "start", "--any-owner")
    which = started["id"]
    cli("jobs", "cancel", started["job_id"], "--any-owner")
    printed = cli("replays", "show", which, "--any-owner")
    assert re.search(r"state +stalled\n", printed)
    assert re.search(r"owner +every owner\n", printed)
    assert f"`tidings replays resume {which} --any-owner` goes on" in printed
    assert cli.run("replays", "show", which, "--any-owner", "--follow").exit_code == 1
    told = cli.json("status")
    assert (told["stalled_replays"], "stalled_replay" in [each["code"] for each in told["alerts"]]) == ([which], True)
    assert cli.json("replays", "resume", which, "--any-owner")["stalled"] is False
    assert cli.json("status")["stalled_replays"] == []


def test_past_events_are_sent_to_an_endpoint_that_came_later(cli: Cli, failed: dict[str, Any], receiver: Receiver):
    late = cli.json("endpoints", "add", f"{receiver.url}/late", "--policy", "demo", "--timeout", "30s")["id"]
    cli("subscriptions", "add", "late", "invoice.paid", "--endpoint", late)
    args = ("events", "replay", "--endpoint", late)
    assert cli(*args, "--dry-run") == "2 events to send\n"
    assert cli(*args, "--dry-run", "--type", "*") == "3 events to send\n"
    assert cli.json(*args, "--dry-run", "--until", "1h")["seen"] == 0
    sent = len(receiver.received)
    with cli.running():
        replay = cli.json(*args, "--wait", "--reason", "they came later", "--since", "1h")
        assert (replay["source"], replay["put_back"], replay["reason"]) == ("events", 2, "they came later")
        assert replay["filter"]["types"] == ["invoice.paid"]
        eventually(lambda: cli.json("deliveries", "list", "--state", "completed"), lambda found: len(found) == 2)
        assert cli(*args, "--type", "*", "--wait").startswith("replay")
        eventually(lambda: cli.json("deliveries", "list", "--state", "completed"), lambda found: len(found) == 3)
        assert cli(*args) == "nothing to send; skipped: delivery_exists 2\n"
    assert sorted(headers["webhook-id"] for headers, _ in receiver.received[sent:]) == sorted(failed["events"])
    assert "events to" in cli("replays", "list")


BAD = [
    (("--pace", "0"), 1, "a pace of 0.0 deliveries a second"),
    (("--pace", "nan"), 1, "a pace of nan"),
    (("--pace", "fast"), 2, "not a valid float"),
    (("--type", "inv*"), 1, "no pattern"),
    (("--type", "invoice.payed"), 1, "did you mean 'invoice.paid'"),
    (("--status", "99"), 2, "no HTTP status"),
    (("--status", "5x5"), 2, "no HTTP status"),
    (("--class", "broken"), 2, "--class"),
    (("--state", "pending"), 2, "--state"),
    (("--state", "completed", "--only-undelivered"), 1, "completed deliveries were delivered"),
    (("--dry-run", "--wait"), 2, "give one of them"),
    (("--reason", " "), 2, "it is empty"),
    (("--reason", "x" * 1_001), 1, "shorten it to 1000"),
    (("--since", "1h", "--until", "2h"), 1, "--since is not before --until"),
]


def test_bad_input_is_refused_with_what_to_do(cli: Cli, failed: dict[str, Any], refused):
    for args, code, says in BAD:
        assert says in refused(cli, "replays", "start", *args, code=code), args
    assert cli.json("replays", "list") == []


def test_unknown_ids_and_missing_ones_are_refused(cli: Cli, failed: dict[str, Any], refused):
    for verb in ("show", "pause", "resume", "cancel"):
        assert "has no replay 99" in refused(cli, "replays", verb, "99", code=1)
        assert "is no id" in refused(cli, "replays", verb, "x", code=2)
    assert "--endpoint" in refused(cli, "events", "replay", code=2)
    which = cli.json("replays", "start")["id"]
    cli("replays", "cancel", which)
    assert "is cancelled, for good" in refused(cli, "replays", "resume", which, code=1)


FOLLOW = """
import os
os.environ.update({})
from delivery.cli.root import tidings
tidings.main(["replays", "start", "--wait"], "tidings")
"""


def test_a_bar_shows_how_far_it_is_on_a_terminal(cli: Cli, failed: dict[str, Any]):
    with cli.running():
        text = plain(on_a_terminal(FOLLOW.format(cli.environment), 80))
    assert "replaying" in text
    assert "100%" in text
    assert "completed" in text
