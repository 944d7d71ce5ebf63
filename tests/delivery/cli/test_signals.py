"""A signal does what it is for, whatever becomes of what is printed meanwhile."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys

import pytest

from delivery.cli.signals import Stop, Stopped

from .conftest import PATIENCE_S, TOP

STUBBORN = """
import asyncio, os
from delivery.cli.signals import Stop

async def work():
    os.set_blocking(2, False)
    try:
        while True:
            os.write(2, b"x" * 4096)
    except BlockingIOError:
        os.set_blocking(2, True)
    print("full", flush=True)
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            print("cancelled", flush=True)

with Stop() as stop:
    stop.run(work())
"""


@pytest.mark.parametrize("error", [BrokenPipeError, RuntimeError("reentrant call")])
def test_the_first_signal_cancels_though_nothing_can_be_printed(error: Exception | type[Exception]):
    def say() -> None:
        raise error

    async def work() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.sleep(PATIENCE_S)

    with Stop(say) as stop, pytest.raises(Stopped):
        stop.run(work())


def test_the_second_signal_aborts_though_nobody_takes_what_is_printed():
    process = subprocess.Popen(
        [sys.executable, "-c", STUBBORN], cwd=TOP, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    for line in ("full", "cancelled"):
        assert process.stdout.readline() == f"{line}\n"
        process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE_S) == 130
    process.communicate()


_READING = """
import signal, sys, weakref
from delivery import cli

class Module:
    pass

def dropped(_):
    signal.raise_signal(signal.SIGINT)  # within a callback, Python drops what a handler raises

def open_streams():
    module = Module()
    kept = weakref.ref(module, dropped)
    del module
    print("went on", flush=True)

cli._open_streams = open_streams
signal.signal(signal.SIGINT, HANDLER)
sys.argv = ["tidings", "--version"]
cli.main()
"""


def read_and_interrupted(handler: str) -> tuple[int, str]:
    """Run a command to which Ctrl-C comes as it is read; `handler` is what the caller left for that."""
    program = _READING.replace("HANDLER", f"signal.{handler}")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == ""
    return done.returncode, done.stdout


def test_ctrl_c_ends_a_command_that_is_still_being_read():
    assert read_and_interrupted("default_int_handler") == (130, "")


def test_a_caller_who_ignores_ctrl_c_is_left_to_it():
    code, stdout = read_and_interrupted("SIG_IGN")
    assert (code, stdout.startswith("went on")) == (0, True)
