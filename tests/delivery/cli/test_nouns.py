"""Each command once: what it does, and what it prints for programs and for people."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from delivery import open_app
from delivery.sealing import KeyEncryptionKey
from delivery.settings import read_settings
from signing import PublicKey, WebhookVerifier

from .conftest import Cli, Receiver, eventually, lines, the_line

URL = "https://example.com/hook"


# Event types ---------------------------------------------------------------------------------------------------------


def test_a_type_is_declared_and_changed_on_purpose(cli: Cli):
    declared = {"type": "invoice.paid", "exposure": "webhook", "description": "Money came."}
    args = ("event-types", "declare", "invoice.paid", "--exposure", "webhook", "--description", "Money came.")
    assert cli.json(*args) == declared
    assert cli.json(*args) == declared
    assert cli.json("event-types", "list") == [declared]
    assert cli.run("event-types", "declare", "invoice.paid").exit_code == 1
    assert cli.json("event-types", "declare", "invoice.paid", "--change")["exposure"] == "internal"
    assert cli("event-types", "list").splitlines()[1].split() == ["invoice.paid", "internal"]


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


# Endpoints -----------------------------------------------------------------------------------------------------------


def test_an_endpoint_is_added_with_all_there_is_to_say(cli: Cli):
    added = cli.json(
        *("endpoints", "add", URL, "--policy", "quick", "--description", "Ann's", "--limit", "3", "--timeout", "2s"),
        *("--header", "Authorization: Bearer sesame", "--header", "X-Team: a: b"),
        *("--override", "http_409=delivered", "--override", "timeout=permanent"),
    )
    assert (added.pop("scheme"), added.pop("secret")[:6]) == ("v1", "whsec_")
    shown = cli.json("endpoints", "show", added["id"])
    assert {name: shown[name] for name in added} == added
    assert added["headers"] == ["Authorization", "X-Team"]
    assert added["overrides"] == {"http_409": "delivered", "timeout": "permanent"}
    assert (added["policy"], added["limit"], added["timeout_s"], added["state"]) == ("quick", 3, 2.0, "enabled")
    assert shown["deliveries"] == {"pending": 0, "running": 0, "retryable": 0, "discarded": 0}
    assert shown["policy_steps"]["max_attempts"] == 8


def test_the_secret_is_printed_once_with_what_to_do_next(cli: Cli):
    printed = cli("endpoints", "add", URL)
    told = lines(printed)
    secret = told["secret"]
    assert secret.startswith("whsec_")
    assert f"tidings subscriptions add NAME --endpoint {told['endpoint']} PATTERN" in printed
    for command in (["show", told["endpoint"]], ["list"], ["show", told["endpoint"], "--json"], ["list", "--json"]):
        assert secret not in cli("endpoints", *command)


def test_who_did_it_is_kept(cli: Cli, connection):
    endpoint = cli.json("endpoints", "add", URL, "--by", "ann")["id"]
    cli("endpoints", "disable", endpoint)
    kept = connection.execute("SELECT made_by FROM tidings.change ORDER BY made_at").fetchall()
    assert kept[0] == ("ann",)
    assert kept[1][0] not in ("", "ann")


def test_an_endpoint_is_changed_field_by_field(cli: Cli):
    args = ("--header", "A: 1", "--override", "http_409=delivered", "--description", "old")
    endpoint = cli.json("endpoints", "add", URL, *args)["id"]
    changed = cli.json("endpoints", "update", endpoint, "--url", "https://example.com/other", "--limit", "2")
    assert (changed["url"], changed["limit"]) == ("https://example.com/other", 2)
    assert (changed["headers"], changed["description"]) == (["A"], "old")
    assert cli.json("endpoints", "update", endpoint, "--header", "B: 2", "--header", "C: 3")["headers"] == ["B", "C"]
    cleared = cli.json("endpoints", "update", endpoint, "--no-headers", "--no-overrides", "--description", "")
    assert (cleared["headers"], cleared["overrides"], cleared["description"]) == ([], {}, "")


def test_an_endpoint_is_disabled_with_a_reason_and_enabled_again(cli: Cli):
    endpoint = cli.json("endpoints", "add", URL)["id"]
    disabled = cli.json("endpoints", "disable", endpoint, "--reason", "too loud", "--by", "ann")
    assert (disabled["state"], disabled["state_reason"], disabled["state_by"]) == ("disabled", "too loud", "ann")
    assert lines(cli("endpoints", "show", endpoint))["state"] == "disabled (too loud, by ann)"
    assert cli.json("endpoints", "enable", endpoint)["state"] == "enabled"
    assert lines(cli("endpoints", "show", endpoint))["state"] == "enabled"


def test_a_removed_endpoint_is_off_the_list_and_for_good(cli: Cli, refused):
    endpoint = cli.json("endpoints", "add", URL)["id"]
    assert cli.json("endpoints", "remove", endpoint)["state"] == "removed"
    assert cli.json("endpoints", "list") == []
    assert cli.json("endpoints", "show", endpoint)["state"] == "removed"
    for command in ("enable", "test", "rotate-secret"):
        assert "was removed" in refused(cli, "endpoints", command, endpoint, code=1)


def test_endpoints_are_listed_page_by_page(cli: Cli):
    ids = [cli.json("endpoints", "add", f"{URL}/{n}")["id"] for n in range(3)]
    assert [each["id"] for each in cli.json("endpoints", "list")] == ids
    assert [each["id"] for each in cli.json("endpoints", "list", "--limit", "2")] == ids[:2]
    assert [each["id"] for each in cli.json("endpoints", "list", "--after", ids[1])] == ids[2:]
    assert [json.loads(line)["id"] for line in cli("endpoints", "list", "--jsonl").splitlines()] == ids


def test_a_rotated_secret_signs_beside_the_old_one(cli: Cli, receiver: Receiver):
    added = cli.json("endpoints", "add", receiver.url)
    rotated = cli.json("endpoints", "rotate-secret", added["id"], "--overlap", "1h")
    assert (rotated["id"], rotated["overlap_s"]) == (added["id"], 3600.0)
    cli("endpoints", "test", added["id"])
    ((headers, body),) = receiver.received
    for secret in (added["secret"], rotated["secret"]):
        assert WebhookVerifier(secret).verify(body, headers)
    assert re.fullmatch(r"2 sign \(v1, v1\), one until \S+ \S+Z", lines(cli("endpoints", "show", added["id"]))["keys"])
    assert [each["expires_at"] is None for each in cli.json("endpoints", "show", added["id"])["keys"]] == [True, False]
    assert "sign no longer" in cli("endpoints", "rotate-secret", added["id"], "--overlap", "0")


def test_an_endpoint_may_be_signed_for_with_ed25519(cli: Cli, receiver: Receiver):
    added = cli.json("endpoints", "add", receiver.url, "--scheme", "v1a")
    assert (added["scheme"], "secret" in added) == ("v1a", False)
    cli("endpoints", "test", added["id"])
    ((headers, body),) = receiver.received
    assert WebhookVerifier(added["public_key"]).verify(body, headers).scheme == "v1a"
    assert re.search(r"^public key +whpk_", cli("endpoints", "add", receiver.url, "--scheme", "v1a"), re.MULTILINE)


def test_a_secret_gives_way_to_a_public_key_and_both_sign_meanwhile(cli: Cli, receiver: Receiver):
    added = cli.json("endpoints", "add", receiver.url)
    rotated = cli.json("endpoints", "rotate-secret", added["id"], "--scheme", "v1a")
    assert (rotated["scheme"], rotated["overlap_s"]) == ("v1a", 86_400.0)
    cli("endpoints", "test", added["id"])
    ((headers, body),) = receiver.received
    for key in (added["secret"], rotated["public_key"]):
        assert WebhookVerifier(key).verify(body, headers)
    assert "2 sign (v1a, v1), one until" in lines(cli("endpoints", "show", added["id"]))["keys"]
    told = cli("endpoints", "rotate-secret", added["id"], "--revoke-now")
    assert "The public key is no secret. The old keys sign no longer." in told


def test_keys_are_listed_without_a_secret(cli: Cli):
    added = cli.json("endpoints", "add", URL)
    rotated = cli.json("endpoints", "rotate-secret", added["id"], "--scheme", "v1a")
    new, old = cli.json("endpoints", "keys", added["id"])
    assert (new["scheme"], new["public_key"], new["expires_at"]) == ("v1a", rotated["public_key"], None)
    assert (old["scheme"], old["public_key"]) == ("v1", None)
    table = cli("endpoints", "keys", added["id"])
    assert rotated["public_key"] in table
    assert added["secret"].removeprefix("whsec_") not in table
    cli("endpoints", "remove", added["id"])
    assert "no key signs" in cli("endpoints", "keys", added["id"])


def test_the_jwks_document_of_an_endpoint_holds_its_live_public_keys(cli: Cli):
    added = cli.json("endpoints", "add", URL, "--scheme", "v1a")
    rotated = cli.json("endpoints", "rotate-secret", added["id"])
    document = json.loads(cli("endpoints", "jwks", added["id"]))
    assert document == cli.json("endpoints", "jwks", added["id"])
    found = [PublicKey.from_jwk(jwk).reveal() for jwk in document["keys"]]
    assert found == [rotated["public_key"], added["public_key"]]
    assert cli.json("endpoints", "jwks", cli.json("endpoints", "add", URL)["id"]) == {"keys": []}


def test_an_endpoint_is_tested(cli: Cli, receiver: Receiver):
    added = cli.json("endpoints", "add", receiver.url)
    tested = cli.json("endpoints", "test", added["id"])
    assert (tested["outcome"], tested["code"], tested["status"]) == ("delivered", "http_200", 200)
    ((headers, body),) = receiver.received
    assert headers["webhook-id"] == tested["event_id"]
    assert json.loads(body)["type"] == "tidings.endpoint.test"
    assert cli.json("events", "list") == []


def test_a_test_that_fails_shows_the_answer_and_ends_in_1(cli: Cli, receiver: Receiver):
    receiver.status, receiver.body = 500, b"\x1b[2Joops\nsecond line \xff"
    endpoint = cli.json("endpoints", "add", receiver.url)["id"]
    result = cli.run("endpoints", "test", endpoint)
    assert result.exit_code == 1
    assert result.stderr.startswith("tidings: the test event was not delivered (http_500)")
    assert "    \\x1b[2Joops\n    second line \\xff\n" in result.stdout
    assert "\x1b" not in result.stdout
    document = json.loads(cli.run("endpoints", "test", endpoint, "--json").stdout)
    assert (document["outcome"], document["status"]) == ("retryable", 500)
    assert result.stderr.rstrip().endswith("see what the receiver says of it")


def test_a_test_that_reaches_nobody_says_where_to_look(cli: Cli):
    endpoint = cli.json("endpoints", "add", "http://127.0.0.1:1/")["id"]
    result = cli.run("endpoints", "test", endpoint)
    assert "(connection_refused): see that a receiver answers at http://127.0.0.1:1/" in the_line(result)
    other = cli.having(TIDINGS_KEYS=KeyEncryptionKey.generate("other").reveal())
    assert "(unreadable_key): put the key" in other.run("endpoints", "test", endpoint).stderr


def test_a_test_of_a_disabled_endpoint_says_that_it_is(cli: Cli, receiver: Receiver):
    endpoint = cli.json("endpoints", "add", receiver.url)["id"]
    cli("endpoints", "disable", endpoint, "--reason", "too loud")
    tested = cli.run("endpoints", "test", endpoint)
    assert tested.exit_code == 0
    assert tested.stderr.startswith("the endpoint is disabled (too loud): only this test was sent")


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
    assert cli.json("subscriptions", "remove", "money") == added
    assert cli("subscriptions", "list").startswith("no subscriptions yet: `tidings subscriptions add")


def test_what_a_handler_left_behind_is_listed_and_removed(cli: Cli, refused):
    async def leave_behind() -> None:
        async with open_app(read_settings(database_url=cli.environment["TIDINGS_DATABASE_URL"])) as app:
            for owner_id in (None, "default"):
                await app.subscriptions.keep_handler("mailer", ["a.*"], owner_id=owner_id, coalesce=False, by="code")

    asyncio.run(leave_behind())
    [left] = cli.json("subscriptions", "list", "--platform")
    assert (left["name"], left["owner_id"], left["handler"]) == ("mailer", None, "handler.mailer")
    assert cli.json("subscriptions", "remove", "mailer", "--platform") == left
    assert cli.json("subscriptions", "list", "--platform") == []
    again = refused(cli, "subscriptions", "remove", "mailer", "--platform", code=1)
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
    line = refused(cli, "deliveries", "retry", delivery["id"], code=1)
    assert f"is disabled (later): `tidings endpoints enable {delivery['endpoint_id']}` first" in line


def test_switching_an_endpoint_says_how_many_deliveries_it_moves(waiting: tuple[Cli, dict[str, Any]]):
    cli, delivery = waiting
    endpoint = delivery["endpoint_id"]
    assert lines(cli("endpoints", "enable", endpoint))["deliveries"] == "1 that waited may go out now"
    assert lines(cli("endpoints", "disable", endpoint))["deliveries"].startswith("1 parked, and all that come")
    told = lines(cli("endpoints", "remove", endpoint))
    assert (told["subscriptions"], told["deliveries"]) == ("all removed with it", "1 cancelled")


def test_a_delivery_is_cancelled_for_the_record(waiting: tuple[Cli, dict[str, Any]]):
    cli, delivery = waiting
    cancelled = cli.json("deliveries", "cancel", delivery["id"], "--by", "ann")
    assert (cancelled["state"], cancelled["reason"]) == ("cancelled", "ann")
    assert lines(cli("deliveries", "cancel", delivery["id"]))["by"] == "ann"
    assert "cancelled at" in cli("deliveries", "show", delivery["id"])
