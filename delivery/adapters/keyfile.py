"""The key that seals secrets, kept in the state folder beside the embedded database."""

from __future__ import annotations

import os
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


def _make(path: Path) -> bool:
    """Write a new key, whole or not at all; False where there is one."""
    if path.exists():
        return False
    draft = path.with_name(f".{NAME}.{os.getpid()}")
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="ascii") as file:
        file.write(KeyEncryptionKey.generate().reveal() + "\n")
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(draft, path)  # never over a key that another process made meanwhile
    except FileExistsError:
        return False
    finally:
        draft.unlink()
    return True
