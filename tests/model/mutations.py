"""Take away what keeps a promise, one line at a time, and see the tests fail: `python -m tests.model.mutations`.

Works on a copy of the tree. A promise whose line can go without a test noticing is one that nobody keeps: the report
calls it `NOT MISSED`, and a test is to be written.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from .mutant import Mutant
from .mutants_of_operation import OPERATION
from .mutants_of_platform import PROMISES
from .mutants_of_protocol import PROTOCOL_OF_JOBS

MUTANTS = (*PROMISES, *PROTOCOL_OF_JOBS, *OPERATION)
ROOT = Path(__file__).parents[2]
_LEFT_OUT = shutil.ignore_patterns(".git", ".venv", "*_cache", ".hypothesis", "__pycache__", "build", "dist")
#: How long the tests of one trial may take, in seconds.
PATIENCE_S = 900
_FAILED = 1  # as pytest says it; anything above is that it did not come to the tests
_HUNG = 124  # as `timeout` says it


@dataclass(frozen=True, slots=True)
class Trial:
    """What one test made of one mutant."""

    mutant: Mutant
    test: str
    code: int
    took_s: float

    @property
    def is_missed(self) -> bool:
        """Say whether the test failed, as it should."""
        return self.code == _FAILED

    def __str__(self) -> str:
        verdict = "missed" if self.is_missed else "NOT MISSED" if self.code == 0 else f"broke off with {self.code}"
        return f"{verdict:<11} {self.took_s:>4.0f} s  {self.mutant.promise}\n{'':<20}{self.test}"


def run(tree: Path, tests: Sequence[str]) -> int:
    """Run tests in a tree; returns how pytest ended."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    try:
        return subprocess.run(command, cwd=tree, capture_output=True, timeout=PATIENCE_S, check=False).returncode
    except subprocess.TimeoutExpired:
        return _HUNG


def trials(tree: Path, mutants: Sequence[Mutant]) -> Iterator[Trial]:
    """Try each mutant in turn, with each of its tests."""
    for mutant in mutants:
        path = tree / mutant.file
        whole = path.read_text()
        path.write_text(mutant.of(whole))
        for test in mutant.tests:
            began = time.monotonic()
            code = run(tree, [test])
            yield Trial(mutant, test, code, time.monotonic() - began)
        path.write_text(whole)


def main() -> int:
    """Try them all; returns 1 where something was not missed."""
    parser = argparse.ArgumentParser(prog="python -m tests.model.mutations")
    parser.add_argument("--only", default="", help="try those with this in what they promise, or in the file's name")
    only = parser.parse_args().only
    mutants = [mutant for mutant in MUTANTS if only in mutant.promise or only in mutant.file]
    with tempfile.TemporaryDirectory(prefix="tidings-mutants-") as folder:
        tree = Path(folder) / "tree"
        shutil.copytree(ROOT, tree, ignore=_LEFT_OUT)
        if run(tree, sorted({test for mutant in mutants for test in mutant.tests})):
            print("the tests do not pass as the tree stands, so that they fail would say nothing")
            return 1
        done = []
        for trial in trials(tree, mutants):
            print(trial, flush=True)
            done.append(trial)
    missed = sum(trial.is_missed for trial in done)
    print(f"{len(mutants)} lines taken away, {len(done)} tests run, {missed} of which failed")
    return 0 if done and missed == len(done) else 1


if __name__ == "__main__":
    sys.exit(main())
