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
