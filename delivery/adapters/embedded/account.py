"""The system account that the server runs as. PostgreSQL refuses to run as root."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from delivery.adapters.embedded.supervisor import ENVIRONMENT
from delivery.errors import ConfigurationError

if sys.platform != "win32":  # which has no such list; `Home.open` says so in words
    import pwd

#: What to do when there can be no private server.
OTHERWISE = "give a database with --dsn / TIDINGS_DATABASE_URL"

#: Seconds that a program may run.
PROGRAM_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """An account, and whether we are root and have to become it."""

    name: str
    uid: int
    gid: int
    switch: bool

    @classmethod
    def find(cls, uid: int, *, switch: bool) -> Self:
        """Look the account up; `nobody` stands in for root.

        Raises:
            ConfigurationError: the system's list does not have it, and PostgreSQL would ask.
        """
        try:
            entry = pwd.getpwuid(uid) if uid else pwd.getpwnam("nobody")
        except KeyError:
            who = f"user id {uid}" if uid else "the account nobody"
            raise ConfigurationError(
                f"PostgreSQL needs {who} in the system's list of accounts: add it there, or {OTHERWISE}"
            ) from None
        return cls(name=entry.pw_name, uid=entry.pw_uid, gid=entry.pw_gid, switch=switch)

    def own(self, path: Path) -> None:
        """Take what was just made: as root we hand it over, and otherwise it is this account's already."""
        if self.switch:
            os.chown(path, self.uid, self.gid)

    def admitted(self) -> list[str]:
        """Name the accounts that may connect: this one, and root, who could become it anyway."""
        return sorted({self.name, *(entry.pw_name for entry in pwd.getpwall() if entry.pw_uid == 0)})

    def run(self, *command: str | Path, given: str = "", lock: int | None = None) -> subprocess.CompletedProcess[str]:
        """Run a program as this account to its end; the outcome is the caller's to judge.

        `given` is its input; `lock` a descriptor that it and its children keep open.

        Raises:
            OSError: it cannot be run.
            subprocess.TimeoutExpired: it took over 60 s.
        """
        identity: dict[str, Any] = {"user": self.uid, "group": self.gid, "extra_groups": []} if self.switch else {}
        return subprocess.run(  # noqa: S603 - absolute paths, no shell
            command,
            input=given,
            capture_output=True,
            text=True,
            errors="replace",
            cwd="/",
            env=ENVIRONMENT,
            pass_fds=() if lock is None else (lock,),
            timeout=PROGRAM_SECONDS,
            **identity,
        )
