"""What the gates read: every file as it would be committed, each parsed once.

A rule is a function from one `Source` to the lines it has against it, so that a test can also feed it a
bad source: a gate that cannot fail is no gate.
"""

from __future__ import annotations

import ast
import os
import subprocess
import tomllib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("signing", "subscriptions", "migrations", "delivery")
#: Where Python is that nobody installs.
WORKSHOP = ("tests", "examples", "benchmarks")
#: Never committed; only asked where there is no git.
PASSING = {".venv", ".git", "__pycache__", "build", "dist"}


@dataclass(frozen=True)
class Source:
    """One text file: its path from the top, with `/`, and what it says."""

    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """Parse it as Python."""
        return ast.parse(self.text, self.path)

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """List every node of the tree."""
        return tuple(ast.walk(self.tree))

    def at(self, node: ast.AST, finding: str) -> str:
        """Write one finding down."""
        return f"{self.path}:{getattr(node, 'lineno', 1)}: {finding}"

    def within(self, places: Iterable[str]) -> bool:
        """Say whether this file is one of `places`, or under one of them."""
        return any(self.path == place or self.path.startswith(f"{place}/") for place in places)


Rule = Callable[[Source], Iterator[str]]


@cache
def paths() -> tuple[str, ...]:
    """List the files that are committed, or would be: by git in a checkout, else what is on the disk."""
    if not (ROOT / ".git").exists():
        return tuple(sorted(_on_disk()))
    ask = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        answer = subprocess.run(ask, capture_output=True, check=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError):  # no git here, or one that does not trust this checkout
        return tuple(sorted(_on_disk()))
    return tuple(sorted(path for path in set(answer.split("\0")) if path and (ROOT / path).is_file()))


def _on_disk() -> Iterator[str]:
    for folder, folders, files in os.walk(ROOT):
        here = Path(folder).relative_to(ROOT)
        folders[:] = [name for name in folders if name not in PASSING and not name.endswith(("_cache", ".egg-info"))]
        yield from ((here / name).as_posix() for name in files)


@cache
def read(path: str) -> Source:
    """Read one file."""
    return Source(path, (ROOT / path).read_text(encoding="utf-8"))


def requirements(*, groups: bool = True) -> Iterator[Requirement]:
    """List what pyproject.toml declares: dependencies, extras, and the `groups` of developers."""
    declared = tomllib.loads(read("pyproject.toml").text)
    lists = [declared["project"]["dependencies"], *declared["project"]["optional-dependencies"].values()]
    for names in (*lists, *(declared["dependency-groups"].values() if groups else ())):
        yield from map(Requirement, names)


def python(*places: str) -> list[Source]:
    """Read the Python files under `places`."""
    found = (path for path in paths() if path.endswith(".py") and path.startswith(tuple(f"{p}/" for p in places)))
    return [read(path) for path in found]


def dotted(node: ast.AST) -> str:
    """Write `a.b.c` for such an expression; a part that is no name is written as `?`."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=name):
            return f"{dotted(value)}.{name}"
        case _:
            return "?"


def calls(source: Source) -> Iterator[tuple[ast.Call, str]]:
    """List every call with the dotted name of what is called."""
    return ((node, dotted(node.func)) for node in source.nodes if isinstance(node, ast.Call))


def imports(source: Source) -> Iterator[tuple[ast.stmt, str]]:
    """List what is imported, with relative names made whole; `from a import b` is written `a.b`."""
    package = source.path.removesuffix(".py").split("/")[:-1]
    for node in source.nodes:
        match node:
            case ast.Import(names=names):
                yield from ((node, name.name) for name in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                start = package[: len(package) - level + 1] if level else []
                stem = ".".join([*start, *([module] if module else [])])
                yield from ((node, f"{stem}.{name.name}") for name in names)


def check(rule: Rule, sources: Iterable[Source]) -> None:
    """Fail with every line that `rule` has against the sources."""
    findings = [finding for source in sources for finding in rule(source)]
    assert not findings, "\n" + "\n".join(findings)


def refused(rule: Rule, path: str, text: str) -> bool:
    """Say whether `rule` has anything against such a file."""
    return any(rule(Source(path, text)))
