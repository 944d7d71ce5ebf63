"""Reference: docs/cli.md is what the commands say of themselves, and a page names only what they take."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click
import pytest

from .reference import PAGE, commands, help_of, page, tidings
from .source import Source, check, paths, read, refused

#: `tidings ...` in a span, or at the start of a line of a block, up to a comment.
NAMED = re.compile(r"`tidings ([^`\n]+)`|^ *tidings ((?:[^#\n\\]|\\\n)+)", re.MULTILINE)
#: Page -> why it may name what is no command.
SPEAKS_OF_OTHERS = {PAGE: "compared whole", "CHANGELOG.md": "names what there once was"}


def test_the_reference_is_what_help_prints():
    assert read(PAGE).text == page(), f"{PAGE} is not what --help prints: `make reference` writes it again"


def test_every_command_has_its_section():
    headings = [line.lstrip("#").split() for line in read(PAGE).text.splitlines() if line.startswith("##")]
    assert headings == [["tidings", *path] for path in commands(tidings)]
    assert ["tidings", "deliveries", "replay"] in headings


def test_readme_names_the_exit_codes_that_help_names():
    codes = " ".join((tidings.epilog or "").split())
    assert codes.startswith("Exit codes: 0 done")
    assert codes in " ".join(read("README.md").text.split())


@pytest.mark.parametrize("columns", ["60", "300"])
def test_the_terminal_does_not_matter(monkeypatch: pytest.MonkeyPatch, columns: str):
    before = help_of("endpoints", "add")
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert help_of("endpoints", "add") == before


def name_real_commands(source: Source) -> Iterator[str]:
    """Refuse a command, or an option of one, that does not exist."""
    for match in NAMED.finditer(source.text):
        words = (match[1] or match[2]).replace("\\\n", " ").split()
        for fault in faults(words):
            yield f"{source.path}: `tidings {' '.join(words)}`: there is no {fault}; docs/cli.md lists what there is"


def faults(words: list[str]) -> Iterator[str]:
    """List the words that are neither a command nor an option of it."""
    command: click.Command = tidings
    options: set[str] = set()
    with click.Context(tidings) as context:
        for word in words:
            options |= {name for param in command.get_params(context) for name in (*param.opts, *param.secondary_opts)}
            if word.startswith("--"):
                if word.partition("=")[0] not in options:
                    yield f"option {word}"
            elif isinstance(command, click.Group):
                found = command.get_command(context, word)
                if found is None:
                    yield f"command {word}"
                    return
                command = found


def test_every_command_that_a_page_names_exists():
    pages = (path for path in paths() if path.endswith((".md", ".sh")) and path not in SPEAKS_OF_OTHERS)
    check(name_real_commands, map(read, pages))


@pytest.mark.parametrize(
    "text",
    [
        "`tidings gone`",
        "`tidings deliveries gone`",
        "`tidings up --gone`",
        "```sh\ntidings deliveries replay \\\n  --gone\n```",
    ],
)
def test_a_command_that_is_gone_is_refused(text: str):
    assert refused(name_real_commands, "docs/x.md", text)


@pytest.mark.parametrize(
    "text",
    ["`tidings deliveries`", "`tidings up --no-allow-local`", "tidings deliveries show 17  # --gone\n", "tidings\n"],
)
def test_a_command_that_exists_is_accepted(text: str):
    assert not refused(name_real_commands, "docs/x.md", text)
