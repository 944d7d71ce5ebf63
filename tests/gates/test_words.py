"""Words: nothing of the machine that a file was written on, no address of a registry, no half-made merge."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from .source import ROOT, Source, check, paths, read, refused

REGISTRIES = (
    "pypi.org",
    "pythonhosted.org",
    "npmjs.org",
    "npmjs.com",
    "crates.io",
    "deb.debian.org",
    "proxy.golang.org",
)
#: Folders at the top of a machine that hold what is somebody's own.
FOLDERS = ("work", "root", "home")
UNWANTED: dict[str, str] = {
    rf"(?<![\w.~*])/({'|'.join(FOLDERS)})/\w": "a path of one machine: write it relative to the top of the tree",
    "|".join(map(re.escape, REGISTRIES)): "the address of a registry: name the package, its client knows where",
    r"^(<{7} |>{7} |={7}$)": "a half-made merge: finish it",
}
#: File -> why it may.
SPEAKS_OF_THEM = {"tests/gates/test_words.py": "names what it refuses"}


def belong_here(source: Source) -> Iterator[str]:
    """Refuse words that mean something on one machine only."""
    for number, line in enumerate(source.text.splitlines(), 1):
        for pattern, advice in UNWANTED.items():
            if re.search(pattern, line):
                yield f"{source.path}:{number}: {advice}"


def is_text(path: str) -> bool:
    return b"\0" not in (ROOT / path).read_bytes()[:8192]


def test_every_word_belongs_here():
    check(belong_here, (read(path) for path in paths() if path not in SPEAKS_OF_THEM and is_text(path)))


@pytest.mark.parametrize(
    "line",
    [
        *(f"cd /{folder}/main" for folder in FOLDERS),
        *(f"see `/{folder}/notes`" for folder in FOLDERS),
        f"--index-url https://{REGISTRIES[0]}/simple",
        "<" * 7 + " HEAD",
    ],
)
def test_a_word_that_does_not_is_refused(line: str):
    assert refused(belong_here, "docs/x.md", f"# X\n{line}\n")


@pytest.mark.parametrize("folder", FOLDERS)
def test_an_address_path_is_accepted(folder: str):
    assert not refused(belong_here, "docs/x.md", f"POST https://example.com/{folder}/orders")
