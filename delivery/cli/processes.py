"""`--processes`: workers beside this process, each a process of its own, which are kept going and end with it."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from delivery.cli import logs
from delivery.cli.beside import LONGEST_LINE, Heard
from delivery.metrics import Numbers

if TYPE_CHECKING:
    from delivery.settings import Settings

log = logging.getLogger("tidings")

#: Workers that may run beside one another by one command.
MOST = 64
#: One that ends by itself is started again after this long, doubling, in seconds.
_FIRST_S, _LAST_S = 1.0, 30.0
#: One that ran for so long has shown that it can, in seconds.
_PROVEN_S = 60.0
#: What ending may take beyond the grace of a worker, in seconds, before it is killed.
_SPARE_S = 15.0
#: How often a worker looks whether the process that it runs beside still lives, in seconds.
_LOOK_S = 1.0


class Others:
    """Worker processes beside this one."""

    def __init__(self, settings: Settings, *, quiet: bool) -> None:
        self._heard = Heard() if settings.serve is not None else None
        self._grace_s = settings.grace.total_seconds()
        self._command = [sys.executable, "-m", "delivery.cli", "worker", "--beside", str(os.getpid())]
        self._command += ["--quiet"] if quiet else []
        self._command += ["--log-format", logs.JSON] if settings.log_format == logs.JSON else []
        self._command += ["--tells"] if self._heard is not None else []
        self._environment = settings.environment  # no arguments: everybody may list those, and a password may be in it
        self._running: set[asyncio.subprocess.Process] = set()
        self._told: set[asyncio.subprocess.Process] = set()  # to end; told again they would end at once
        self._stopping = asyncio.Event()

    def numbers(self) -> list[Numbers]:
        """Return what they told of their numbers; nothing where this process serves none."""
        return [] if self._heard is None else self._heard.numbers()

    def keep_out(self, place: tuple[str, int]) -> None:
        """Let those that are started from now on know where this process serves: nothing is delivered there."""
        host, port = place
        self._environment["TIDINGS_SERVE"] = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    @asynccontextmanager
    async def running(self, number: int) -> AsyncIterator[None]:
        """Keep so many going until the end; they end before this does."""
        async with asyncio.TaskGroup() as tasks:
            keepers = [tasks.create_task(self._keep()) for _ in range(number)]
            try:
                yield
            finally:
                self.stop()
                if keepers:
                    await asyncio.wait(keepers)

    def stop(self) -> None:
        """Ask them to end in order, each of them once."""
        self._stopping.set()
        for process in self._running - self._told:
            self._told.add(process)
            with suppress(ProcessLookupError):
                process.terminate()

    async def _keep(self) -> None:
        pause_s = _FIRST_S / 2
        loop = asyncio.get_running_loop()
        while not self._stopping.is_set():
            began = loop.time()
            try:
                how = f"ended with {_told(await self._run())}"
            except OSError as error:
                how = f"cannot be started: {error}"
            if self._stopping.is_set():
                return
            pause_s = _FIRST_S if loop.time() - began > _PROVEN_S else min(2 * pause_s, _LAST_S)
            log.error("a worker process %s; another one starts in %.0f s", how, pause_s)
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._stopping.wait()

    async def _run(self) -> int:
        """Run one to its end. It has a session of its own, so that a terminal's Ctrl-C reaches it by us alone."""
        process = await asyncio.create_subprocess_exec(
            *self._command,
            env=self._environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL if self._heard is None else asyncio.subprocess.PIPE,
            start_new_session=True,
            limit=LONGEST_LINE,
        )
        self._running.add(process)
        if self._stopping.is_set():  # while it was started
            self.stop()
        try:
            async with asyncio.TaskGroup() as tasks:
                heard = [tasks.create_task(self._heard.listen(process))] if self._heard is not None else []
                code = await self._until_ended(process)
                for listening in heard:
                    await asyncio.wait([listening], timeout=_LOOK_S)  # to its last word
                    listening.cancel()
            return code
        finally:
            self._running.discard(process)
            self._told.discard(process)

    async def _until_ended(self, process: asyncio.subprocess.Process) -> int:
        while True:
            stopping = self._stopping.is_set()
            try:
                async with asyncio.timeout(self._grace_s + _SPARE_S if stopping else _LOOK_S):
                    return await process.wait()
            except TimeoutError:
                if stopping:
                    process.kill()


def _told(code: int) -> str:
    return f"exit code {code}" if code >= 0 else signal.Signals(-code).name


@asynccontextmanager
async def ending_with(parent: int | None) -> AsyncIterator[None]:
    """Stop this process in order once the one that it runs beside is gone; None = it runs by itself."""
    async with asyncio.TaskGroup() as tasks:
        watch = tasks.create_task(_watch(parent)) if parent is not None else None
        try:
            yield
        finally:
            if watch is not None:
                watch.cancel()


async def _watch(parent: int) -> None:
    while True:
        await asyncio.sleep(_LOOK_S)
        if os.getppid() != parent:
            break
    log.warning("the process that this worker ran beside is gone: it stops")
    os.kill(os.getpid(), signal.SIGTERM)
