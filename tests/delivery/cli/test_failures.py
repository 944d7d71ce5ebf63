"""What an error becomes on its way out."""

from __future__ import annotations

import logging

import click
import pytest
from click.testing import CliRunner, Result

from delivery.cli.root import Root, tidings
from delivery.errors import NotFound


def ended(error: BaseException, *args: str) -> Result:
    """Run a command that raises."""

    @click.command()
    def broken() -> None:
        raise error

    class Broken(Root):
        def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command:
            return broken

    root = Broken("tidings", params=tidings.params, callback=tidings.callback)
    return CliRunner().invoke(root, [*args, "broken"], prog_name="tidings")


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (NotFound("no such thing: look elsewhere"), 1, "tidings: no such thing: look elsewhere\n"),
        (ExceptionGroup("tasks", [ExceptionGroup("more", [NotFound("gone")])]), 1, "tidings: gone\n"),
        (NotFound("two\nlines \x1b[2J"), 1, "tidings: two lines \\x1b[2J\n"),
        (
            PermissionError(13, "Permission denied", "x"),
            1,
            "tidings: the system refused: [Errno 13] Permission denied: 'x'\n",
        ),
        (click.UsageError("not so"), 2, "tidings: not so (see `tidings broken --help`)\n"),
        (KeyboardInterrupt(), 130, "\n"),
        (BrokenPipeError(), 1, ""),
    ],
)
def test_an_error_is_one_line_and_an_exit_code(error: BaseException, code: int, line: str):
    result = ended(error)
    assert (result.exit_code, result.stderr, result.stdout) == (code, line, "")


def test_a_bug_is_one_line_that_asks_for_a_report():
    result = ended(ZeroDivisionError("1 / 0"))
    assert result.exit_code == 1
    assert (
        result.stderr
        == "tidings: unexpected ZeroDivisionError: 1 / 0; run again with --debug and report what it prints\n"
    )


def test_debug_shows_where_a_bug_is_but_not_where_an_error_was_raised():
    result = ended(ZeroDivisionError("1 / 0"), "--debug")
    assert "Traceback" in result.stderr
    assert result.stderr.splitlines()[-1].startswith("tidings: unexpected ZeroDivisionError")
    assert ended(NotFound("gone"), "--debug").stderr == "tidings: gone\n"


def test_what_is_logged_is_one_line_with_nothing_that_a_terminal_obeys():
    @click.command()
    def speaks() -> None:
        logging.getLogger("tidings.relay").warning("boom %s", "\x1b[2J\nmore")

    class Speaking(Root):
        def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command:
            return speaks

    root = Speaking("tidings", params=tidings.params, callback=tidings.callback)
    result = CliRunner().invoke(root, ["speaks"], prog_name="tidings")
    assert result.stderr.endswith("Z WARNING boom \\x1b[2J more\n")
    assert not logging.getLogger("tidings").handlers
