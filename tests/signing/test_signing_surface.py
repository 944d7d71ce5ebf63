"""The package as others see it: its names, its errors, and what importing it costs."""

import ast
import copy
import inspect
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import signing
from signing import errors

ALLOWED = {*sys.stdlib_module_names, "cryptography", "signing"}
FILES = sorted(path for path in Path(signing.__file__).parent.glob("*.py"))
ERRORS = [thing for _, thing in inspect.getmembers(errors, inspect.isclass)]


def test_every_error_is_public() -> None:
    assert {error.__name__ for error in ERRORS} <= set(signing.__all__)


def test_every_error_is_drawn_in_the_tree_with_its_status() -> None:
    tree = [line for line in (errors.__doc__ or "").splitlines() if "──" in line or line.endswith("WebhookError")]
    for error in ERRORS:
        line = next(line for line in tree if error.__name__ in line.split())
        if error not in {errors.WebhookError, errors.InvalidKeyError, errors.VerificationError}:
            assert str(error.http_status) in line.split()
            assert error.code in (errors.__doc__ or "")


def test_a_refused_key_is_a_value_error() -> None:
    assert issubclass(signing.InvalidKeyError, ValueError)
    assert not issubclass(signing.InvalidKeyError, signing.VerificationError)


@pytest.mark.parametrize("duplicate", [copy.copy, lambda error: pickle.loads(pickle.dumps(error))])
def test_an_error_keeps_its_code_between_processes(duplicate) -> None:
    error = duplicate(signing.TimestampError("signed too late", code="timestamp_too_new"))
    assert (str(error), error.code, error.http_status) == ("signed too late", "timestamp_too_new", 400)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_room_imports_the_standard_library_and_cryptography_only(file: Path) -> None:
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").partition(".")[0])
    assert found <= ALLOWED


def test_importing_it_pulls_in_no_other_library() -> None:
    code = "import sys, signing; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=FILES[0].parents[1]
    )
    names = set(loaded.stdout.split())
    assert "signing" in names
    assert not names & {"httpx", "psycopg", "pydantic", "click", "delivery", "subscriptions", "migrations"}
