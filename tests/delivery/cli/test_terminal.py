"""What a person sees on a real terminal."""

from __future__ import annotations

import fcntl
import os
import re
import struct
import subprocess
import sys
import termios
from contextlib import suppress

from .conftest import TOP

PRINT = """
from delivery.cli.output import write_table
write_table(
    ("ID", "State", "Text", "Endpoint ID", "At"),
    [(1, "pending", "a long text " * 5, "01890000-0000-7000-8000-000000000001", "2026-01-31 12:00:00Z")],
    empty="none",
)
"""
BAR = """
from delivery.cli.progress import Progress
progress = Progress("replaying", visible=True)
progress.total = {}
with progress:
    progress.advance(progress.total)
"""


def on_a_terminal(program: str, columns: int) -> str:
    """Run a program on a terminal of its own, and return what it writes there."""
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    outside = {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "LINES", "NO_COLOR"}}
    process = subprocess.Popen(
        [sys.executable, "-c", program], cwd=TOP, env=outside | {"TERM": "xterm"}, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    written = b""
    with suppress(OSError):  # how Linux says that nobody holds the other end any more
        while part := os.read(ours, 65_536):
            written += part
    os.close(ours)
    assert process.wait() == 0
    return written.decode()


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def test_a_table_fits_a_terminal_that_is_wide_enough():
    lines = plain(on_a_terminal(PRINT, 100)).splitlines()
    assert len(lines) > 2
    assert max(map(len, lines)) <= 100


def test_an_id_is_whole_on_a_terminal_that_is_too_narrow():
    text = plain(on_a_terminal(PRINT, 40))
    assert "01890000-0000-7000-8000-000000000001" in text
    assert "2026-01-31 12:00:00Z" in text


def test_a_bar_shows_how_far_a_long_run_is():
    assert "100%" in on_a_terminal(BAR.format(4), 80)
    assert on_a_terminal(BAR.format(0), 80) == ""
