"""A PostgreSQL of its own that may be killed, locked for writing, and left without disk."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

import migrations
from delivery import Unavailable
from delivery.adapters.embedded import EmbeddedPostgres
from tests.journeys.patience import eventually

#: What the log may take is what has to fit on the small disk.
CONF = ("shared_buffers=16MB", "min_wal_size=32MB", "max_wal_size=64MB")
DISK_MB = 400


class Cluster:
    """A server on `home`; what it commits synchronously survives its kill."""

    def __init__(self, home: Path, connections: int = 100) -> None:
        self._home = home
        self._postgres = EmbeddedPostgres(home, durable=False, conf=(*CONF, f"max_connections={connections}"))
        self.dsn = ""

    def start(self) -> None:
        """Start it, migrated."""
        self.dsn = self._postgres.start()
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            migrations.apply(connection)

    def stop(self) -> None:
        """Stop it for good."""
        self._postgres.stop()

    def kill(self) -> float:
        """SIGKILL the postmaster and every process of its; returns when."""
        pid = int((self._home / "pg18/postmaster.pid").read_text().splitlines()[0])
        since = time.time()
        children = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=True)
        for each in (pid, *map(int, children.stdout.split())):
            try:
                os.kill(each, signal.SIGKILL)
            except ProcessLookupError:
                continue
        return since

    async def is_up(self) -> None:
        """Start it again where it is down, and wait until it answers."""

        async def answers() -> bool:
            try:
                await asyncio.to_thread(self._postgres.ensure)
                async with await psycopg.AsyncConnection.connect(self.dsn, connect_timeout=10):
                    return True
            except (Unavailable, psycopg.OperationalError):
                return False

        await eventually(answers, 120)

    def read_only(self, on: bool) -> None:
        """Refuse, or take, what writes; every session that stands goes by it from its next transaction on."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute(f"ALTER SYSTEM SET default_transaction_read_only = {'on' if on else 'off'}")
            connection.execute("SELECT pg_reload_conf()")

    def fill(self) -> float:
        """Shrink the file system to what is used of it; returns when."""
        since = time.time()
        for more_kb in (64, 128, 256, 512, 1024, 4096, 16_384, 65_536):
            used = shutil.disk_usage(self._home).used
            try:
                remount(self._home, f"{used // 1024 + more_kb}k")
            except OSError:  # more was written meanwhile
                continue
            return since
        raise OSError("the file system grew faster than it could be shrunk")

    def make_room(self) -> None:
        """Give the file system its size again."""
        remount(self._home, f"{DISK_MB}m")


@contextmanager
def cluster(connections: int = 100) -> Iterator[Cluster]:
    """Run a server on a throw-away folder."""
    home = Path(tempfile.mkdtemp(prefix="tidings-faults-"))
    home.chmod(0o711)
    server = Cluster(home, connections)
    try:
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(home, ignore_errors=True)


@contextmanager
def small_disk_cluster() -> Iterator[Cluster]:
    """Run a server on a small file system, which is unmounted whatever happens.

    Raises:
        PermissionError: this account may not mount one.
    """
    home = Path(tempfile.mkdtemp(prefix="tidings-faults-disk-"))
    try:
        mounted = _mount("-t", "tmpfs", "-o", f"size={DISK_MB}m,mode=0711", "tmpfs", str(home))
        if mounted.returncode:
            raise PermissionError(mounted.stderr.strip())
        server = Cluster(home)
        try:
            server.start()
            yield server
        finally:
            make_room_and_stop(server, home)
    finally:
        home.rmdir()


def make_room_and_stop(server: Cluster, home: Path) -> None:
    """Stop the server, then unmount what it stood on."""
    try:
        server.make_room()
        server.stop()
    finally:
        subprocess.run(["umount", "--lazy", str(home)], check=True, capture_output=True)


def remount(home: Path, size: str) -> None:
    """Change the size of a file system."""
    done = _mount("-o", f"remount,size={size}", str(home))
    if done.returncode:
        raise OSError(done.stderr.strip())


def _mount(*arguments: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(["mount", *arguments], capture_output=True, text=True)
    except FileNotFoundError as error:
        raise PermissionError(str(error)) from error
