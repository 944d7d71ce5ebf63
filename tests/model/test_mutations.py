"""The mutants are of this tree: each takes away something that is there, and names tests that are."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from .mutant import Mutant
from .mutations import MUTANTS, ROOT, Trial, run


@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.promise for mutant in MUTANTS])
def test_each_mutant_takes_away_something_and_names_tests_that_are_there(mutant: Mutant):
    whole = (ROOT / mutant.file).read_text()
    assert mutant.of(whole) != whole
    assert mutant.tests
    for test in mutant.tests:
        path, *names = test.split("::")
        tree = ast.parse((ROOT / path).read_text())
        functions = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
        assert set(names[-1:]) <= functions, test


def test_what_is_not_there_is_refused():
    with pytest.raises(ValueError, match="0 times"):
        Mutant("p", "a.py", "gone", "", []).of("here")
    with pytest.raises(ValueError, match="2 times"):
        Mutant("p", "a.py", "here", "", []).of("here here")


@pytest.mark.parametrize(
    ("test", "verdict"),
    [("assert True", "NOT MISSED"), ("assert False", "missed"), ("import gone", "broke off with 2")],
)
def test_a_trial_says_whether_the_test_missed_what_was_taken_away(tmp_path: Path, test: str, verdict: str):
    code = "\n".join(["def test_it():", f"    {test}"]) if "assert" in test else test
    (tmp_path / "test_it.py").write_text(code)
    trial = Trial(MUTANTS[0], "test_it.py", run(tmp_path, ["test_it.py"]), 1.0)
    assert str(trial).startswith(verdict)
    assert trial.is_missed == (verdict == "missed")
