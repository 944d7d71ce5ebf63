"""`tidings policies`: what each command does, and what it prints for programs and for people."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

import pytest

from .conftest import Cli, Receiver, eventually, lines

URL = "https://example.com/hook"
STRICT = (
    *("--ladder", "5s,5m,1h", "--attempts", "20", "--timeout", "3s"),
    *("--max-age", "2d", "--client-errors", "discard"),
)


@pytest.fixture
def made(cli: Cli) -> Cli:
    """A platform with a policy of its own."""
    cli("policies", "add", "strict", *STRICT)
    return cli


def test_a_policy_is_added_with_all_there_is_to_say(cli: Cli):
    added = cli.json("policies", "add", "strict", *STRICT)
    assert added == {
        "name": "strict",
        "ladder_s": [5.0, 300.0, 3600.0],
        "max_attempts": 20,
        "short_ladder_s": [5.0, 60.0, 240.0, 600.0, 1200.0],
        "short_attempts": 6,
        "timeout_s": 3.0,
        "max_age_s": 172_800.0,
        "client_errors": "discard",
        "built_in": False,
        "endpoints": 0,
    }
    assert cli.json("policies", "show", "strict") == added
    assert cli.json("policies", "add", "strict", *STRICT) == added


def test_what_is_added_is_told_in_words_with_what_to_do_next(cli: Cli):
    printed = cli("policies", "add", "strict", *STRICT)
    assert told(printed) == {
        "policy": "strict",
        "retries": "after 5 s, 5 min, 1 h (the last repeats), 20 attempts",
        "timeout": "3 s, where an endpoint has none of its own",
        "max age": "2 d",
        "client errors": "discard: discarded at once",
        "short ladder": "5 s, 1 min, 4 min, 10 min, 20 min; 6 such answers in a row end it",
        "used by": "0 endpoints",
    }
    assert "`tidings endpoints update ID --policy strict`" in printed
    assert lines(cli("policies", "add", "once", "--attempts", "1"))["retries"] == "1 attempt"
    climbed = told(cli("policies", "add", "climbed", "--ladder", "1s, 2s"))
    assert climbed["retries"] == "after 1 s, 2 s, 3 attempts"
    assert climbed["max age"] == "that of the platform"


def test_those_that_are_built_in_are_listed_first_and_all_with_their_endpoints(made: Cli):
    made("policies", "add", "another")
    made("endpoints", "add", URL, "--policy", "strict")
    made("endpoints", "add", URL, "--policy", "strict", "--owner", "acme")
    made("endpoints", "add", URL)
    listed = made.json("policies", "list")
    assert [(each["name"], each["built_in"], each["endpoints"]) for each in listed] == [
        ("standard", True, 1),
        ("patient", True, 0),
        ("quick", True, 0),
        ("demo", True, 0),
        ("another", False, 0),
        ("strict", False, 2),
    ]
    row = made("policies", "list").splitlines()[-1]
    assert re.split("  +", row) == ["strict", "2", "20", "3 s", "2 d", "discard", "5 s, 5 min, 1 h"]
    assert lines(made("policies", "show", "standard"))["policy"] == "standard (built in)"


def test_a_policy_is_changed_field_by_field_and_every_change_is_kept(made: Cli, connection):
    before = made.json("policies", "show", "strict")
    made("endpoints", "add", URL, "--policy", "strict")
    changed = made.json("policies", "update", "strict", "--timeout", "4s", "--client-errors", "full", "--by", "ann")
    assert changed == before | {"timeout_s": 4.0, "client_errors": "full", "endpoints": 1}
    assert made.json("policies", "update", "strict", "--no-max-age")["max_age_s"] is None
    assert "1 endpoint" in made("policies", "update", "strict", "--attempts", "10")
    kept = connection.execute(
        "SELECT what, owner_id, made_by, before, after FROM tidings.change WHERE subject = 'strict' ORDER BY id"
    ).fetchall()
    assert [each[0] for each in kept] == ["policy.added", *["policy.updated"] * 3]
    assert kept[1][1:] == (
        *(None, "ann"),
        {"timeout": "0:00:03", "client_errors": "discard"},
        {"timeout": "0:00:04", "client_errors": "full"},
    )


def test_a_policy_in_use_is_not_removed(made: Cli, refused):
    endpoint = made.json("endpoints", "add", URL, "--policy", "strict")["id"]
    line = refused(made, "policies", "remove", "strict", code=1)
    assert line.startswith("1 endpoint goes by the policy 'strict': let them go by another one first")
    made("endpoints", "update", endpoint, "--policy", "quick")
    assert lines(made("policies", "remove", "strict"))["removed"] == "strict"
    assert refused(made, "policies", "show", "strict", code=1) == (
        "no policy 'strict': use one of standard, patient, quick, demo"
    )


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        (["add", "Strict"], 1, "'Strict' is no name of a policy"),
        (["add", "quick"], 1, "there is a policy 'quick' already: choose another name"),
        (["add", "strict"], 1, "change that one by `tidings policies update`"),
        (["add", "x", "--ladder", "5s,often"], 2, "'often' is no duration: write 90s"),
        (["add", "x", "--ladder", ""], 2, "'' is no duration"),
        (["add", "x", "--ladder", "5m,30"], 1, "the ladder goes down from 5m to 30s"),
        (["add", "x", "--ladder", "0s"], 1, "a delay of 0s is not allowed: give 0.1s to 1d"),
        (["add", "x", "--ladder", "1s,2s", "--attempts", "2"], 1, "a ladder of 2 delays goes beyond 2 attempts"),
        (["add", "x", "--attempts", "101"], 1, "101 attempts are not allowed: give 1 to 100"),
        (["add", "x", "--attempts", "0"], 1, "0 attempts are not allowed"),
        (["add", "x", "--attempts", "many"], 2, "'many' is not a valid integer"),
        (["add", "x", "--timeout", "31s"], 1, "a timeout of 31s is not allowed: give 0.1s to 30s"),
        (["add", "x", "--max-age", "15d"], 1, "is more than TIDINGS_MAX_AGE, at which every delivery ends: give 14d"),
        (["add", "x", "--max-age", "30s"], 1, "a max age of 30s is within TIDINGS_LEASE"),
        (["add", "x", "--client-errors", "keep"], 2, "'keep' is not one of 'short', 'full', 'discard'"),
        (["update", "strict"], 2, "nothing to change: give at least one option"),
        (["update", "strict", "--max-age", "1d", "--no-max-age"], 2, "contradict each other"),
        (["update", "strict", "--ladder", "1s", "--attempts", "1"], 1, "a ladder of 1 delays goes beyond 1 attempts"),
        (["update", "demo", "--attempts", "9"], 1, "the policy 'demo' is built in and stays as it is"),
        (["update", "gone", "--attempts", "9"], 1, "no policy 'gone': use one of standard, patient, quick, demo, str"),
        (["remove", "demo"], 1, "the policy 'demo' is built in and stays as it is"),
        (["remove", "gone"], 1, "no policy 'gone'"),
        (["show", "gone"], 1, "no policy 'gone'"),
    ],
)
def test_what_cannot_be_is_refused_with_what_can(made: Cli, refused, args: list[str], code: int, says: str):
    assert says in refused(made, "policies", *args, code=code)
    assert made.json("policies", "show", "strict")["timeout_s"] == 3.0


def test_the_settings_leave_so_much_to_a_policy(cli: Cli, refused):
    brisk = cli.having(TIDINGS_LEASE="2s", TIDINGS_MAX_AGE="1h")
    assert brisk.json("policies", "add", "x", "--max-age", "3s")["max_age_s"] == 3.0
    assert "give 1h at most" in refused(brisk, "policies", "add", "y", "--max-age", "2h", code=1)


def told(text: str) -> dict[str, str]:
    """Read names and values up to an empty line."""
    return dict(re.split(r"  +", line, maxsplit=1) for line in text.partition("\n\n")[0].splitlines())


# Endpoints ------------------------------------------------------------------------------------------------------------


def test_an_endpoint_goes_by_the_policy_that_it_chooses(made: Cli, refused):
    endpoint = made.json("endpoints", "add", URL, "--policy", "strict")
    assert (endpoint["policy"], endpoint["timeout_s"]) == ("strict", None)
    shown = made.json("endpoints", "show", endpoint["id"])
    assert (shown["policy_steps"]["max_attempts"], shown["policy_steps"]["timeout_s"]) == (20, 3.0)
    told = lines(made("endpoints", "show", endpoint["id"]))
    assert told["policy"].startswith("strict: after 5 s, 5 min, 1 h (the last repeats), 20 attempts")
    assert told["timeout"] == "3 s, its policy's"
    says = "no policy 'lax': use one of standard, patient, quick, demo, strict"
    assert refused(made, "endpoints", "update", endpoint["id"], "--policy", "lax", code=1) == says
    assert refused(made, "endpoints", "add", URL, "--policy", "lax", code=1) == says


def test_what_an_update_chose_is_confirmed(made: Cli):
    endpoint = made.json("endpoints", "add", URL)["id"]
    told = lines(made("endpoints", "update", endpoint, "--policy", "strict"))
    assert told["policy"].startswith("strict: after 5 s, 5 min, 1 h")
    assert told["timeout"] == "3 s, its policy's"


def test_a_timeout_of_its_own_stands_above_the_policys(made: Cli, refused):
    endpoint = made.json("endpoints", "add", URL, "--policy", "strict", "--timeout", "10s")["id"]
    assert lines(made("endpoints", "show", endpoint))["timeout"] == "10 s, its own"
    assert made.json("endpoints", "show", endpoint)["timeout_s"] == 10.0
    assert lines(made("endpoints", "update", endpoint, "--no-timeout"))["timeout"] == "3 s, its policy's"
    assert made.json("endpoints", "update", endpoint, "--timeout", "7s")["timeout_s"] == 7.0
    refused(made, "endpoints", "update", endpoint, "--timeout", "7s", "--no-timeout", code=2)


def test_a_test_event_is_judged_and_given_up_as_the_policy_says(cli: Cli, receiver: Receiver):
    cli("policies", "add", "strict", "--client-errors", "discard", "--timeout", "100ms")
    endpoint = cli.json("endpoints", "add", receiver.url, "--policy", "strict", "--timeout", "30s")["id"]
    receiver.status = 404
    assert "(http_404)" in cli.run("endpoints", "test", endpoint).stderr
    printed = cli.run("endpoints", "test", endpoint, "--json").stdout
    assert '"outcome": "permanent"' in printed
    assert "client errors discard" in printed
    receiver.hold.clear()
    cli("endpoints", "update", endpoint, "--no-timeout")
    assert "timeout)" in cli.run("endpoints", "test", endpoint).stderr
    receiver.hold.set()


# Deliveries -----------------------------------------------------------------------------------------------------------


def test_the_story_of_a_delivery_tells_its_policy_with_its_numbers(declared: Cli, receiver: Receiver):
    declared("policies", "add", "strict", *STRICT)
    endpoint = declared.json("endpoints", "add", receiver.url, "--policy", "strict", "--timeout", "30s")["id"]
    declared("subscriptions", "add", "all", "*", "--endpoint", endpoint)
    receiver.status = 500
    declared("events", "record", "invoice.paid", "--data", "1")
    with declared.running():
        [delivery] = eventually(lambda: declared.json("deliveries", "list", "--state", "retryable"))
    story = declared.json("deliveries", "show", delivery["id"])
    assert (story["policy"]["name"], story["policy"]["max_attempts"]) == ("strict", 20)
    told = lines(declared("deliveries", "show", delivery["id"]))
    assert re.fullmatch(r"\d+ made, \d+ of 20 spent \(policy strict\)", told["attempts"])
    assert told["policy"] == (
        "strict: after 5 s, 5 min, 1 h (the last repeats), 20 attempts, max age 2 d, client errors discard"
    )
    assert told["timeout"] == "30 s, its own"
    assert days_left(story) == 2, "the policy's max age, not the platform's"


def days_left(story: dict[str, Any]) -> int:
    """Return how many days after its making a delivery is given up at the latest."""
    [end] = re.findall(r"given up at (\S+ \S+) at the latest", story["next"])
    lasts = datetime.fromisoformat(end) - datetime.fromisoformat(story["created_at"])
    return round(lasts.total_seconds() / 86_400)
