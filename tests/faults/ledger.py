"""A ledger: JSON lines, each handed to the kernel whole before the writer goes on, so that a kill loses none."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any


class Ledger:
    """Append lines to a file that others may append to."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def write(self, **line: Any) -> None:
        """Append a line; `at` is the time of this machine's clock, in seconds, unless it is given."""
        os.write(self._file, json.dumps({"at": time.time()} | line).encode() + b"\n")


def read(path: Path) -> Iterator[dict[str, Any]]:
    """Read what was written so far; a ledger that nobody began is empty."""
    if path.exists():
        with path.open() as lines:
            yield from (json.loads(line) for line in lines if line.endswith("\n"))
