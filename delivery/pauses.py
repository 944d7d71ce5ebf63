"""What a person has paused: a kind of jobs, an owner, or everything (port)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol

#: The platform's own upkeep goes on while everything is paused: these kinds begin so.
OWN = "tidings."


class Scope(StrEnum):
    """How much a pause holds."""

    ALL = "all"  # every kind but the platform's own upkeep
    KIND = "kind"
    OWNER = "owner"


@dataclass(frozen=True, slots=True, kw_only=True)
class Paused:
    """What is paused: each at most once."""

    scope: Scope
    name: str = ""  #: of the kind, or the owner's id; hostile

    def __str__(self) -> str:
        """Say it in words."""
        match self.scope:
            case Scope.ALL:
                return "everything"
            case Scope.KIND:
                return f"the kind {self.name}"
            case Scope.OWNER:
                return f"owner {self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """One pause that stands."""

    what: Paused
    by: str
    reason: str | None
    at: datetime


class Pauses(Protocol):
    """Pause and resume, kept and heard of by every worker."""

    async def pause(self, what: Paused, *, by: str, reason: str | None) -> Pause:
        """Start no job of it from now on; one that is paused already stays as it is, and is returned.

        What runs ends as it will. A worker that cannot be told looks within its poll.

        Raises:
            Unavailable: the engine did not answer.
        """

    async def resume(self, what: Paused, *, by: str, reason: str | None) -> Pause | None:
        """Let its jobs go on; returns the pause that ended, None where there was none.

        Raises:
            Unavailable: the engine did not answer.
        """

    async def list(self) -> Sequence[Pause]:
        """List the pauses that stand, the oldest first."""
