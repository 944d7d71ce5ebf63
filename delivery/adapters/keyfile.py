"""The key that seals secrets, kept in the state folder beside the embedded database."""

from __future__ import annotations

import fcntl
import logging
import os
import threading
from collections.abc import Iterable
from pathlib import Path

from delivery.errors import ConfigurationError
from delivery.sealing import KeyEncryptionKey

log = logging.getLogger("tidings.keys")

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


def keys_of(given: str | None, home: Path | None) -> list[KeyEncryptionKey]:
    """Return the keys that are given, separated by commas, or else those of a state folder, made where there are none.

    Raises:
        ConfigurationError: there are none, or one of them is none.
    """
    if given is not None:
        return [KeyEncryptionKey.parse(text) for text in given.replace(",", " ").split()]
    if home is None:
        raise ConfigurationError(
            "no key to seal signing secrets with: make one with `tidings keys generate` and set it as TIDINGS_KEYS"
        )
    keys, made = read_or_make(home)
    if made:
        log.info("made a key that seals signing secrets: %s (keep it: without it they cannot be opened)", home / NAME)
    return keys


def add(home: Path | None) -> KeyEncryptionKey:
    """Put a new key in front of the others of a state folder, and return it.

    Raises:
        ConfigurationError: there is no folder, or the file cannot be read or written, or holds something else.
    """
    if home is None:
        raise ConfigurationError(
            "the keys are given as TIDINGS_KEYS: make one with `tidings keys generate`, put it there in front of the"
            " others, with a comma, for every process, and only then rotate"
        )
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
