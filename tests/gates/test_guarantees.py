"""docs/guarantees.md is true: each test that it names exists, each line of code that it quotes stands there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from .source import Source, check, paths, read, refused

PAGE, INVARIANTS = "docs/guarantees.md", "tests/model/invariants.py"
TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)(?:\[([^\]]+)\])?`")
#: Where a promise is kept: a file and what stands in it.
QUOTE = re.compile(r"`(delivery/[\w/.]+)`: `([^`]+)`")
PROMISE = re.compile(r"^\d+\. \*\*", re.MULTILINE)


def defined(source: Source) -> set[str]:
    """List the functions of a module."""
    return {node.name for node in source.nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def name_real_tests(page: Source) -> Iterator[str]:
    """Refuse a test that is not there, or that is not run with what the page says."""
    for path, name, case in TEST.findall(page.text):
        if path not in paths() or name not in defined(read(path)):
            yield f"{page.path}: there is no {path}::{name}"
        elif case and f'"{case}"' not in read(path).text:
            yield f"{page.path}: {path}::{name} has no case {case!r}"


def quote_what_stands(page: Source) -> Iterator[str]:
    """Refuse a line of code that is not in its file any more."""
    for path, code in QUOTE.findall(page.text):
        if path not in paths() or code not in " ".join(read(path).text.split()):
            yield f"{page.path}: {path} does not hold `{code}`"


def hold_each(page: Source) -> Iterator[str]:
    """Refuse a promise beside which no test stands."""
    starts = [match.start() for match in PROMISE.finditer(page.text)]
    for start, end in zip(starts, [*starts[1:], len(page.text)], strict=True):
        promise = page.text[start:end]
        if not TEST.search(promise):
            yield f"{page.path}: no test holds {promise.splitlines()[0]!r}"


def test_every_test_on_the_page_exists():
    check(name_real_tests, [read(PAGE)])


def test_every_line_of_code_on_the_page_stands_in_its_file():
    check(quote_what_stands, [read(PAGE)])


def test_every_promise_on_the_page_has_a_test():
    assert len(PROMISE.findall(read(PAGE).text)) >= 20
    check(hold_each, [read(PAGE)])


def test_every_invariant_of_the_model_is_on_the_page():
    tree = read(INVARIANTS).tree
    names = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    missing = [name for name in names if f"`{name}`" not in read(PAGE).text]
    assert names
    assert not missing, f"say in {PAGE} what {missing} promise"


def test_what_is_not_there_is_refused():
    assert refused(name_real_tests, PAGE, "`tests/model/test_protocol.py::test_gone`")
    assert refused(name_real_tests, PAGE, "`tests/model/test_gone.py::test_a_seeded_fault_is_found`")
    assert refused(name_real_tests, PAGE, "`tests/model/test_protocol.py::test_a_seeded_fault_is_found[gone]`")
    assert refused(quote_what_stands, PAGE, "`delivery/worker.py`: `if gone:`")
    assert refused(hold_each, PAGE, "1. **Atomic.** For sure.\n2. **Once.** `tests/a.py::test_b`\n")
