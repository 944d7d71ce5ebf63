"""Is a server alive on the data, may I start one, and what did a dead one leave behind?

::

    home/lock     locked while somebody starts, attaches, or stops the server
    home/running  locked for as long as any process of the server lives
    home/users    locked, shared, by each who started or attached, until it stops

Why: the server inherits `running` locked, and so does every process it forks. The kernel unlocks it when
the last of them is gone, so "may I start on this data?" has an exact answer after any crash, whatever pid a
stale `postmaster.pid` names and whoever carries that pid now. In the same way it unlocks `users` for one that
was killed, so the owner knows whom it would cut off. A place among the users is only taken under `lock`.
"""

import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from delivery.adapters.embedded.account import Account
from delivery.adapters.embedded.home import ROLE, Home
from delivery.errors import Unavailable

if sys.platform != "win32":  # which has no such locks; `Home.open` says so in words
    import fcntl

#: Seconds between two looks at something that will happen soon.
POLL_SECONDS = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Postmaster:
    """What `postmaster.pid` says; to be believed only while the server answers."""

    pid: int
    sockets: str
    port: int
    ready: bool

    def answers(self) -> bool:
        """Say whether somebody listens at the socket."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.setblocking(False)
            try:
                probe.connect(f"{self.sockets}/.s.PGSQL.{self.port}")
            except BlockingIOError:  # so many wait that there is no room for one more
                return True
            except OSError:
                return False
            return True

    def dsn(self, server: Account) -> str:
        """Name the platform's database; the client turns away from a socket that another account serves."""
        sockets, name = quote(os.fsencode(self.sockets), safe=""), quote(server.name, safe="")
        return f"postgresql://{ROLE}@/{ROLE}?host={sockets}&port={self.port}&requirepeer={name}"


class Running:
    """The server on `home`, whoever started it."""

    def __init__(self, home: Home) -> None:
        self._home = home

    @contextmanager
    def starting(self, deadline: float) -> Iterator[None]:
        """Be the only one who starts, attaches or stops; waits its turn until `deadline` (monotonic seconds).

        Raises:
            Unavailable: others were at it all the time.
        """
        lock = self._home.file("lock", os.O_RDWR)
        try:
            if not _locked_by(deadline, lock):
                raise Unavailable(
                    f"another process is still starting or stopping PostgreSQL in {self._home.path}:"
                    f" try again, and see {self._home.log}"
                )
            yield
        finally:
            os.close(lock)

    def join(self, deadline: float) -> int:
        """Become a user, for as long as the returned descriptor is open. For one who is `starting` only.

        Raises:
            Unavailable: somebody who is no starter keeps all users out.
        """
        place = self._home.file("users", os.O_RDWR)
        if _locked_by(deadline, place, shared=True):
            return place
        os.close(place)
        raise Unavailable(f"another process keeps {self._home.path / 'users'} locked: end it, and try again")

    @contextmanager
    def leaving(self, deadline: float) -> Iterator[None]:
        """Keep starters waiting, and wait for the last user to leave; after `deadline` go on all the same.

        Whoever calls this has left already. A folder that is gone keeps nobody.
        """
        held: list[int] = []
        try:
            with suppress(OSError):
                for name in ("lock", "users"):
                    held.append(self._home.file(name, os.O_RDWR))
                    _locked_by(deadline, held[-1])
            yield
        finally:
            for each in held:
                os.close(each)

    def claim(self) -> int | None:
        """Get the right to run a server, as a locked descriptor to hand down; None while one is alive."""
        lock = self._home.file("running", os.O_RDWR)
        if _locked(lock) and not self._processes():
            return lock
        os.close(lock)
        return None

    def postmaster(self) -> Postmaster | None:
        """Read `postmaster.pid`; None while there is none, or only a part of it."""
        try:
            lines = os.fsdecode((self._home.data / "postmaster.pid").read_bytes()).split("\n")
        except FileNotFoundError:
            return None
        if len(lines) < 5 or not (lines[0].isdecimal() and lines[3].isdecimal()):
            return None
        ready = len(lines) > 7 and lines[7].strip() == "ready"
        return Postmaster(pid=int(lines[0]), sockets=lines[4], port=int(lines[3]), ready=ready)

    def clear(self, sockets: Path) -> None:
        """Remove what a dead server left, whatever pid it names. For the holder of the claim only."""
        (self._home.data / "postmaster.pid").unlink(missing_ok=True)
        for stale in sockets.glob(".s.PGSQL.*"):
            stale.unlink(missing_ok=True)

    def kill_orphans(self) -> None:
        """Kill what a dead postmaster left running; does nothing while the postmaster lives.

        Such processes notice by themselves, but not before the end of a long computation. What they had
        committed is safe. On systems without /proc there is nothing but to wait for them.
        """
        post, processes = self.postmaster(), self._processes()
        if post is None or post.pid in processes:
            return
        for pid in processes:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _processes(self) -> set[int]:
        """List PostgreSQL's processes at work in the data folder, ours or started by hand (Linux)."""
        found: set[int] = set()
        for process in Path("/proc").glob("[0-9]*") if sys.platform == "linux" else ():
            with suppress(OSError):  # gone, or not ours to look at
                if (process / "comm").read_text() == "postgres\n" and (process / "cwd").samefile(self._home.data):
                    found.add(int(process.name))
        return found


def _locked(descriptor: int, *, shared: bool = False) -> bool:
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _locked_by(deadline: float, descriptor: int, *, shared: bool = False) -> bool:
    while not _locked(descriptor, shared=shared):
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True
