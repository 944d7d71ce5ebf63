"""Light: importing does nothing, `signing` brings nothing along, and one module reads the environment."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator

import pytest

from .source import PACKAGES, ROOT, Source, calls, check, dotted, imports, python, refused

HEAVY = (
    "httpx",
    "httptools",
    "psycopg",
    "pydantic",
    "click",
    "rich",
    "asyncio",
    "delivery",
    "subscriptions",
    "migrations",
)

#: Besides delivery/settings.py -> why it may.
READS_ENVIRONMENT: dict[str, str] = {
    "delivery/adapters/embedded": "hands the PATH of this process on to the server it starts",
}
ENVIRONMENT = {"os.environ", "os.environb", "os.getenv", "os.getenvb"}
CLICK_ENVIRONMENT = {"envvar", "auto_envvar_prefix", "show_envvar"}

#: Rooms without I/O.
PURE = (
    "signing",
    "subscriptions",
    *(f"delivery/{room}.py" for room in ("classifier", "backoff", "envelope", "sealing", "health")),
    *(f"delivery/{room}.py" for room in ("sieve", "compiler")),
    *(f"delivery/{port}.py" for port in ("jobs", "outbox", "channels", "attempts", "events", "errors")),
)
OUTSIDE_PURITY = ("signing/contrib",)
IO = {
    "asyncio",
    "http",
    "multiprocessing",
    "pathlib",
    "select",
    "shutil",
    "socket",
    "sqlite3",
    "ssl",
    "subprocess",
    "tempfile",
}
IO_CALLS = {
    "open",
    "read_text",
    "read_bytes",
    "write_text",
    "write_bytes",
    "connect",
    "mkdir",
    "getenv",
    "Popen",
}


def test_signing_brings_nothing_along():
    ask = f"import sys, signing; print(*sorted(sys.modules.keys() & set({HEAVY!r})))"
    found = subprocess.run([sys.executable, "-c", ask], cwd=ROOT, capture_output=True, text=True, check=True)
    assert not found.stdout.split(), (
        f"`import signing` loads {found.stdout.strip()}: it may stand beside any application"
    )


def leave_the_environment(source: Source) -> Iterator[str]:
    """Refuse a reading of the environment outside settings."""
    if source.within(["delivery/settings.py", *READS_ENVIRONMENT]):
        return
    found = [node for node in source.nodes if isinstance(node, ast.Attribute) and dotted(node) in ENVIRONMENT]
    found += [node for node, name in imports(source) if name in ENVIRONMENT]
    found += [call for call, _ in calls(source) if CLICK_ENVIRONMENT & {keyword.arg for keyword in call.keywords}]
    for node in found:
        yield source.at(node, "only delivery/settings.py reads the environment: take the value as an argument")


def do_nothing_on_import(source: Source) -> Iterator[str]:
    """Refuse I/O in the body of a module or class."""
    statements: list[ast.AST] = list(source.tree.body)
    while statements:
        node = statements.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        statements += ast.iter_child_nodes(node)
        if isinstance(node, ast.Call) and dotted(node.func).rpartition(".")[2] in IO_CALLS:
            yield source.at(node, "I/O at import: do it in a function, with functools.cache if it is wanted once")


def stay_pure(source: Source) -> Iterator[str]:
    """Refuse I/O in the pure rooms."""
    if not source.within(PURE) or source.within(OUTSIDE_PURITY):
        return
    for node, name in imports(source):
        if name.partition(".")[0] in IO or name.startswith("urllib.request"):
            yield source.at(node, f"{name} in a pure room: hand its result in, or move this to a step or an adapter")
    for call, name in calls(source):
        if name == "open":
            yield source.at(call, "a pure room opens no file: hand its content in")


def test_only_settings_read_the_environment():
    check(leave_the_environment, python(*PACKAGES))


def test_importing_does_nothing():
    check(do_nothing_on_import, python(*PACKAGES))


def test_pure_rooms_stay_pure():
    check(stay_pure, python(*PACKAGES))


@pytest.mark.parametrize(
    "text",
    [
        "import os\nx = os.environ['A']",
        "import os\ndef f():\n    return os.getenv('A')",
        "from os import environ",
        "import click\n@click.option('--url', envvar='URL')\ndef f(): ...",
    ],
)
def test_reading_the_environment_is_refused(text: str):
    assert refused(leave_the_environment, "delivery/cli/jobs.py", text)


@pytest.mark.parametrize(
    "text",
    [
        "x = open('a')",
        "class A:\n    x = Path('a').read_text()",
        "try:\n    import psycopg\n    c = psycopg.connect()\nfinally: pass",
    ],
)
def test_io_on_import_is_refused(text: str):
    assert refused(do_nothing_on_import, "delivery/app.py", text)
    assert not refused(do_nothing_on_import, "delivery/app.py", "def f():\n    return open('a')")


@pytest.mark.parametrize("text", ["import socket", "from pathlib import Path", "def f(): open('a')"])
def test_io_in_a_pure_room_is_refused(text: str):
    assert refused(stay_pure, "signing/keys.py", text)
    assert not refused(stay_pure, "signing/contrib/guard.py", text)
