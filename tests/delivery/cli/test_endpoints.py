"""Endpoints on the command line: what each command does, and what it prints for programs and for people."""

from __future__ import annotations

import json
import re

from delivery.sealing import KeyEncryptionKey
from signing import PublicKey, WebhookVerifier

from .conftest import Cli, Receiver, lines, the_line

URL = "https://example.com/hook"


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


def test_a_rate_is_given_shown_changed_and_taken_off(cli: Cli):
    added = cli.json("endpoints", "add", URL, "--rate", "10/s", "--burst", "20")
    assert (added["rate"], added["burst"]) == ("10/s", 20)
    assert lines(cli("endpoints", "show", added["id"]))["rate"] == "10/s, 20 at once after a rest"
    [listed] = cli.json("endpoints", "list")
    assert (listed["rate"], listed["burst"]) == ("10/s", 20)
    changed = cli.json("endpoints", "update", added["id"], "--rate", "100/m")
    assert (changed["rate"], changed["burst"]) == ("100/m", 2)  # a second's worth
    assert cli.json("endpoints", "update", added["id"], "--limit", "3")["rate"] == "100/m"
    off = cli.json("endpoints", "update", added["id"], "--no-rate")
    assert (off["rate"], off["burst"]) == (None, None)
    assert "rate" not in lines(cli("endpoints", "show", added["id"]))


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
    assert cli.json("endpoints", "remove", endpoint, "--yes")["state"] == "removed"
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
    assert "sign no longer" in cli("endpoints", "rotate-secret", added["id"], "--overlap", "0", "--yes")


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
    told = cli("endpoints", "rotate-secret", added["id"], "--revoke-now", "--yes")
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
    cli("endpoints", "remove", added["id"], "--yes")
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
    narrow = cli.having(TIDINGS_DENY="127.0.0.1")
    assert "(blocked_address): it is never sent there" in narrow.run("endpoints", "test", endpoint).stderr
    away = cli.having(TIDINGS_EGRESS_PROXY="http://127.0.0.1:1")
    assert "(proxy_failed): see that the proxy" in away.run("endpoints", "test", endpoint).stderr


def test_a_test_of_a_disabled_endpoint_says_that_it_is(cli: Cli, receiver: Receiver):
    endpoint = cli.json("endpoints", "add", receiver.url)["id"]
    cli("endpoints", "disable", endpoint, "--reason", "too loud")
    tested = cli.run("endpoints", "test", endpoint)
    assert tested.exit_code == 0
    assert tested.stderr.startswith("the endpoint is disabled (too loud): only this test was sent")
