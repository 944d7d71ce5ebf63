"""Each command once: what it does, and what it prints for programs and for people."""

from __future__ import annotations

import asyncio
import re
import shlex
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest

from delivery import open_app
from delivery.api.endpoints import Endpoints
from delivery.settings import read_settings
from subscriptions.model import Endpoint

from .conftest import Cli, Receiver, eventually, lines

URL = "https://example.com/hook"


# Event types ---------------------------------------------------------------------------------------------------------


def test_a_type_is_declared_and_changed_on_purpose(cli: Cli):
    declared = {"type": "invoice.paid", "exposure": "webhook", "description": "Money came."}
    declared |= {"checks": "off", "schema": None}
    args = ("event-types", "declare", "invoice.paid", "--exposure", "webhook", "--description", "Money came.")
    assert cli.json(*args) == declared
    assert cli.json(*args) == declared
    [listed, *platforms] = cli.json("event-types", "list")
    assert listed == declared
    assert {each["type"].rpartition(".")[0] for each in platforms} == {"tidings.endpoint", "tidings.delivery"}
    assert cli.run("event-types", "declare", "invoice.paid").exit_code == 1
    assert cli.json("event-types", "declare", "invoice.paid", "--change")["exposure"] == "internal"
    assert cli("event-types", "list").splitlines()[1].split() == ["invoice.paid", "internal", "off"]


def test_what_the_platform_tells_of_itself_is_subscribed_to_by_name(cli: Cli):
    endpoint = cli.json("endpoints", "add", URL)["id"]
    cli("event-types", "declare", "invoice.paid", "--exposure", "webhook")
    for name, pattern in (("one", "tidings.endpoint.disabled"), ("all", "tidings.*")):
        added = cli.json("subscriptions", "add", name, "--endpoint", endpoint, pattern)
        assert added["patterns"] == [pattern]


def test_an_internal_type_says_how_its_events_may_leave(cli: Cli):
    told = cli("event-types", "declare", "staff.hired", "--description", "It's new.")
    (command,) = re.findall(r"`tidings (.*?)`", told)
    assert command.endswith("--exposure webhook --description 'It'\"'\"'s new.' --change")
    changed = cli.json(*shlex.split(command))
    assert (changed["exposure"], changed["description"]) == ("webhook", "It's new.")


def test_an_event_of_an_internal_type_says_why_it_went_nowhere(cli: Cli, connection):
    cli("event-types", "declare", "staff.hired")
    event = cli.json("events", "record", "staff.hired", "--data", "1")["id"]
    with cli.running("relay"):
        eventually(lambda: connection.execute("SELECT count(*) FROM tidings.outbox").fetchone() == (0,))
    told = lines(cli("events", "show", event))["state"]
    assert told.startswith(
        "relayed; its type is internal, so it never leaves: `tidings event-types declare staff.hired"
    )


# Subscriptions -------------------------------------------------------------------------------------------------------


def test_a_subscription_is_added_listed_and_removed(cli: Cli):
    cli("event-types", "declare", "invoice.paid", "--exposure", "webhook")
    endpoint = cli.json("endpoints", "add", URL)["id"]
    args = ("subscriptions", "add", "money", "invoice.*", "invoice.paid", "--endpoint", endpoint)
    added = cli.json(*args)
    assert (added["name"], added["patterns"]) == ("money", ["invoice.*", "invoice.paid"])
    assert (added["endpoint_id"], added["handler"]) == (endpoint, None)
    assert cli.json(*args)["id"] == added["id"]
    assert cli.json("subscriptions", "list") == [added]
    assert f"endpoint {endpoint}" in cli("subscriptions", "list")
    assert cli.json("subscriptions", "remove", "money", "--yes") == added
    assert cli("subscriptions", "list").startswith("no subscriptions yet: `tidings subscriptions add")


def test_what_a_handler_left_behind_is_listed_and_removed(cli: Cli, refused):
    async def leave_behind() -> None:
        async with open_app(read_settings(database_url=cli.environment["TIDINGS_DATABASE_URL"])) as app:
            for owner_id in (None, "default"):
                await app.subscriptions.keep_handler("mailer", ["a.*"], owner_id=owner_id, coalesce=False, by="code")

    asyncio.run(leave_behind())
    [left] = cli.json("subscriptions", "list", "--platform")
    assert (left["name"], left["owner_id"], left["handler"]) == ("mailer", None, "handler.mailer")
    assert cli.json("subscriptions", "remove", "mailer", "--platform", "--yes") == left
    assert cli.json("subscriptions", "list", "--platform") == []
    again = refused(cli, "subscriptions", "remove", "mailer", "--platform", "--yes", code=1)
    assert "the platform has no subscription 'mailer'" in again
    assert [each["name"] for each in cli.json("subscriptions", "list")] == ["mailer"]


def test_a_subscription_to_types_of_the_future_is_asked_for(cli: Cli):
    endpoint = cli.json("endpoints", "add", URL)["id"]
    args = ("subscriptions", "add", "later", "order.*", "--endpoint", endpoint)
    assert cli.run(*args).exit_code == 1
    assert cli.json(*args, "--future")["patterns"] == ["order.*"]


# Events --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["--data", "file", "stdin"])
def test_data_is_kept_byte_for_byte(declared: Cli, connection, tmp_path: Path, way: str):
    data = '{ "n": 1.10000000000000000001,\n "ü": "世界", "n": 2 }'
    file = tmp_path / "data.json"
    file.write_text(data, encoding="utf-8")
    options = {"--data": ["--data", data], "file": ["--data-file", file], "stdin": ["--data-file", "-"]}[way]
    declared("events", "record", "invoice.paid", *options, stdin=data.encode() if way == "stdin" else None)
    assert connection.execute("SELECT data::text FROM tidings.event").fetchone() == (data,)
    assert '"n": 1.10000000000000000001' in declared("events", "list", "--json")
    assert '"ü": "世界"' in declared("events", "list", "--jsonl")


def test_an_event_is_recorded_with_all_there_is_to_say(declared: Cli):
    args = ("--data", "[1]", "--subject", "inv-7", "--key", "k", "--occurred-at", "2026-01-31T13:00:00+01:00")
    first = declared.json("events", "record", "invoice.paid", *args)
    assert declared.json("events", "record", "invoice.paid", *args) == first
    shown = declared.json("events", "show", first["id"])
    assert UUID(first["id"]).version == 7
    assert shown == {
        "id": first["id"],
        "owner_id": "default",
        "type": "invoice.paid",
        "subject": "inv-7",
        "occurred_at": "2026-01-31T12:00:00Z",
        "data": [1],
        "traceparent": None,
        "state": "waiting",
        "relay": {"failures": 0, "next_at": None, "error": None, "poisoned": False},
        "deliveries": [],
    }


def test_events_are_listed_by_what_they_have_in_common(declared: Cli):
    declared("event-types", "declare", "staff.hired")
    first = declared.json("events", "record", "invoice.paid", "--data", "1", "--subject", "a")["id"]
    second = declared.json("events", "record", "staff.hired", "--data", "2", "--subject", "b")["id"]

    def listed(*args: str) -> list[str]:
        return [each["id"] for each in declared.json("events", "list", *args)]

    assert listed() == [second, first]
    assert listed("--limit", "1") == [second]
    assert listed("--before", second) == [first]
    assert listed("--type", "invoice.paid") == [first]
    assert listed("--subject", "b") == [second]
    assert listed("--since", "1h") == [second, first]
    assert listed("--until", "1h") == []
    assert listed("--poisoned") == []


def test_a_poisoned_event_is_told_and_requeued(declared: Cli, connection):
    event = declared.json("events", "record", "invoice.paid", "--data", "1")["id"]
    connection.execute("UPDATE tidings.outbox SET failures = 5, error = E'boom \\x1b[2J'")
    assert declared.json("status")["poisoned_events"] == 1
    assert [each["id"] for each in declared.json("events", "list", "--poisoned")] == [event]
    told = lines(declared("events", "show", event))["state"]
    assert told.startswith("given up by the relay after 5 failures (boom \\x1b[2J): `tidings events requeue")
    assert declared.json("events", "requeue", event)["state"] == "waiting"
    assert declared.json("status")["poisoned_events"] == 0


def test_data_on_the_command_line_is_bytes_as_the_shell_gave_them(declared: Cli):
    process = declared.start("events", "record", "invoice.paid", "--data", b'"\xff"'.decode("utf-8", "surrogateescape"))
    _, stderr = process.communicate()
    assert process.returncode == 1
    assert stderr.startswith("tidings: the data is not UTF-8 (byte 1)")


# Jobs and periodics --------------------------------------------------------------------------------------------------


def test_periodics_are_listed_and_run_by_hand(cli: Cli):
    listed = cli.json("periodic", "list")
    assert isinstance(listed, list)
    cli("periodic", "list")
    for each in listed:
        assert {"name", "kind", "every_s", "last_tick", "next_tick", "last_job"} == set(each)
    if listed:
        started = cli.json("periodic", "run", listed[0]["name"])
        assert cli.json("jobs", "show", started["job_id"], "--any-owner")["kind"] == listed[0]["kind"]
        assert f"`tidings jobs show {started['job_id']} --any-owner`" in cli("periodic", "list")


@pytest.fixture
def waiting(declared: Cli, receiver: Receiver) -> tuple[Cli, dict[str, Any]]:
    """A delivery that waits, because its endpoint is disabled."""
    endpoint = declared.json("endpoints", "add", receiver.url, "--policy", "demo")["id"]
    declared("subscriptions", "add", "all", "invoice.*", "--endpoint", endpoint)
    declared("endpoints", "disable", endpoint, "--reason", "later", "--by", "ann")
    declared("events", "record", "invoice.paid", "--data", "1")
    with declared.running("relay"):
        (delivery,) = eventually(lambda: declared.json("deliveries", "list"))
    return declared, delivery


def test_a_job_is_listed_shown_cancelled_and_retried(waiting: tuple[Cli, dict[str, Any]]):
    cli, delivery = waiting
    (listed,) = cli.json("jobs", "list", "--kind", "webhook.deliver", "--state", "pending", "--since", "1h")
    assert listed["id"] == delivery["id"]
    assert listed["args"]["endpoint_id"] == delivery["endpoint_id"]
    assert cli.json("jobs", "show", listed["id"]) == listed | {"attempts": []}
    assert lines(cli("jobs", "show", listed["id"]))["state"] == "pending, parked"
    overview = {each["kind"]: each["counts"] for each in cli.json("jobs", "overview")}
    assert overview["webhook.deliver"] == {"pending": 1}
    cancelled = cli.json("jobs", "cancel", listed["id"], "--by", "ann")
    assert (cancelled["state"], cancelled["reason"]) == ("cancelled", "ann")
    assert cli.json("jobs", "list", "--error", "ann")[0]["id"] == listed["id"]
    assert cli.json("jobs", "retry", listed["id"])["state"] == "pending"


def test_a_parked_delivery_tells_what_it_waits_for(waiting: tuple[Cli, dict[str, Any]], refused):
    cli, delivery = waiting
    assert (delivery["state"], delivery["parked"]) == ("pending", True)
    assert cli("deliveries", "list").splitlines()[1].split()[1] == "parked"
    told = cli("deliveries", "show", delivery["id"])
    assert "parked: its endpoint is disabled (later, by ann)" in told
    assert cli.json("endpoints", "show", delivery["endpoint_id"])["deliveries"]["pending"] == 1
    for asked in (["retry", delivery["id"]], ["replay", "--endpoint", delivery["endpoint_id"], "--dry-run"]):
        line = refused(cli, "deliveries", *asked, code=1)
        assert f"is disabled (later): `tidings endpoints enable {delivery['endpoint_id']}` first" in line


def test_switching_an_endpoint_says_how_many_deliveries_it_moves(waiting: tuple[Cli, dict[str, Any]]):
    cli, delivery = waiting
    endpoint = delivery["endpoint_id"]
    told = lines(cli("endpoints", "enable", endpoint))
    assert told["deliveries"] == "1 that waited go out now, few at a time at first"
    assert lines(cli("endpoints", "disable", endpoint))["deliveries"].startswith("1 parked, and all that come")
    told = lines(cli("endpoints", "remove", endpoint, "--yes"))
    assert (told["subscriptions"], told["deliveries"]) == ("all removed with it", "1 cancelled")


def test_what_waited_is_counted_before_it_goes(waiting: tuple[Cli, dict[str, Any]], monkeypatch: pytest.MonkeyPatch):
    cli, delivery = waiting
    enable = Endpoints.enable

    async def enable_and_be_slow(self: Endpoints, *args: Any, **options: Any) -> Endpoint:
        endpoint = await enable(self, *args, **options)
        with cli.running("worker"), psycopg.connect(cli.environment["TIDINGS_DATABASE_URL"], autocommit=True) as sql:
            waits = "SELECT count(*) FROM tidings.job WHERE kind = 'webhook.deliver'"
            await asyncio.to_thread(eventually, lambda: sql.execute(waits).fetchone() == (0,))
        return endpoint

    monkeypatch.setattr(Endpoints, "enable", enable_and_be_slow)
    told = lines(cli("endpoints", "enable", delivery["endpoint_id"]))["deliveries"]
    assert told == "1 that waited go out now, few at a time at first"


def test_a_delivery_is_cancelled_for_the_record(waiting: tuple[Cli, dict[str, Any]]):
    cli, delivery = waiting
    cancelled = cli.json("deliveries", "cancel", delivery["id"], "--by", "ann")
    assert (cancelled["state"], cancelled["reason"]) == ("cancelled", "ann")
    assert lines(cli("deliveries", "cancel", delivery["id"]))["by"] == "ann"
    assert "cancelled at" in cli("deliveries", "show", delivery["id"])
