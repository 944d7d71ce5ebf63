"""Layout: the top level is closed, names are nouns of the domain, files are short."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

import pytest

from .source import PACKAGES, ROOT, WORKSHOP, Source, check, paths, python, refused

ASKED_FOR = {
    "pyproject.toml",
    "README.md",
    "delivery",
    "signing",
    "subscriptions",
    "migrations",
    "tests",
    "examples",
}
HABITS = {
    "Makefile",
    ".ci",
    ".gitignore",
    ".editorconfig",
    "LICENSE",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "requirements.lock",
    "docs",
    "benchmarks",
}
#: They say nothing of what is inside, so everything ends up there.
EMPTY_WORDS = {
    "utils",
    "util",
    "common",
    "helpers",
    "helper",
    "base",
    "manager",
    "service",
    "models",
    "types",
    "misc",
}
WALL = 400


def test_the_top_level_is_closed():
    present = {path.partition("/")[0] for path in paths()}
    strange = present - ASKED_FOR - HABITS
    assert not strange, f"move {sorted(strange)} into a room, or ignore it in .gitignore: the top level is closed"
    missing = {name for name in ASKED_FOR if not (ROOT / name).exists()}
    assert not missing, f"bring {sorted(missing)} back: the top level was asked for"


def mean_something(source: Source) -> Iterator[str]:
    """Refuse a module or folder named for nothing."""
    for part in PurePosixPath(source.path).with_suffix("").parts:
        if EMPTY_WORDS & set(re.split(r"[_\d]+", part)):
            yield f"{source.path}: `{part}` says nothing: name it for what it holds, a noun of the domain"


def stay_short(source: Source) -> Iterator[str]:
    """Refuse a file beyond the wall."""
    if (lines := len(source.text.splitlines())) > WALL:
        yield f"{source.path}: {lines} lines, the wall is {WALL}: it is two things, part them"


def test_every_name_means_something():
    check(mean_something, python(*PACKAGES, *WORKSHOP))


def test_every_file_is_short():
    check(stay_short, python(*PACKAGES, *WORKSHOP))


def test_every_folder_of_modules_is_a_package():
    files = set(paths())
    folders = {PurePosixPath(source.path).parent for source in python(*PACKAGES)}
    bare = sorted(str(folder) for folder in folders if f"{folder}/__init__.py" not in files)
    assert not bare, f"add an __init__.py to {bare}: without one the floors do not see inside"


def test_every_package_ships_its_types():
    bare = [package for package in PACKAGES if f"{package}/py.typed" not in paths()]
    assert not bare, f"add an empty py.typed to {bare}"


@pytest.mark.parametrize(
    "path", ["delivery/utils.py", "delivery/cli/_common.py", "tests/job_helpers.py", "signing/base/a.py"]
)
def test_an_empty_name_is_refused(path: str):
    assert refused(mean_something, path, "")


def test_a_long_file_is_refused():
    assert refused(stay_short, "delivery/app.py", "x = 1\n" * (WALL + 1))
    assert not refused(stay_short, "delivery/app.py", "x = 1\n" * WALL)
