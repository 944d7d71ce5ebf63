"""Commands that are named in what is printed: they get the options that this one was given, so that they can be copied.

Whoever writes a message need not know how the platform was reached: `tidings deliveries show 17` becomes
`tidings deliveries show 17 --owner acme` on its way out. What the environment says holds in the same shell anyhow.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from contextvars import ContextVar, Token
from typing import Any

#: The options by the setting that they give.
_OPTIONS = {"owner": "--owner", "home": "--home", "database_url": "--dsn"}
#: Commands that take --owner; and those that take neither --home nor --dsn.
_OWNED = {"endpoints", "subscriptions", "events", "deliveries", "replays", "jobs"}
_BARE = {"keys", "listen", "demo", "completion"}
_COMMAND = re.compile(r"`tidings ([a-z-]+)([^`]*)`")
#: What a connection string with a password is printed as.
_PLACEHOLDER = "DSN"

_given: ContextVar[Mapping[str, Any]] = ContextVar("given", default={})  # noqa: B039 - never changed in place


def repeat(given: Mapping[str, Any]) -> Token[Mapping[str, Any]]:
    """Let commands that are named from now on repeat what was given to this one."""
    return _given.set(given)


def forget(token: Token[Mapping[str, Any]]) -> None:
    """Undo a `repeat`."""
    _given.reset(token)


def complete(text: str) -> str:
    """Return the text with the options of this command added to each command in it; a repeat adds nothing."""
    given = _given.get()
    return _COMMAND.sub(lambda found: _completed(found, given), text) if given else text


def _completed(found: re.Match[str], given: Mapping[str, Any]) -> str:
    name, rest = found.groups()
    for setting, option in _OPTIONS.items():
        value = given.get(setting)
        if value is None or name in _BARE or option in rest:
            continue
        if setting == "owner" and (name not in _OWNED or "--any-owner" in rest):
            continue
        rest += f" {option} {_written(setting, str(value))}"
    return f"`tidings {name}{rest}`"


def _written(setting: str, value: str) -> str:
    """Write a value as a shell reads it; of a connection string that may hold a password, nothing."""
    if setting == "database_url" and re.search(r"password|passfile|:[^/@]*@", value, re.IGNORECASE):
        return _PLACEHOLDER
    return shlex.quote(value)
