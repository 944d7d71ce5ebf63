"""A command that is run with its standard streams closed does what it was asked for."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", ">&- 2>&- <&-"])
def test_a_closed_stream_ends_no_command_with_a_traceback(closed: str):
    command = f'"$0" -m delivery.cli keys generate {closed}'
    ended = subprocess.run(["/bin/sh", "-c", command, sys.executable], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0
    assert ended.stderr == ""
