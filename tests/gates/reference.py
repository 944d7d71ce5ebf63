"""Write docs/cli.md from what each command's `--help` prints: `make reference`."""

from __future__ import annotations

from collections.abc import Iterator

import click
from click.testing import CliRunner

from delivery.cli.root import tidings

from .source import ROOT

PAGE = "docs/cli.md"
#: Columns, whatever terminal it is made on.
WIDTH = 100
HEAD = """\
# Commands

What `--help` of each command says; written by `make reference`.

Results go to standard output; errors, one line each, and logs to standard error. `--json` and `--jsonl` are for
programs.
"""


def commands(command: click.Command, *path: str) -> Iterator[tuple[str, ...]]:
    """List the words that name each command, a group before what is in it."""
    yield path
    if isinstance(command, click.Group):
        with click.Context(command) as context:
            for name in command.list_commands(context):
                found = command.get_command(context, name)
                assert found is not None
                yield from commands(found, *path, name)


def help_of(*path: str) -> str:
    """Return what a command's `--help` prints, without colours."""
    result = CliRunner().invoke(
        tidings, [*path, "--help"], prog_name="tidings", terminal_width=WIDTH, max_content_width=WIDTH, color=False
    )
    assert result.exit_code == 0, result.output
    return result.stdout


def page() -> str:
    """Put the page together."""
    parts = [HEAD]
    for path in commands(tidings):
        level = "#" * max(2, len(path) + 1)
        parts.append(f"{level} {' '.join(('tidings', *path))}\n")
        parts.append(f"```text\n{help_of(*path)}```\n")
    return "\n".join(parts)


if __name__ == "__main__":
    (ROOT / PAGE).write_text(page(), encoding="utf-8")
