"""Deliveries, made by a platform that runs beside: their story, stepping in, replaying."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from .conftest import PATIENCE_S, Cli, Receiver, eventually

#: As `deliveries cancel` would, for many at once.
CANCEL_ALL = """
WITH gone AS (DELETE FROM tidings.job RETURNING *)
INSERT INTO tidings.job_done (id, kind, lane, args, state, priority, run_at, attempt, spent, max_attempts, reason,
                              queued_at, created_at)
SELECT id, kind, lane, args, 'cancelled', priority, run_at, attempt, spent, max_attempts, 'ann', queued_at, created_at
FROM gone
"""
#: How many sessions wait for what another one holds.
WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"


@pytest.fixture
def up(cli: Cli, receiver: Receiver) -> Iterator[Cli]:
    """The platform at work, with one endpoint that gets everything."""
    cli("event-types", "declare", "invoice.paid", "--exposure", "webhook")
    cli("event-types", "declare", "invoice.lost", "--exposure", "webhook")
    endpoint = cli.json("endpoints", "add", receiver.url, "--policy", "demo", "--timeout", "30s")["id"]
    cli("subscriptions", "add", "all", "invoice.*", "--endpoint", endpoint)
    with cli.running():
        yield cli


def settled(cli: Cli, *args: object, number: int = 1) -> list[dict[str, Any]]:
    """Wait for so many deliveries that are finished."""
    final = ("--state", "completed", "--state", "discarded", "--state", "cancelled")
    found = eventually(lambda: cli.json("deliveries", "list", *final, *args), lambda found: len(found) >= number)
    assert len(found) == number
    return list(found)


def record(cli: Cli, *args: object, type: str = "invoice.paid") -> str:
    return str(cli.json("events", "record", type, "--data", "{}", *args)["id"])


def test_the_story_of_one_that_went_well(up: Cli, receiver: Receiver):
    event = record(up, "--subject", "inv-7")
    (delivery,) = settled(up)
    story = up.json("deliveries", "show", delivery["id"])
    assert {name: story[name] for name in delivery} == delivery
    assert (story["event"]["id"], story["event"]["subject"]) == (event, "inv-7")
    assert story["endpoint"]["url"] == receiver.url
    (attempt,) = story["attempts"]
    assert (attempt["number"], attempt["outcome"], attempt["code"], attempt["status"]) == (
        1,
        "delivered",
        "http_200",
        200,
    )
    assert attempt["response_body"] == "ok"
    assert story["next"].startswith("nothing: it was delivered at ")
    printed = up("deliveries", "show", delivery["id"])
    for said in (
        event,
        "about inv-7",
        receiver.url,
        "1 made, 0 of 4 spent (policy demo)",
        "#1  ",
        "delivered (http_200",
    ):
        assert said in printed


def test_the_story_of_one_that_was_given_up(up: Cli, receiver: Receiver):
    receiver.status, receiver.body = 500, b"\x1b]0;owned\x07 [bold]no[/bold]\nbecause"
    record(up)
    (delivery,) = settled(up)
    assert (delivery["state"], delivery["reason"], delivery["code"]) == ("discarded", "exhausted", "http_500")
    story = up.json("deliveries", "show", delivery["id"])
    assert [each["number"] for each in story["attempts"]] == [1, 2, 3, 4]
    assert {each["outcome"] for each in story["attempts"]} == {"retryable"}
    assert story["attempts"][0]["next_at"] is not None
    printed = up("deliveries", "show", delivery["id"])
    assert "4 made, 4 of 4 spent (policy demo)" in printed
    assert "(exhausted, last answer http_500)" in printed
    assert r"\x1b]0;owned\x07 [bold]no[/bold]" in printed
    assert all(char.isprintable() or char == "\n" for char in printed)
    assert printed.count("next try planned") == 3


def test_an_event_shows_its_fan_out(up: Cli, receiver: Receiver):
    other = up.json("endpoints", "add", f"{receiver.url}/2", "--policy", "demo", "--timeout", "30s")
    up("subscriptions", "add", "more", "*", "--endpoint", other["id"])
    event = record(up)
    settled(up, number=2)
    story = up.json("events", "show", event)
    assert story["state"] == "relayed"
    listed = {each["id"]: each for each in up.json("deliveries", "list")}
    assert {each["id"]: each for each in story["deliveries"]} == listed
    assert {each["endpoint_id"] for each in story["deliveries"]} == {
        each["id"] for each in up.json("endpoints", "list")
    }
    assert [each["state"] for each in story["deliveries"]] == ["completed", "completed"]
    printed = up("events", "show", event)
    assert "fan-out (2)" in printed
    assert f"endpoint {other['id']}" in printed


def test_a_retry_keeps_the_id_and_numbers_on_with_a_new_budget(up: Cli, receiver: Receiver):
    receiver.status = 400
    event = record(up)
    (delivery,) = settled(up)
    receiver.status = 200
    retried = up.json("deliveries", "retry", delivery["id"])
    assert (retried["id"], retried["spent"]) == (delivery["id"], 0)
    eventually(lambda: up.json("deliveries", "list", "--state", "completed"))
    attempts = up.json("deliveries", "show", delivery["id"])["attempts"]
    assert [(each["number"], each["code"]) for each in attempts] == [(1, "http_400"), (2, "http_200")]
    assert [headers["webhook-id"] for headers, _ in receiver.received] == [event, event]


def test_one_that_is_held_is_told_and_goes_out_when_retried(up: Cli, receiver: Receiver):
    endpoint = up.json("endpoints", "list")[0]["id"]
    up("endpoints", "update", endpoint, "--policy", "standard")
    receiver.status, receiver.headers = 429, {"Retry-After": "3600"}
    record(up)
    (delivery,) = eventually(  # the lane is held before the attempt that asked for it has ended
        lambda: up.json("deliveries", "list"),
        lambda found: found and found[0]["held_until"] and found[0]["attempt"] and found[0]["state"] != "running",
    )
    story = up.json("deliveries", "show", delivery["id"])
    assert story["spent"] == 0
    assert "its endpoint's lane is held, as the receiver asked" in story["next"]
    receiver.status = 200
    assert "next: it is sent now, by the `tidings up`" in up("deliveries", "retry", delivery["id"])
    settled(up)


def test_deliveries_are_listed_by_what_they_have_in_common(up: Cli, receiver: Receiver):
    receiver.status = 400
    record(up)
    settled(up)
    receiver.status = 200
    record(up, type="invoice.lost")
    newer, older = settled(up, number=2)

    def listed(*args: object) -> list[int]:
        return [each["id"] for each in up.json("deliveries", "list", *args)]

    assert listed("--state", "completed") == [newer["id"]]
    assert listed("--state", "completed", "--state", "discarded") == [newer["id"], older["id"]]
    assert listed("--type", "invoice.lost") == [newer["id"]]
    assert listed("--error", "http_400") == [older["id"]]
    assert listed("--endpoint", newer["endpoint_id"]) == [newer["id"], older["id"]]
    assert listed("--since", "1h", "--limit", "1") == [newer["id"]]
    assert listed("--before", newer["id"]) == [older["id"]]
    assert listed("--until", "1h") == []
    assert [json.loads(line)["id"] for line in up("deliveries", "list", "--jsonl").splitlines()] == listed()


def test_a_replay_counts_first_then_sends_what_matches(up: Cli, receiver: Receiver):
    receiver.status = 400
    for _ in range(3):
        record(up)
    record(up, type="invoice.lost")
    settled(up, number=4)
    sent = len(receiver.received)
    assert up.json("deliveries", "replay", "--dry-run") == {"matched": 4, "replayed": 0, "dry_run": True}
    assert up("deliveries", "replay", "--dry-run", "--type", "invoice.lost") == "1 delivery to send again\n"
    assert up.json("deliveries", "replay", "--error", "http_500")["matched"] == 0
    assert up.json("deliveries", "replay", "--state", "completed")["matched"] == 0
    told = up("deliveries", "replay", "--error", "http_500", "--type", "invoice.lost")
    assert told.startswith(
        "nothing to send again: there is no discarded delivery of owner default of type invoice.lost"
    )
    assert told.endswith("that ended with http_500; `--state completed` sends delivered ones again\n")
    assert len(receiver.received) == sent
    receiver.status = 200
    which = ("--type", "invoice.paid", "--since", "1h", "--error", "http_400")
    assert up("deliveries", "replay", *which) == "3 deliveries put back, to be sent again\n"
    eventually(lambda: up.json("deliveries", "list", "--state", "completed"), lambda found: len(found) == 3)
    assert up.json("deliveries", "replay", "--dry-run")["matched"] == 1
    assert up.json("deliveries", "replay", "--type", "invoice.lost") == {"matched": 1, "replayed": 1, "dry_run": False}


def test_nothing_is_replayed_to_an_endpoint_that_was_removed(up: Cli, refused):
    record(up)
    (delivery,) = settled(up)
    up("endpoints", "remove", delivery["endpoint_id"], "--yes")
    line = refused(up, "deliveries", "replay", "--state", "completed", "--endpoint", delivery["endpoint_id"], code=1)
    assert "was removed: nothing can be sent to it" in line
    assert "was removed" in refused(up, "deliveries", "retry", delivery["id"], code=1)


def test_a_replay_leaves_what_is_in_flight_alone(up: Cli, receiver: Receiver):
    receiver.hold.clear()
    record(up)
    eventually(lambda: receiver.received)
    final = ("--state", "completed", "--state", "discarded", "--state", "cancelled")
    assert up.json("deliveries", "replay", *final)["matched"] == 0
    assert up.json("deliveries", "show", up.json("deliveries", "list")[0]["id"])["next"].startswith(
        "attempt 1 is under way"
    )
    receiver.hold.set()
    settled(up)
    assert len(receiver.received) == 1


def test_a_replay_that_is_cut_short_says_how_far_it_came(cli: Cli, connection, receiver: Receiver):
    cli("event-types", "declare", "invoice.paid", "--exposure", "webhook")
    endpoint = cli.json("endpoints", "add", receiver.url)["id"]
    cli("subscriptions", "add", "all", "*", "--endpoint", endpoint)
    connection.execute("SELECT tidings.record('default', 'invoice.paid', NULL, '1') FROM generate_series(1, 6000)")
    with cli.running("relay"):
        eventually(lambda: connection.execute("SELECT count(*) FROM tidings.outbox").fetchone() == (0,))
    connection.execute(CANCEL_ALL)
    assert cli.json("deliveries", "replay", "--state", "cancelled", "--dry-run")["matched"] == 6_000
    with psycopg.connect(cli.environment["TIDINGS_DATABASE_URL"]) as holder:  # keeps it from coming to its end
        holder.execute("SELECT FROM tidings.job_done ORDER BY id DESC LIMIT 1 FOR UPDATE")
        process = cli.start("deliveries", "replay", "--state", "cancelled")
        eventually(lambda: connection.execute(WAITING).fetchone() == (1,))
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=PATIENCE_S)
    (moved,) = connection.execute("SELECT count(*) FROM tidings.job").fetchone()
    assert process.returncode == 130
    assert 0 < moved < 6_000
    assert stderr == f"{moved} of 6000 were put back; run it again for the rest\n"
