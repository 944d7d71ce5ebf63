"""Pausing and resuming on the command line, and how loudly it is told of."""

from __future__ import annotations

import pytest

from delivery.cli.failures import ALERTED

from .conftest import Cli, lines


def test_what_is_paused_is_told_of_until_it_is_resumed(cli: Cli) -> None:
    made = cli.json("pause", "--owner", "acme", "--reason", "asked for it", "--by", "ann")
    assert {name: made[name] for name in ("scope", "kind", "owner_id", "by", "reason")} == {
        "scope": "owner",
        "kind": None,
        "owner_id": "acme",
        "by": "ann",
        "reason": "asked for it",
    }
    told = cli("status")
    assert told.startswith("alert  PAUSED: owner acme, by ann for ")
    assert "(asked for it): `tidings resume --owner acme` lets it go on" in told.splitlines()[0]
    assert lines(told)["paused"].startswith("owner acme, by ann at ")
    assert cli.json("status")["pauses"] == [made]
    assert cli.run("status", "--check").exit_code == ALERTED
    assert cli.json("resume", "--owner", "acme") == made
    assert "PAUSED" not in cli("status")
    assert cli.json("status")["pauses"] == []


@pytest.mark.parametrize(
    ("args", "what"),
    [
        (["--all"], "everything"),
        (["--kind", "webhook.deliver"], "the kind webhook.deliver"),
        (["--kind", "handler.mailer"], "the kind handler.mailer"),
    ],
)
def test_a_kind_a_handler_and_everything_are_paused_and_resumed(cli: Cli, args: list[str], what: str) -> None:
    assert lines(cli("pause", *args))["paused"] == what
    assert f"`tidings resume {' '.join(args)}` lets it go on" in cli("status")
    assert lines(cli("resume", *args))["now"] == "it goes on"


@pytest.mark.parametrize("command", ["pause", "resume"])
@pytest.mark.parametrize("args", [[], ["--all", "--owner", "acme"], ["--kind", "a", "--owner", "b"]])
def test_one_thing_is_to_be_named(cli: Cli, refused, command: str, args: list[str]) -> None:
    assert "say what is meant: give one of --kind, --owner and --all" in refused(cli, command, *args, code=2)


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["pause", "--kind", "webhook.sent"], "there is no kind 'webhook.sent': use one of webhook.deliver"),
        (["pause", "--owner", "a b"], "the owner's id is not usable: give 1 to 128 printable"),
        (["pause", "--all", "--reason", "x" * 501], "'reason' is not usable: give one line of 1 to 500 characters"),
        (["pause", "--all", "--reason", ""], "'reason' is not usable"),
        (["pause", "--all", "--by", "a\nb"], "'by' is not usable: give one line of 1 to 128 characters"),
        (["resume", "--all"], "everything is not paused: `tidings status` shows what is"),
        (["resume", "--owner", "acme"], "owner acme is not paused"),
        (["resume", "--kind", "gone"], "the kind gone is not paused"),
    ],
)
def test_what_cannot_be_is_refused_with_what_to_do(cli: Cli, refused, args: list[str], says: str) -> None:
    assert says in refused(cli, *args, code=1)


def test_the_owner_of_the_environment_is_not_meant(cli: Cli, refused) -> None:
    """Nobody pauses an owner by leaving an option out."""
    cli.environment["TIDINGS_OWNER"] = "acme"
    assert "say what is meant" in refused(cli, "pause", code=2)
