"""Lock: every dependency is pinned, every pin has its hashes, and nothing says where to fetch it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from .source import Source, check, read, refused, requirements

PIN = re.compile(r"^([a-z0-9][a-z0-9.-]*)==([^ ;\\]+)( ; [^\\]+)? \\$")
HASH = re.compile(r"^    --hash=sha256:[0-9a-f]{64}( \\)?$")


def pin_with_hashes(lock: Source) -> Iterator[str]:
    """Refuse a line that is no pin, hash or comment, and a pin without a hash."""
    lines = lock.text.splitlines()
    for number, (line, following) in enumerate(zip(lines, [*lines[1:], ""], strict=True), 1):
        if "://" in line:
            yield f"{lock.path}:{number}: an address: the lock says what, never where from; `make lock`"
        elif PIN.match(line):
            if not HASH.match(following):
                yield f"{lock.path}:{number}: a pin without a hash: `make lock`"
        elif not (HASH.match(line) or line.lstrip().startswith("#") or not line.strip()):
            yield f"{lock.path}:{number}: neither pin, hash nor comment: `make lock`"


def hold(wanted: Requirement, lock: Source) -> bool:
    """Say whether the lock pins a version that `wanted` allows."""
    pins = [match for line in lock.text.splitlines() if (match := PIN.match(line))]
    versions = [pin[2] for pin in pins if canonicalize_name(pin[1]) == canonicalize_name(wanted.name)]
    return bool(versions) and all(wanted.specifier.contains(version, prereleases=True) for version in versions)


def test_every_pin_has_its_hashes():
    check(pin_with_hashes, [read("requirements.lock")])


def test_every_dependency_is_pinned():
    missing = [str(wanted) for wanted in requirements() if not hold(wanted, read("requirements.lock"))]
    assert not missing, f"requirements.lock lacks {missing}: `make lock`"


@pytest.mark.parametrize(
    "text",
    [
        "--index-url https://example.com/simple",
        "click==8.1 \\\n    # via tidings",
        "click>=8.1",
        "click @ git+ssh://example.com/click",
    ],
)
def test_a_loose_lock_is_refused(text: str):
    assert refused(pin_with_hashes, "requirements.lock", text)


def test_a_lock_of_another_version_is_refused():
    lock = Source("requirements.lock", "click==8.1.0 \\\n    --hash=sha256:" + "0" * 64)
    assert hold(Requirement("Click>=8.1"), lock)
    assert not hold(Requirement("click>=8.2"), lock)
    assert not hold(Requirement("rich"), lock)
