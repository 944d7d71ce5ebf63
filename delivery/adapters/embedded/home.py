"""The state folder of a private PostgreSQL: whose it is, what it holds, its socket, who may connect.

::

    home/pg18             the cluster; it gets this name only when it is complete
    home/pg18.new         a cluster being made; one that nobody is making is wiped
    home/postgres.log     the server's log; an older part of it in postgres.log.1
    home/pg_hba.conf      who may connect, with pg_ident.conf; written at every start
    home/sockets          names the short folder of the socket, when the path of pg18 is not fit for one
    home/postgres-18.6.3  a copy of the programs, when the server's account cannot reach the installed ones
    home/lock             see running.py
    home/running          see running.py
    home/users            see running.py
"""

import os
import re
import stat
import sys
import tempfile
from pathlib import Path

from delivery.adapters.embedded.account import OTHERWISE, Account
from delivery.errors import ConfigurationError

#: The one major version that a state folder of this release holds.
MAJOR = "18"

#: Role and database of the platform.
ROLE = "tidings"

#: Bytes that fit in a socket's address on every supported system (Linux takes 107, macOS 103).
SOCKET_PATH_BYTES = 103

#: A log above this many bytes is put aside at the next start.
LOG_BYTES = 16 * 1024 * 1024


class Home:
    """The state folder at `path`. Nothing is touched before `open`."""

    def __init__(self, path: Path) -> None:
        self.path = Path(os.path.realpath(path))
        self.data = self.path / f"pg{MAJOR}"
        self.log = self.path / "postgres.log"
        self.hba = self.path / "pg_hba.conf"
        self.ident = self.path / "pg_ident.conf"

    def open(self) -> Account:
        """Create the folder when it is missing, check what is in it, and name the server's account.

        New folders get mode 0700, or 0711 as root, since the server's account must pass through; the mode of
        existing ones is never changed.

        Raises:
            ConfigurationError: the folder, or what it holds, is not fit for that account.
            OSError: the system refused.
        """
        if sys.platform not in {"linux", "darwin"}:
            raise ConfigurationError(f"the private PostgreSQL runs on Linux and macOS only: {OTHERWISE}")
        if re.search(r"[\r\n]", str(self.path)):
            raise ConfigurationError(
                f"the path {str(self.path)!r} holds a line break, which PostgreSQL's programs refuse:"
                " set TIDINGS_HOME to another folder"
            )
        missing = [folder for folder in (self.path, *self.path.parents) if not folder.exists()]
        account = self._account()
        if account.switch:
            self._check_reach(account, missing[-1].parent if missing else self.path)
        for folder in reversed(missing):
            try:
                folder.mkdir()
            except FileExistsError:
                continue  # another starter was faster
            folder.chmod(0o711 if account.switch else 0o700)  # the umask cuts mkdir's own mode
        self._check_data(account)
        return account

    def _account(self) -> Account:
        """Choose ourselves; as root, whoever owns the data, or else the folder."""
        mine = os.geteuid()
        owners = (folder.stat().st_uid for folder in (self.data, self.path) if folder.exists())
        return Account.find(mine or next(owners, 0), switch=mine == 0)

    def _check_reach(self, account: Account, folder: Path) -> None:
        walk = 'for folder; do cd "$folder" || { echo "$folder"; exit 1; }; done'
        walked = account.run("/bin/sh", "-c", walk, "sh", *reversed(folder.parents), folder)
        if walked.returncode:
            raise ConfigurationError(
                f"when root starts PostgreSQL it runs as {account.name}, who cannot pass through"
                f" {walked.stdout.strip()}: set TIDINGS_HOME to a folder within its reach, as in /var/lib"
            )

    def _check_data(self, account: Account) -> None:
        others = sorted(f.name for f in self.path.iterdir() if re.fullmatch(r"pg\d+", f.name))
        if not self.data.exists():
            if others:
                raise ConfigurationError(
                    f"{self.path} holds {others[-1]}, but this release runs PostgreSQL {MAJOR}: dump it with"
                    " the release that made it and load it here, or set TIDINGS_HOME to another folder"
                )
            return
        owner = self.data.stat().st_uid
        if owner != account.uid:
            raise ConfigurationError(
                f"{self.data} belongs to user id {owner}: run as that user,"
                f" or set TIDINGS_HOME to a folder of {account.name}"
            )
        marker = self.data / "PG_VERSION"
        version = marker.read_text().strip() if marker.exists() else "none"
        if version != MAJOR:
            raise ConfigurationError(
                f"{self.data} is no data folder of PostgreSQL {MAJOR} (version found: {version}):"
                " move it away, or set TIDINGS_HOME to another folder"
            )

    def file(self, name: str, flags: int) -> int:
        """Open a file of ours, or make it; a link put in its place is not followed.

        Root makes it for the folder's owner. Others keep it: the folder may be theirs to write and not to own.
        """
        path, flags = self.path / name, flags | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            made = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            return os.open(path, flags)
        owner = self.path.stat()
        if os.geteuid() == 0 and owner.st_uid != 0:
            os.fchown(made, owner.st_uid, owner.st_gid)
        return made

    def open_log(self) -> int:
        """Open the log for appending, after putting a large one aside."""
        if self.log.exists() and self.log.stat().st_size > LOG_BYTES:
            self.log.replace(self.log.with_suffix(".log.1"))
        return self.file(self.log.name, os.O_WRONLY | os.O_APPEND)

    def write_access(self, account: Account) -> None:
        """Let in the server's account and root, over the socket, and nobody else.

        As any role: an application's own role must be able to try what it was granted, and a superuser can
        become any role anyway.
        """
        self._write(self.hba, f"local all all peer map={ROLE}\n")
        self._write(self.ident, "".join(f'{ROLE} "{name}" all\n' for name in account.admitted()))

    def sockets(self, account: Account) -> Path:
        """Choose the folder of the socket: the data folder, or a short one when its path is not fit for a socket.

        The short one keeps its name, so that the DSN of a process that attached is good after a takeover; it
        gets another only when somebody else sits on that name.
        """
        if _fits(self.data):
            return self.data
        record = self.path / "sockets"
        if record.exists():
            folder = Path(record.read_text())
            if _make_private(folder, account):
                return folder
        # Not the caller's TMPDIR, which may be long itself, or closed to the server's account.
        folder = Path(tempfile.mkdtemp(prefix="tidings-", dir="/tmp"))
        account.own(folder)
        self._write(record, str(folder))
        return folder

    def _write(self, path: Path, text: str) -> None:
        """Replace a file whole; the server's account can read it."""
        descriptor, name = tempfile.mkstemp(dir=self.path)
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
            os.fchmod(descriptor, 0o644)
        Path(name).replace(path)


def _fits(folder: Path) -> bool:
    """Say whether a socket in the folder can be named: briefly enough, in UTF-8, and as one host to libpq."""
    name = os.fsencode(folder / ".s.PGSQL.5432")
    try:
        return len(name) <= SOCKET_PATH_BYTES and "," not in name.decode()
    except UnicodeDecodeError:
        return False


def _make_private(folder: Path, account: Account) -> bool:
    """Make a folder that only the account can use, or say whether the one that is there is such."""
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        there = folder.lstat()
        return stat.S_ISDIR(there.st_mode) and there.st_uid == account.uid and not there.st_mode & 0o077
    account.own(folder)
    return True
