"""`endpoints export` and `import`: what stands is brought to what a file says, all of it or nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml

from delivery.sealing import KeyEncryptionKey
from signing import WebhookVerifier
from tests.gates.pages import blocks

from .conftest import PATIENCE_S, Cli, Receiver, cli_on, eventually, fingerprint, the_line
from .test_consent import on_a_terminal

URL = "https://example.com/hook"
SECRET = {"secret": True}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "setup.yaml"


@pytest.fixture
def filled(declared: Cli) -> Cli:
    """A platform with two endpoints, one of them with all there is to say."""
    declared("event-types", "declare", "invoice.seen", "--description", "Somebody opened it")
    full = declared.json(
        *("endpoints", "add", URL, "--description", "Ann's", "--limit", "3", "--timeout", "1500ms", "--scheme", "v1a"),
        *("--policy", "quick", "--format", "raw", "--override", "http_409=delivered", "--rate", "90/m", "--burst", "5"),
        *("--header", "Authorization: Bearer sesame", "--header", "X-Team: a"),
    )["id"]
    bare = declared.json("endpoints", "add", f"{URL}/2")["id"]
    declared("subscriptions", "add", "all", "*", "--endpoint", full)
    declared("subscriptions", "add", "later", "refund.paid", "--endpoint", bare, "--future")
    return declared


def write(file: Path, *endpoints: dict[str, Any], owner: str = "default", **more: Any) -> Path:
    file.write_text(yaml.safe_dump({"tidings": 1, "owners": {owner: {"endpoints": list(endpoints)}}} | more))
    return file


def exported(cli: Cli, *args: object) -> dict[str, Any]:
    return dict(yaml.safe_load(cli("endpoints", "export", *args)))


def endpoints(cli: Cli) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = exported(cli)["owners"]["default"]["endpoints"]
    return found


def changed(cli: Cli, file: Path, *args: object) -> list[tuple[str, str]]:
    """Import a file, and list what was done to what."""
    found = cli.json("endpoints", "import", file, *args)["changes"]
    return [(each["action"], each["what"]) for each in found]


# Export ------------------------------------------------------------------------------------------------------------


def test_all_but_secrets_is_written_down(filled: Cli):
    text = filled("endpoints", "export")
    document = yaml.safe_load(text)
    assert document["event_types"] == [
        {"type": "invoice.paid", "exposure": "webhook", "description": ""},
        {"type": "invoice.seen", "exposure": "internal", "description": "Somebody opened it"},
    ]
    full, bare = document["owners"]["default"]["endpoints"]
    assert full | {"id": None} == {
        "id": None,
        "url": URL,
        "description": "Ann's",
        "policy": "quick",
        "format": "raw",
        "limit": 3,
        "rate": "90/m",
        "burst": 5,
        "timeout": "1500ms",
        "overrides": {"http_409": "delivered"},
        "headers": {"Authorization": SECRET, "X-Team": SECRET},
        "scheme": "v1a",
        "subscriptions": [{"name": "all", "patterns": ["*"]}],
    }
    assert bare["subscriptions"] == [{"name": "later", "patterns": ["refund.paid"], "future": True}]
    assert "headers" not in bare
    assert "sesame" not in text


def test_it_is_written_as_the_file_is_called(filled: Cli, tmp_path: Path):
    said = filled("endpoints", "export", tmp_path / "a.json")
    assert said.startswith(f"written to {tmp_path}/a.json: `tidings endpoints import ")
    filled("endpoints", "export", tmp_path / "a.yml")
    filled("endpoints", "export", tmp_path / "a.txt", "--format", "json")
    in_json = (tmp_path / "a.json").read_text()
    assert json.loads(in_json) == yaml.safe_load((tmp_path / "a.yml").read_text())
    assert in_json == (tmp_path / "a.txt").read_text() == filled("endpoints", "export", "--json")
    assert sorted(each.name for each in tmp_path.iterdir() if each.name[0] in ".a") == ["a.json", "a.txt", "a.yml"]


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["setup.txt"], "setup.txt does not say whether it is YAML or JSON: give --format"),
        (["--json", "--format", "yaml"], "contradict each other"),
        (["gone/setup.yaml"], "gone/setup.yaml cannot be written: No such file or directory"),
    ],
)
def test_what_cannot_be_written_is_said(standing: Cli, refused, args: list[str], says: str):
    assert says in refused(standing, "endpoints", "export", *args, code=2)


def test_only_an_operator_exports_those_of_all_owners(filled: Cli):
    filled("endpoints", "add", URL, "--owner", "acme")
    assert list(exported(filled)["owners"]) == ["default"]
    assert exported(filled, "--owner", "globex")["owners"] == {"globex": {"endpoints": []}}
    assert {name: len(each["endpoints"]) for name, each in exported(filled, "--any-owner")["owners"].items()} == {
        "acme": 1,
        "default": 2,
    }


def test_headers_that_cannot_be_opened_are_not_left_out(filled: Cli, file: Path):
    write(file, *endpoints(filled))
    other = filled.having(TIDINGS_KEYS=KeyEncryptionKey.generate("other").reveal())
    result = other.run("endpoints", "export")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "cannot be opened: put their key back in TIDINGS_KEYS" in result.stderr
    assert "which is missing: add it to TIDINGS_KEYS" in other.run("endpoints", "import", file).stderr


# Import ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a.yaml", "a.json"])
def test_what_was_exported_changes_nothing(filled: Cli, dsn: str, tmp_path: Path, name: str):
    filled("endpoints", "export", tmp_path / name)
    before = fingerprint(dsn)
    assert filled("endpoints", "import", tmp_path / name) == "nothing to change: it stands like this\n"
    assert filled.json("endpoints", "import", tmp_path / name) == {
        "dry_run": False,
        "changes": [],
        "unnamed": 0,
        "keys": [],
    }
    assert fingerprint(dsn) == before


def test_another_database_gets_the_same_with_the_same_ids(
    filled: Cli, server: str, template: str, file: Path, tmp_path: Path
):
    full, bare = endpoints(filled)
    full["headers"] = {"Authorization": "Bearer sesame", "X-Team": "a"}
    write(file, full, bare, event_types=exported(filled)["event_types"])
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {tmp_path.name.replace('-', '_')} TEMPLATE {template}")
        try:
            dsn = psycopg.conninfo.make_conninfo(server, dbname=tmp_path.name.replace("-", "_"))
            other = cli_on(dsn, tmp_path)
            assert len(changed(other, file)) == 6
            assert exported(other) == exported(filled)
            assert changed(other, file) == []
        finally:
            connection.execute(f"DROP DATABASE {tmp_path.name.replace('-', '_')} WITH (FORCE)")


def test_a_file_that_was_written_by_hand_is_imported_once(declared: Cli, receiver: Receiver, file: Path):
    write(file, {"url": receiver.url, "subscriptions": [{"name": "all", "patterns": ["invoice.*"]}]})
    done = declared.json("endpoints", "import", file, "--by", "ann")
    assert [(each["action"], each["what"]) for each in done["changes"]] == [
        ("add", "endpoint"),
        ("add", "subscription"),
    ]
    (key,) = done["keys"]
    assert declared.json("endpoints", "list")[0]["id"] == key["endpoint_id"]
    declared("endpoints", "test", key["endpoint_id"])
    ((headers, body),) = receiver.received
    assert WebhookVerifier(key["secret"]).verify(body, headers)
    assert changed(declared, file) == []


def test_people_see_what_is_done_and_the_secret_once(declared: Cli, file: Path):
    write(file, {"url": URL, "subscriptions": [{"name": "all", "patterns": ["invoice.*"]}]})
    trial = declared("endpoints", "import", file, "--dry-run")
    assert trial == (
        f"+ endpoint {URL}\n+ subscription all: invoice.* to endpoint {URL}\n\nnothing was changed: it was a trial\n"
    )
    said = declared("endpoints", "import", file)
    endpoint = declared.json("endpoints", "list")[0]["id"]
    assert f"+ endpoint {endpoint} ({URL})\n+ subscription all: invoice.* to endpoint {endpoint}\n" in said
    assert "\nsecret    whsec_" in said
    write(file, {"url": URL, "limit": 3, "headers": {"A": "1"}, "subscriptions": [{"name": "all", "patterns": ["*"]}]})
    assert declared("endpoints", "import", file) == (
        f"~ endpoint {endpoint} ({URL}): limit 10 -> 3, header A\n~ subscription all: patterns invoice.* -> *\n"
    )


def test_the_file_in_the_docs_is_imported(cli: Cli, file: Path):
    [text] = blocks("docs/operating.md", "The set-up", "yaml")
    file.write_text(text)
    whole = ("event_type", "policy", "endpoint", "subscription")
    assert changed(cli, file) == [("add", what) for what in whole]
    assert changed(cli, file) == []


def test_fields_that_are_there_are_changed_and_others_stay(filled: Cli, file: Path):
    full, bare = endpoints(filled)
    write(file, {"id": full["id"], "url": f"{URL}/moved", "limit": 5}, {"id": bare["id"], "url": bare["url"]})
    (change,) = filled.json("endpoints", "import", file)["changes"]
    assert (change["id"], change["owner_id"]) == (full["id"], "default")
    assert change["before"] == {"url": URL, "limit": 3}
    assert change["after"] == {"url": f"{URL}/moved", "limit": 5}
    assert endpoints(filled) == [full | {"url": f"{URL}/moved", "limit": 5}, bare]


def test_headers_that_are_secret_stay_and_others_are_set(filled: Cli, file: Path, receiver: Receiver):
    full, bare = endpoints(filled)
    mine = {"id": full["id"], "url": receiver.url}
    write(file, mine | {"headers": {"authorization": SECRET, "X-Team": "b", "X-New": "c"}}, bare)
    (change,) = filled.json("endpoints", "import", file)["changes"]
    assert change["headers"] == ["X-Team", "X-New"]
    filled("endpoints", "test", full["id"])
    headers, _ = receiver.received[-1]
    assert (headers["authorization"], headers["x-team"], headers["x-new"]) == ("Bearer sesame", "b", "c")
    assert changed(filled, file) == []


def test_a_header_that_is_not_named_stays_unless_it_is_pruned(filled: Cli, file: Path):
    full, bare = endpoints(filled)
    write(file, full | {"headers": {"X-Team": SECRET}}, bare)
    assert changed(filled, file) == []
    code, _, seen = on_a_terminal(filled, f"endpoints import {file} --prune", "n")
    assert (code, f"does not name: header Authorization of endpoint {full['id']}?" in seen) == (1, True)
    assert changed(filled, file, "--prune", "--yes") == [("change", "endpoint")]
    assert endpoints(filled)[0]["headers"] == {"X-Team": SECRET}


def test_types_are_declared_and_changed(declared: Cli, file: Path):
    types = [{"type": "invoice.paid", "description": "Paid"}, {"type": "order.placed", "exposure": "webhook"}]
    write(file, event_types=types)
    assert declared("endpoints", "import", file) == (
        "~ event type invoice.paid: description '' -> Paid\n+ event type order.placed: webhook\n"
    )
    unchecked = {"exposure": "webhook", "checks": "off", "schema": None}
    assert declared.json("event-types", "list")[:2] == [
        {"type": "invoice.paid", "description": "Paid"} | unchecked,
        {"type": "order.placed", "description": ""} | unchecked,
    ]
    assert changed(declared, file) == []


def test_a_subscription_moves_to_where_it_stands_in_the_file(filled: Cli, file: Path):
    full, bare = endpoints(filled)
    bare["subscriptions"] += full.pop("subscriptions")
    write(file, full, bare)
    (change,) = filled.json("endpoints", "import", file)["changes"]
    assert (change["action"], change["after"]["endpoint_id"]) == ("change", bare["id"])
    assert filled.json("subscriptions", "list")[0]["endpoint_id"] == bare["id"]


def test_what_is_not_named_stays_and_is_told(filled: Cli, file: Path):
    write(file, endpoints(filled)[0] | {"subscriptions": []})
    assert filled("endpoints", "import", file) == (
        "nothing to change: it stands like this\n\n"
        "3 things (endpoints, subscriptions) the file does not name, and --prune would remove\n"
    )
    assert filled.json("endpoints", "import", file)["unnamed"] == 3


def test_one_that_was_removed_or_is_anothers_cannot_be_had_again(filled: Cli, dsn: str, file: Path):
    full, bare = endpoints(filled)
    filled("endpoints", "remove", bare["id"], "--yes")
    before = fingerprint(dsn)
    for entry, owner in ((bare, "default"), (full, "globex")):
        write(file, {"id": entry["id"], "url": URL}, owner=owner)
        line = the_line(filled.run("endpoints", "import", file, "--owner", owner))
        assert line.endswith(f"no endpoint can be added with the id {entry['id']}, which is used up: leave it out")
    assert fingerprint(dsn) == before


def test_all_of_it_is_imported_or_nothing(filled: Cli, dsn: str, file: Path):
    full, bare = endpoints(filled)
    write(file, full | {"limit": 7}, {"url": f"{URL}/3"}, bare | {"limit": 0}, event_types=[{"type": "order.placed"}])
    before = fingerprint(dsn)
    for args in ((), ("--dry-run",)):
        line = the_line(filled.run("endpoints", "import", file, *args))
        assert "owners.default.endpoints[2]: a limit of 0 is not allowed" in line
        assert fingerprint(dsn) == before


def test_a_trial_changes_nothing(filled: Cli, dsn: str, file: Path):
    write(
        file, {"url": f"{URL}/3", "subscriptions": [{"name": "new", "patterns": ["*"]}]}, event_types=[{"type": "a.b"}]
    )
    before = fingerprint(dsn)
    trial = filled.json("endpoints", "import", file, "--dry-run", "--prune")
    assert [(each["action"], each["what"]) for each in trial["changes"]] == [
        ("add", "event_type"),
        ("add", "endpoint"),
        ("add", "subscription"),
        *[("remove", "subscription")] * 2,
        *[("remove", "endpoint")] * 2,
    ]
    assert (trial["dry_run"], trial["keys"]) == (True, [])
    assert fingerprint(dsn) == before


def test_two_at_once_add_an_endpoint_once(declared: Cli, file: Path):
    write(file, {"url": URL})
    processes = [declared.start("endpoints", "import", file, "--json") for _ in range(3)]
    done = [json.loads(process.communicate(timeout=PATIENCE_S)[0]) for process in processes]
    assert sorted(len(each["changes"]) for each in done) == [0, 0, 1]
    assert len(declared.json("endpoints", "list")) == 1


def test_two_endpoints_of_one_url_need_an_id(declared: Cli, file: Path):
    ids = [declared.json("endpoints", "add", URL)["id"] for _ in range(2)]
    write(file, {"url": URL, "limit": 3})
    line = the_line(declared.run("endpoints", "import", file))
    assert line.endswith(f"there are several endpoints of this URL: give the id of one ({ids[0]}, {ids[1]})")
    write(file, {"url": URL, "limit": 3, "id": ids[1]}, {"url": URL, "limit": 4})
    assert changed(declared, file) == [("change", "endpoint")] * 2
    assert [each["limit"] for each in declared.json("endpoints", "list")] == [4, 3]


# What the file does not name ------------------------------------------------------------------------------------------


def test_pruning_needs_a_terminal_or_yes(filled: Cli, dsn: str, file: Path, refused):
    write(file)
    before = fingerprint(dsn)
    line = refused(filled, "endpoints", "import", file, "--prune", code=2)
    assert line.startswith("this cannot be undone, and there is no terminal to ask on: give --yes")
    code, _, seen = on_a_terminal(filled, f"endpoints import {file} --prune", "n")
    assert code == 1
    assert seen.startswith(
        "Remove for good what the file does not name: subscription all; subscription later; endpoint "
    )
    assert fingerprint(dsn) == before


def test_what_is_pruned_is_gone_with_its_deliveries(filled: Cli, file: Path, connection):
    filled("events", "record", "invoice.paid", "--data", "1")
    with filled.running("relay", "--quiet"):
        eventually(lambda: filled.json("deliveries", "list"))
    write(file)
    code, stdout, _ = on_a_terminal(filled, f"endpoints import {file} --prune", "y")
    assert code == 0
    assert [line.split()[:2] for line in stdout.splitlines()] == [["-", "subscription"]] * 2 + [["-", "endpoint"]] * 2
    assert filled.json("endpoints", "list") == filled.json("subscriptions", "list") == []
    assert [each["reason"] for each in filled.json("deliveries", "list")] == ["endpoint_removed"]
    made = connection.execute("SELECT what FROM tidings.change ORDER BY id DESC LIMIT 4").fetchall()
    assert sorted(what for (what,) in made) == ["endpoint.removed"] * 2 + ["subscription.removed"] * 2


def test_nothing_goes_that_was_not_asked_about(filled: Cli, file: Path):
    write(file)

    def meanwhile() -> None:
        filled("endpoints", "add", f"{URL}/new")

    code, _, seen = on_a_terminal(filled, f"endpoints import {file} --prune", "y", meanwhile)
    assert code == 1
    assert "others have come meanwhile that would be removed: run it again to see them" in seen
    assert len(filled.json("endpoints", "list")) == 3


def test_an_owner_that_is_not_named_loses_nothing(filled: Cli, file: Path):
    filled("endpoints", "add", URL, "--owner", "acme")
    write(file, owner="acme")
    assert changed(filled, file, "--any-owner", "--prune", "--yes") == [("remove", "endpoint")]
    assert len(filled.json("endpoints", "list")) == 2


def test_those_of_other_owners_take_any_owner(filled: Cli, dsn: str, file: Path, refused):
    write(file, {"url": URL}, owner="acme")
    before = fingerprint(dsn)
    assert refused(filled, "endpoints", "import", file, code=1) == (
        f"{file} speaks of owner 'acme', and this is for 'default' alone: give --owner, or --any-owner"
    )
    assert fingerprint(dsn) == before
    assert changed(filled, file, "--owner", "acme") == [("add", "endpoint")]
    assert changed(filled, file, "--any-owner") == []


def test_handlers_are_no_part_of_it(filled: Cli, file: Path, connection):
    connection.execute(
        "INSERT INTO tidings.subscription (id, owner_id, name, patterns, handler, created_at)"
        " VALUES (tidings.new_id(), 'default', 'mailer', '{*}', 'handler.mailer', now())"
    )
    full, bare = endpoints(filled)
    write(file, full, bare)
    assert changed(filled, file, "--prune", "--yes") == []
    write(file, full | {"subscriptions": [{"name": "mailer", "patterns": ["*"]}]}, bare)
    assert "the name 'mailer' is taken by that of a handler" in the_line(filled.run("endpoints", "import", file))
