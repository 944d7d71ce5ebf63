"""Another owner's things are "not found", on every command."""

from __future__ import annotations

from typing import Any

import pytest

from .conftest import Cli, Receiver, eventually, fingerprint, the_line
from .test_command_tree import TREE, options

#: Every command that takes an id or a name, with what it is given; `{}` is an id of another owner.
ASKING: dict[str, str] = {
    "endpoints show": "endpoints show {endpoint}",
    "endpoints update": "endpoints update {endpoint} --limit 3",
    "endpoints enable": "endpoints enable {endpoint}",
    "endpoints disable": "endpoints disable {endpoint}",
    "endpoints remove": "endpoints remove {endpoint} --yes",
    "endpoints test": "endpoints test {endpoint}",
    "endpoints rotate-secret": "endpoints rotate-secret {endpoint}",
    "endpoints keys": "endpoints keys {endpoint}",
    "endpoints jwks": "endpoints jwks {endpoint}",
    "subscriptions add": "subscriptions add mine invoice.* --endpoint {endpoint}",
    "subscriptions remove": "subscriptions remove all --yes",
    "events show": "events show {event}",
    "events requeue": "events requeue {event}",
    "events replay": "events replay --endpoint {endpoint} --type invoice.*",
    "deliveries show": "deliveries show {delivery}",
    "deliveries retry": "deliveries retry {delivery}",
    "deliveries cancel": "deliveries cancel {delivery}",
    "deliveries list": "deliveries list --endpoint {endpoint}",
    "deliveries replay": "deliveries replay --endpoint {endpoint}",
    "replays start": "replays start --endpoint {endpoint}",
    "replays show": "replays show {replay}",
    "replays pause": "replays pause {replay}",
    "replays resume": "replays resume {replay}",
    "replays cancel": "replays cancel {replay}",
    "deliveries watch": "deliveries watch --endpoint {endpoint}",
    "jobs show": "jobs show {delivery}",
    "jobs retry": "jobs retry {delivery}",
    "jobs cancel": "jobs cancel {delivery}",
}
#: They list what is the owner's, or make something new.
ASKING_NOTHING = {
    "pause",
    "resume",
    "endpoints export",
    "endpoints import",
    "endpoints add",
    "endpoints list",
    "subscriptions list",
    "events record",
    "events list",
    "replays list",
    "jobs list",
}


@pytest.fixture
def acme(cli: Cli, receiver: Receiver) -> dict[str, Any]:
    """An endpoint, a subscription, an event, a discarded delivery and a replay of the owner `acme`."""
    receiver.status = 400
    mine = cli.having(TIDINGS_OWNER="acme")
    mine("event-types", "declare", "invoice.paid", "--exposure", "webhook")
    endpoint = mine.json("endpoints", "add", receiver.url, "--policy", "demo")["id"]
    mine("subscriptions", "add", "all", "invoice.*", "--endpoint", endpoint)
    with mine.running():
        event = mine.json("events", "record", "invoice.paid", "--data", "1")["id"]
        (delivery,) = eventually(lambda: mine.json("deliveries", "list", "--state", "discarded"))
    replay = mine.json("replays", "start")["id"]  # nobody is there to run it
    return {"endpoint": endpoint, "event": event, "delivery": delivery["id"], "replay": replay}


def test_no_command_is_forgotten_here():
    asking = {name for name, command in TREE.items() if "--owner" in options(command)}
    assert asking == set(ASKING) | ASKING_NOTHING


def test_another_owners_id_is_not_found_on_every_command(cli: Cli, dsn: str, acme: dict[str, Any], receiver: Receiver):
    before, sent = fingerprint(dsn), len(receiver.received)
    for name, line in ASKING.items():
        result = cli.run(*line.format(**acme).split(), "--owner", "globex")
        assert (result.exit_code, result.stdout) == (1, ""), name
        assert the_line(result).startswith(("no ", "owner 'globex' has no ")), name
    assert fingerprint(dsn) == before
    assert len(receiver.received) == sent


def test_the_beginning_of_another_owners_id_is_not_found_either(cli: Cli, dsn: str, acme: dict[str, Any]):
    before = fingerprint(dsn)
    short = {name: acme[name][:12] for name in ("endpoint", "event")}
    for name, line in ASKING.items():
        if "{delivery}" not in line and "{replay}" not in line:
            sort = "event" if "{event}" in line else "endpoint"
            told = the_line(cli.run(*line.format(**short).split(), "--owner", "globex"))
            assert told.startswith((f"owner 'globex' has no {sort} whose id begins", "owner 'globex' has no sub")), name
    assert fingerprint(dsn) == before


def test_another_owners_things_are_on_no_list(cli: Cli, acme: dict[str, Any]):
    for noun in ("endpoints", "subscriptions", "events", "deliveries", "replays", "jobs"):
        assert cli.json(noun, "list", "--owner", "globex") == [], noun
        assert len(cli.json(noun, "list", "--owner", "acme")) == (2 if noun == "jobs" else 1), noun


def test_another_owners_deliveries_are_not_replayed(cli: Cli, dsn: str, acme: dict[str, Any]):
    before = fingerprint(dsn)
    assert cli.json("deliveries", "replay", "--owner", "globex") == {"matched": 0, "replayed": 0, "dry_run": False}
    assert cli.json("replays", "start", "--owner", "globex")["seen"] == 0
    assert fingerprint(dsn) == before


def test_the_owner_finds_its_own(cli: Cli, acme: dict[str, Any]):
    for name in ("endpoints show", "events show", "deliveries show", "replays show", "jobs show"):
        assert cli.run(*ASKING[name].format(**acme).split(), "--owner", "acme").exit_code == 0, name


def test_an_operator_sees_every_owner_when_asking_for_it(cli: Cli, acme: dict[str, Any]):
    assert cli.json("jobs", "show", acme["delivery"], "--any-owner")["owner_id"] == "acme"
    assert cli.json("replays", "pause", acme["replay"], "--any-owner")["state"] == "paused"
    for noun in ("endpoints", "events", "deliveries", "replays"):
        assert [each["owner_id"] for each in cli.json(noun, "list", "--any-owner")] == ["acme"], noun
        head, row = cli(noun, "list", "--any-owner").splitlines()
        assert (head.split()[0], row.split()[0]) == ("Owner", "acme"), noun
        assert "Owner" not in cli(noun, "list", "--owner", "acme")
    deliveries = cli.json("jobs", "list", "--any-owner", "--kind", "webhook.deliver")
    assert [each["owner_id"] for each in deliveries] == ["acme"]
    assert cli.json("deliveries", "replay", "--any-owner", "--dry-run")["matched"] == 1
