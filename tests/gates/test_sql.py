"""SQL: one statement a file, used, explained, and never put together from strings."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import PurePosixPath

import pytest

from .source import PACKAGES, Source, calls, check, dotted, paths, python, read, refused

ADAPTER = "delivery/adapters/postgres"
EXECUTES = {"execute", "executemany", "copy", "stream", "SQL"}


def statements(place: str = "") -> list[Source]:
    return [read(path) for path in paths() if path.endswith(".sql") and path.startswith(place)]


def say_what(source: Source) -> Iterator[str]:
    """Refuse a file that does not start with a comment."""
    if not source.text.startswith("--"):
        yield f"{source.path}:1: say on top, after `--`, what it returns and which index it needs"


def spoken(source: Source) -> set[str]:
    """List the names a module speaks of: its short strings, without `.sql`, and its attributes."""
    strings = {node.value for node in source.nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    attributes = {node.attr for node in source.nodes if isinstance(node, ast.Attribute)}
    return {string.removesuffix(".sql") for string in strings} | attributes


def unused(sql: list[str], modules: list[Source]) -> list[str]:
    """List the statements that no module speaks of, by stem or by path under `sql/`."""
    names = set().union(*map(spoken, modules))
    return [
        path for path in sql if not names & {PurePosixPath(path).stem, path.partition("/sql/")[2].removesuffix(".sql")}
    ]


def built(node: ast.expr) -> bool:
    """Say whether a string is put together; `SQL("...").format(...)` quotes its parts and is not."""
    match node:
        case ast.JoinedStr() | ast.BinOp(op=ast.Mod() | ast.Add()):
            return True
        case ast.Call(func=ast.Attribute(attr="format", value=ast.Call() as template)):
            return dotted(template.func).rpartition(".")[2] != "SQL"
        case ast.Call(func=ast.Attribute(attr="format" | "replace" | "join" | "format_map")):
            return True
        case _:
            return False


def never_built(source: Source) -> Iterator[str]:
    """Refuse SQL that is put together where it is executed."""
    for call, name in calls(source):
        if name.rpartition(".")[2] in EXECUTES and call.args and built(call.args[0]):
            yield source.at(
                call,
                "SQL put together from strings: pass values as named parameters (for SET: set_config)",
            )


def test_every_statement_is_used():
    idle = unused([source.path for source in statements(f"{ADAPTER}/sql/")], python(ADAPTER))
    assert not idle, f"remove {idle}, or use it by name in {ADAPTER}"


def test_every_statement_says_what_it_does():
    check(say_what, statements())


def test_no_statement_is_built_from_strings():
    check(never_built, python(*PACKAGES))


@pytest.mark.parametrize(
    "text",
    [
        "c.execute(f'SELECT {x}')",
        "await cur.execute('SELECT %s' % x)",
        "c.execute('SELECT ' + x, {})",
        "c.executemany('SELECT {}'.format(x), [])",
        "c.execute(statement.replace('$schema', schema))",
        "sql.SQL(f'SELECT {x}')",
    ],
)
def test_a_built_statement_is_refused(text: str):
    path = f"{ADAPTER}/jobs.py"
    assert refused(never_built, path, text if "await" not in text else f"async def f():\n    {text}")


def test_a_quoted_part_is_accepted():
    assert not refused(never_built, f"{ADAPTER}/grants.py", "c.execute(SQL('GRANT {}').format(Identifier(role)))")


def test_an_idle_or_silent_statement_is_refused():
    module = Source(f"{ADAPTER}/jobs.py", "'''Never says claim_jobs.'''\nstatement('settle_jobs')")
    claim, settle = (f"{ADAPTER}/sql/{name}.sql" for name in ("claim_jobs", "settle_jobs"))
    assert unused([claim, settle], [module]) == [claim]
    assert refused(say_what, claim, "SELECT 1")
