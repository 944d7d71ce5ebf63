"""The processes that run until they are stopped: what `up`, `relay` and `worker` share."""

from __future__ import annotations

import fcntl
import gc
import logging
import os
import resource
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from delivery.cli import logs
from delivery.cli.beside import telling
from delivery.cli.failures import Failed
from delivery.cli.output import shown, span, write_line
from delivery.cli.place import place
from delivery.cli.processes import Others, ending_with
from delivery.cli.receiver import url_of
from delivery.cli.serving import serving
from delivery.cli.session import Session
from delivery.cli.signals import Stopped

if TYPE_CHECKING:
    from delivery.app import App
    from delivery.settings import Settings

log = logging.getLogger("tidings")

#: Open files that are enough for thousands of connections.
MOST_FILES = 65_536
Say = Callable[[str, str], None]
#: Held in the state folder by the one `up` that runs on it.
LOCK = "up.lock"


def run_loops(
    session: Session,
    *,
    relay: bool = False,
    worker: bool = False,
    alone: bool = False,
    allow_local: bool | None = None,
    by: str = "",
    quiet: bool = False,
    processes: int = 1,
    beside: int | None = None,
    tells: bool = False,
) -> None:
    """Relay, deliver or both until a signal comes. SIGTERM, in order, is success; Ctrl-C is 130.

    Raises:
        Stopped: Ctrl-C.
    """
    settings = session.settings
    logs.use(settings.log_format)
    allow_more_files()
    log.setLevel(logging.WARNING if quiet else logging.INFO)
    others = Others(settings, quiet=quiet)
    say = _say if beside is None else _say_nothing
    what = " and ".join(name for name, runs in (("relay", relay), ("worker", worker)) if runs)

    async def work(app: App) -> None:
        with _only_one(settings.home) if alone and settings.dsn is None else nullcontext():
            made = worker and _make_keys(app, settings)
            local = await app.allow_local(allow_local, by=by or "somebody")
            say("database", await app.database())
            if settings.dsn is None:
                say("state", str(settings.home))
            say("dsn", await place(app))
            if worker:
                say("keys", _where_keys_are(settings))
            say("allow-local", _local(local))
            if made:
                log.info("made a key that seals signing secrets: %s (keep it with the database)", made)
            ready = f"{what} run: Ctrl-C stops them in order" if relay and worker else f"the {what} runs"
            async with (
                _watched(app, others, beside, say, tells=tells),
                others.running(processes - 1),
                ending_with(beside),
            ):
                await app.work(relay=relay, worker=worker, started=lambda: _start_well(say, ready))

    grace = span(settings.grace)

    def stopping() -> None:
        others.stop()
        logs.note(f"stopping: what is in flight has {grace} to end; again to abort")

    try:
        replace(session, tells_new=not alone).run(work, stopping=stopping)
    except Stopped as stopped:
        logs.note("stopped in order")
        if stopped.number != signal.SIGTERM:
            raise


@asynccontextmanager
async def _watched(app: App, others: Others, beside: int | None, say: Say, *, tells: bool) -> AsyncIterator[None]:
    """Serve metrics and health where that is asked for; a process beside another one tells that one its numbers."""
    place = app.settings.serve
    async with AsyncExitStack() as stack:
        if beside is None and place is not None:
            place = await stack.enter_async_context(serving(app, place, others.numbers))
            others.keep_out(place)
            say("serve", f"{url_of(*place)}metrics (also healthz, readyz)")
        if tells:
            await stack.enter_async_context(telling(app.numbers))
        yield


def allow_more_files() -> None:
    """Raise the soft limit of open files, which a connection each takes, as far as may be.

    It is 1,024 by default for the sake of programs that use `select`, and none of that is here.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):  # some systems have a lower limit of their own: then it stays
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def collect_rarely() -> None:
    """Let Python look for cycles less often, and not at what stays: a delivery leaves none, and pays 7 % for it."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def _start_well(say: Callable[[str, str], None], ready: str) -> None:
    collect_rarely()
    say("ready", ready)


def _say(name: str, text: str) -> None:
    if logs.is_json():
        logs.note(f"{name}: {text}")
    else:
        write_line(f"{name:<12} {shown(text)}")


def _say_nothing(_name: str, _text: str) -> None:
    """The process that this one runs beside has said it."""


def _make_keys(app: App, settings: Settings) -> Path | None:
    """See that there are keys; return the file of one that was made just now, which is no reason to warn.

    Raises:
        ConfigurationError: there are none, or one of them is none.
    """
    file = Path(_where_keys_are(settings))
    stood, level = file.exists(), log.level
    log.setLevel(logging.ERROR)  # told of later, when it is clear what runs here
    try:
        app.check_keys()
    finally:
        log.setLevel(level)
    return None if settings.keys is not None or settings.dsn is not None or stood else file


def _local(allowed: bool) -> str:
    if allowed:
        return "on: deliveries may go to this machine and private networks (`tidings up --no-allow-local` ends it)"
    return "off: deliveries go to public addresses only (`tidings up --allow-local` is for trying things out)"


def _where_keys_are(settings: Settings) -> str:
    if settings.keys is not None or settings.dsn is not None:
        return "TIDINGS_KEYS"
    return str(settings.home / "keys")


@contextmanager
def _only_one(home: Path) -> Iterator[None]:
    """Hold the state folder's lock, which ends with the process.

    Raises:
        Failed: another `up` holds it, or the folder cannot be written to.
    """
    path = home / LOCK
    try:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise Failed(f"{path} cannot be used ({error.strerror}): set TIDINGS_HOME to a folder of your own") from error
    try:
        owner = home.stat()
        if os.geteuid() == 0:
            os.fchown(lock, owner.st_uid, owner.st_gid)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise Failed(f"another `tidings up` runs on {home}: stop it first, or run `tidings worker` beside it") from None
    finally:
        os.close(lock)
