"""Every command of the tree: help, forms of output, owners."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import click
import pytest

from delivery.cli.root import tidings

from .conftest import TOP

#: They run until they are stopped, or tell a story: no data.
NO_DATA = {"up", "relay", "worker", "demo", "listen", "completion"}
ASKED_FOR = """
up migrate relay worker demo listen verify pause resume
keys generate
event-types declare, event-types list
endpoints add, endpoints list, endpoints show, endpoints update, endpoints enable, endpoints disable, endpoints remove,
endpoints test, endpoints rotate-secret, endpoints keys, endpoints jwks
subscriptions add, subscriptions list, subscriptions remove
events record, events list, events show, events requeue, events replay
deliveries list, deliveries show, deliveries retry, deliveries cancel, deliveries replay
replays start, replays list, replays show, replays pause, replays resume, replays cancel
jobs overview, jobs list, jobs show, jobs retry, jobs cancel
periodic list, periodic run
"""


def leaves(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from leaves(command, (*path, name))
        else:
            yield " ".join((*path, name)), command


TREE = dict(leaves(tidings))


def options(command: click.Command) -> set[str]:
    return {name for param in command.params for name in (*param.opts, *param.secondary_opts)}


def test_every_command_that_was_asked_for_is_there():
    first, rest = ASKED_FOR.strip().split("\n", 1)
    wanted = {
        *first.split(),
        *(" ".join(each.split()) for line in rest.split("\n") for each in line.split(",") if each),
    }
    assert wanted <= set(TREE)


@pytest.mark.parametrize("name", TREE)
def test_every_command_has_a_help(standing, name: str):
    text = standing(*name.split(), "--help")
    assert TREE[name].help
    assert TREE[name].get_short_help_str(200).endswith(".")
    assert f"Usage: tidings {name}" in text
    unexplained = [option.name for option in TREE[name].params if isinstance(option, click.Option) and not option.help]
    assert not unexplained, f"say what {unexplained} are for"


@pytest.mark.parametrize("name", [name for name in TREE if name not in NO_DATA])
def test_every_command_that_prints_data_prints_json_too(name: str):
    assert "--json" in options(TREE[name])


@pytest.mark.parametrize("name", [name for name in TREE if name.endswith((" list", " overview"))])
def test_every_list_prints_json_lines_too(name: str):
    assert "--jsonl" in options(TREE[name])


#: It looks at nothing that is kept.
TRIED_ALONE = {"subscriptions test-filter"}


@pytest.mark.parametrize(
    "name",
    [name for name in TREE if name.split()[0] in {"endpoints", "subscriptions", "events"} and name not in TRIED_ALONE],
)
def test_every_command_about_an_owners_things_takes_the_owner(name: str):
    assert "--owner" in options(TREE[name])


@pytest.mark.parametrize("name", ["", *sorted({name.split()[0] for name in TREE if " " in name})])
def test_a_noun_alone_shows_its_commands(standing, name: str):
    result = standing.run(*name.split())
    assert result.exit_code == 2
    assert "Commands:" in result.stderr


def test_the_version_is_told(standing):
    assert standing("--version").startswith("tidings 0.")


def test_options_of_every_command_may_stand_before_it(standing, tmp_path):
    dsn = standing.environment["TIDINGS_DATABASE_URL"]
    bare = standing.without("TIDINGS_DATABASE_URL")
    before = bare.json("--dsn", dsn, "--owner", "acme", "endpoints", "list")
    assert before == standing.json("endpoints", "list", "--owner", "acme")


def test_help_is_quick_to_load():
    """Nothing of the platform's libraries, which take ten times as long as the help itself."""
    ask = """
import sys, types
package = types.ModuleType("delivery")  # the package's own import of the app is not what is asked about
package.__path__ = ["delivery"]
sys.modules["delivery"] = package
from click.testing import CliRunner
from delivery.cli.root import tidings
assert CliRunner().invoke(tidings, ["--help"]).exit_code == 0
heavy = ("psycopg", "httpx", "httptools", "pydantic", "rich", "delivery.app", "delivery.adapters")
print(*sorted(sys.modules.keys() & set(heavy)))
"""
    found = subprocess.run([sys.executable, "-c", ask], cwd=TOP, capture_output=True, text=True, check=True)
    assert not found.stdout.split(), f"`tidings --help` loads {found.stdout.strip()}"
