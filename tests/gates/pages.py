"""Run what a page says: its code blocks as they stand, in processes that end with the test."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from .source import ROOT, read

T = TypeVar("T")

PATIENCE_S = 60.0
#: What stands on a page for what only the reader knows; the ports may be taken where a test runs.
PLACEHOLDERS = {
    "secret": "whsec_...",
    "endpoint": "ENDPOINT_ID",
    "delivery": "DELIVERY_ID",
    "dsn": "postgresql://...",
    "receiver": "8400",
    "shop": "8500",
}
_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^## +(.+)$", re.MULTILINE)


def section(page: str, heading: str = "") -> str:
    """Return what stands under the heading of the second level that starts so; of none, the whole page."""
    if not heading:
        return read(page).text
    _, *parts = _HEADING.split(read(page).text)
    [found] = [text for title, text in zip(parts[::2], parts[1::2], strict=True) if title.startswith(heading)]
    return found


def blocks(page: str, heading: str, language: str) -> list[str]:
    """List the code blocks of one language under a heading."""
    return [code for found, code in _FENCE.findall(section(page, heading)) if found == language]


def rows(page: str, heading: str) -> list[list[str]]:
    """List the rows of the one table under a heading, without its head."""
    lines = [line for line in section(page, heading).splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def filled(code: str, **places: object) -> str:
    """Put what a reader would put for the placeholders, and free ports for those of the page."""
    for place, value in places.items():
        assert PLACEHOLDERS[place] in code, f"{PLACEHOLDERS[place]} is not in {code!r}"
        code = code.replace(PLACEHOLDERS[place], str(value))
    return code


def eventually(look: Callable[[], T], within: float = PATIENCE_S) -> T:
    """Return the first truthy answer; fail with the last one when it takes too long."""
    deadline = time.monotonic() + within
    while not (found := look()):
        assert time.monotonic() < deadline, f"not within {within:g} s; the last answer was {found!r}"
        time.sleep(0.02)
    return found


class Running:
    """A process that runs, and all that it has printed."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def says(self, *words: object, times: int = 1) -> str:
        """Wait until that many of its lines hold all the words; returns the last of them."""

        def look() -> list[str]:
            ended = self._process.poll() is not None and not self._reader.is_alive()
            found = [line for line in tuple(self._lines) if all(str(word) in line for word in words)]
            assert len(found) >= times or not ended, f"it ended without {words}:\n{self.said}"
            return found if len(found) >= times else []

        try:
            return eventually(look)[-1]
        except AssertionError as error:
            raise AssertionError(f"{words} never came {times} times:\n{self.said}") from error

    @property
    def said(self) -> str:
        """Return all that it has printed."""
        return "".join(tuple(self._lines))

    def end(self) -> None:
        """Stop it, and whatever it started."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self._process.poll() is None:
                os.killpg(self._process.pid, number)
                try:
                    self._process.wait(PATIENCE_S)
                except subprocess.TimeoutExpired:
                    continue
        self._reader.join(PATIENCE_S)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        self._lines.extend(iter(self._process.stdout.readline, ""))


class Shell:
    """A shell at the top of the tree, with the tools of this environment."""

    def __init__(self, **environment: str) -> None:
        outside = {name: value for name, value in os.environ.items() if not name.startswith(("TIDINGS_", "PYTEST_"))}
        tools = os.pathsep.join([str(Path(sys.executable).parent), outside.get("PATH", os.defpath)])
        self._environment: Mapping[str, str] = outside | {"PATH": tools, "PYTHONUNBUFFERED": "1"} | environment

    def run(self, code: str) -> str:
        """Run a block to its end and return what it printed; every command of it ends in 0."""
        done = subprocess.run(
            ["sh", "-eu", "-c", code],
            cwd=ROOT,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE_S * 1.5,
            check=False,
        )
        assert done.returncode == 0, f"exit code {done.returncode} of\n{code}\n{done.stdout}"
        return done.stdout

    @contextmanager
    def running(self, code: str, ready: str) -> Iterator[Running]:
        """Run a block, from the line that holds `ready` on, while the test does other things."""
        process = subprocess.Popen(
            ["sh", "-eu", "-c", code],
            cwd=ROOT,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        running = Running(process)
        try:
            running.says(ready)
            yield running
        finally:
            running.end()
