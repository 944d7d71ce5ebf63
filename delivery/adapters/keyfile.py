"""The key that seals secrets, kept in the state folder beside the embedded database."""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterable
from pathlib import Path

from delivery.errors import ConfigurationError
from delivery.sealing import KeyEncryptionKey

#: Name of the file in the state folder; one key a line, the first seals.
NAME = "keys"


def read_or_make(home: Path) -> tuple[list[KeyEncryptionKey], bool]:
    """Return the keys of a state folder, and whether one was made just now (mode 0600).

    Raises:
        ConfigurationError: the file cannot be read or made, or holds something else.
    """
    path = home / NAME
    try:
        made = _make(path)
        if path.stat().st_mode & 0o077:
            raise ConfigurationError(f"the key file {path} is open to others: `chmod 600 {path}`")
        lines = path.read_text("ascii").split()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise ConfigurationError(
            f"the key file {path} cannot be used ({reason}): repair it, or set TIDINGS_KEYS"
        ) from error
    if not lines:
        raise ConfigurationError(f"the key file {path} is empty: restore it, or remove it where nothing is sealed yet")
    return [KeyEncryptionKey.parse(line) for line in lines], made


def add(home: Path) -> KeyEncryptionKey:
    """Put a new key in front of the others of a state folder, and return it.

    Raises:
        ConfigurationError: the file cannot be read or written, or holds something else.
    """
    path = home / NAME
    while True:
        keys, _ = read_or_make(home)
        try:
            with path.open("rb") as standing:
                fcntl.flock(standing, fcntl.LOCK_EX)
                if os.fstat(standing.fileno()).st_ino != path.stat().st_ino:
                    continue  # another process put its own in front meanwhile
                keys, _ = read_or_make(home)
                new = KeyEncryptionKey.generate()
                _draft(path, [new, *keys]).rename(path)
                return new
        except OSError as error:
            raise ConfigurationError(f"the key file {path} cannot be written ({error.strerror}): repair it") from error


def _make(path: Path) -> bool:
    """Write a new key, whole or not at all; False where there is one."""
    if path.exists():
        return False
    draft = _draft(path, [KeyEncryptionKey.generate()])
    try:
        os.link(draft, path)  # never over a key that another process made meanwhile
    except FileExistsError:
        return False
    finally:
        draft.unlink()
    return True


def _draft(path: Path, keys: Iterable[KeyEncryptionKey]) -> Path:
    draft = path.with_name(f".{NAME}.{os.getpid()}.{threading.get_ident()}")
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="ascii") as file:
        file.writelines(f"{key.reveal()}\n" for key in keys)
        file.flush()
        os.fsync(file.fileno())
    return draft
