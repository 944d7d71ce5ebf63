"""A private PostgreSQL for the processes that share a state folder: one owns it, the others attach."""

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from delivery.adapters.embedded.account import OTHERWISE, Account
from delivery.adapters.embedded.home import Home
from delivery.adapters.embedded.programs import Programs, reason
from delivery.adapters.embedded.running import POLL_SECONDS, Running
from delivery.errors import ConfigurationError, Unavailable

#: Seconds that starting, attaching, taking over or stopping may take.
PATIENCE_SECONDS = 60.0

#: Seconds that processes of a dead server may take to leave by themselves.
ORPHANS_SECONDS = 2.0

#: Seconds that an owner who stops waits for those who attached. Commands are done by then; what runs on takes over.
USERS_SECONDS = 5.0

#: Seconds in which the first work on a server is tried again when the server goes away under it.
FIRST_WORK_SECONDS = 20.0

#: What is said of a database that somebody gave, and is no help with ours.
GIVEN_ADVICE = "; check that it runs, and --dsn"

T = TypeVar("T")

#: The process between owner and server, run as a script.
SUPERVISOR = Path(__file__).with_name("supervisor.py")


class EmbeddedPostgres:
    """A PostgreSQL 18 whose state lies in `home`, reached over a socket that only its owner can open.

    The first to `start` owns the server, and the server ends with its owner, even by kill -9. Whoever comes
    while it runs attaches, and takes over by `ensure` when the owner is gone. An owner that stops first waits, for
    5 s at most, until those who attached have stopped too, and who wants to start waits for its end. Started by
    root, the server runs as whoever owns the data folder or `home`, else as `nobody`. The methods block, may be
    called from any thread, and wait for each other.

    Not promised: that settings of one who attaches apply; that the server ends while a process forked from
    the owner, without exec, lives on; anything on a network file system.

    Why: see `supervisor.py` for how the server learns of its owner's end, and `running.py` for how a starter
    knows that nothing runs on the data. `pg_ctl` knows neither.
    """

    def __init__(self, home: Path, *, durable: bool = True, conf: Sequence[str] = ()) -> None:
        """Say where and how; nothing is touched before `start`.

        `durable=False` gives up safety against a crash of the machine for speed, in tests. `conf` holds
        settings, each `name=value`, that win over ours.
        """
        self._home = Home(home)
        self._running = Running(self._home)
        self._durable = durable
        self._conf = tuple(conf)
        self._turn = threading.RLock()
        self._supervisor: subprocess.Popen[bytes] | None = None
        self._started = False
        self._place: int | None = None  # among the users
        self._log_start = 0  # where in the log the words of our server begin

    @property
    def owns(self) -> bool:
        """Say whether the server ends with this process."""
        return self._supervisor is not None

    def start(self) -> str:
        """Start the server, or attach to the one that runs; returns the DSN of database `tidings`.

        On a repeat nothing happens but a check. The DSN stays the same over restarts and takeovers, unless the
        path of `home` is too long for a socket and another account meanwhile took the name of the short folder.

        Raises:
            ConfigurationError: state folder, wheel, account or a setting are not fit to start with.
            Unavailable: no answer within 60 s. A server that is recovering goes on: call again to wait on.
        """
        with self._turn, self._system_errors():
            deadline = time.monotonic() + PATIENCE_SECONDS
            account = self._home.open()
            with self._running.starting(deadline):
                if self._place is None:
                    self._place = self._running.join(deadline)
                try:
                    dsn = self._bring_up(account, Programs(self._home, account), deadline)
                    self._started = True
                finally:
                    if not self._started:
                        self._leave()
            return dsn

    async def reach(self, work: Callable[[str], Awaitable[T]]) -> T:
        """Start, and do the first work on the DSN; all over again, for 20 s, while the server goes away under it.

        That way one who attached just before the owner was killed gets a server of its own.

        Raises:
            ConfigurationError: as `start`.
            Unavailable: as `start`; or the work did not get through, however often it was begun.
        """
        deadline = time.monotonic() + FIRST_WORK_SECONDS
        while True:
            dsn = await asyncio.to_thread(self.start)
            with self.explained():
                try:
                    return await work(dsn)
                except Unavailable:
                    if time.monotonic() > deadline:
                        raise
            await asyncio.sleep(POLL_SECONDS)

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Say of a database that does not answer what to do when it is this one.

        Raises:
            Unavailable: it was raised inside.
        """
        try:
            yield
        except Unavailable as error:
            trouble, advice, _ = str(error).partition(GIVEN_ADVICE)
            if not advice:
                raise
            raise Unavailable(f"{trouble}; try again, and see {self._home.log}") from error

    def ensure(self) -> bool:
        """Bring the server back if it is gone, taking it over when its owner went; True when it was gone.

        Does nothing before `start` and after `stop`. Connections made before are broken when it was gone.

        Raises:
            ConfigurationError: as `start`.
            Unavailable: as `start`.
        """
        with self._turn, self._system_errors():
            if not self._started or self._lives():
                return False
            self.start()
            return True

    def stop(self) -> None:
        """Shut the server down fast and wait for its end; only lets go of it when another owns it.

        Others who use it get 5 s to stop; then they are cut off, and may take over by `ensure`.

        Raises:
            Unavailable: it was still at it after 60 s.
        """
        with self._turn:
            self._started = False
            self._leave()
            if self._supervisor is None:
                return
            if self._supervisor.poll() is None:
                with self._running.leaving(time.monotonic() + USERS_SECONDS):
                    self._shut_down(self._supervisor)
            self._bury(self._supervisor)

    def _leave(self) -> None:
        if self._place is not None:
            os.close(self._place)
            self._place = None

    def _shut_down(self, supervisor: subprocess.Popen[bytes]) -> None:
        _let_go(supervisor)
        try:
            supervisor.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            raise Unavailable(
                f"PostgreSQL in {self._home.path} is still shutting down: wait for it, and see {self._home.log}"
            ) from None

    def _lives(self) -> bool:
        if self._supervisor is not None:
            return self._supervisor.poll() is None
        post = self._running.postmaster()
        return post is not None and post.answers()

    def _bring_up(self, account: Account, programs: Programs, deadline: float) -> str:
        if self._supervisor is not None and self._supervisor.poll() is not None:
            self._bury(self._supervisor)
        orphaned = time.monotonic() + ORPHANS_SECONDS
        trouble = "it did not answer"
        while time.monotonic() < deadline:
            if self._supervisor is None:
                self._start_unless_running(account, programs)
            elif self._supervisor.poll() is not None:
                self._bury(self._supervisor)
                raise ConfigurationError(f"PostgreSQL did not start ({self._last_words()}): see {self._home.log}")
            post = self._running.postmaster()
            if post is not None and post.ready and post.answers():
                trouble = programs.create_database(post)
                if not trouble:
                    return post.dsn(account)
            elif self._supervisor is None and time.monotonic() > orphaned:
                self._running.kill_orphans()
            time.sleep(POLL_SECONDS)
        raise Unavailable(
            f"PostgreSQL in {self._home.path} was not ready within {PATIENCE_SECONDS:.0f} s ({trouble}):"
            f" try again, and see {self._home.log}"
        )

    def _start_unless_running(self, account: Account, programs: Programs) -> None:
        claim = self._running.claim()
        if claim is None:
            return
        try:
            programs.make_cluster(durable=self._durable, lock=claim)
            self._home.write_access(account)
            sockets = self._home.sockets(account)
            self._running.clear(sockets)
            command = programs.server(sockets, durable=self._durable, conf=self._conf)
            become = [account.uid, account.gid] if account.switch else [-1, -1]
            leftover = "" if sockets == self._home.data else sockets
            log = self._home.open_log()
            self._log_start = os.fstat(log).st_size
            try:
                self._supervisor = subprocess.Popen(  # noqa: S603 - our own script, no shell
                    [sys.executable, "-I", "-S", SUPERVISOR, *map(str, become), leftover, *command],
                    stdin=subprocess.PIPE,
                    stdout=log,
                    stderr=log,
                    cwd="/",
                    pass_fds=(claim,),
                    start_new_session=True,  # the terminal's Ctrl-C is for the owner
                )
            finally:
                os.close(log)
        finally:
            os.close(claim)  # the server has it now

    def _bury(self, supervisor: subprocess.Popen[bytes]) -> None:
        _let_go(supervisor)
        self._supervisor = None

    def _last_words(self) -> str:
        return reason(self._home.log.read_bytes()[self._log_start :].decode(errors="replace"))

    @contextmanager
    def _system_errors(self) -> Iterator[None]:
        """Say what the system refused, and what to do about it."""
        try:
            yield
        except subprocess.TimeoutExpired as error:
            raise Unavailable(
                f"PostgreSQL in {self._home.path} is too slow (nothing from {Path(error.cmd[0]).name} within"
                f" {error.timeout:.0f} s): try again, and see {self._home.log}"
            ) from error
        except OSError as error:
            what = f"{error.strerror or error}" + (f": {error.filename}" if error.filename else "")
            raise ConfigurationError(
                f"cannot run a private PostgreSQL in {self._home.path} ({what}):"
                f" set TIDINGS_HOME to a folder of your own, or {OTHERWISE}"
            ) from error


def _let_go(supervisor: subprocess.Popen[bytes]) -> None:
    """Close the owner's end of the pipe."""
    if supervisor.stdin is not None:
        supervisor.stdin.close()
