"""Pause a kind of jobs, an owner or everything, and resume it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from delivery.errors import InvalidInput, NotFound
from delivery.pauses import Pause, Paused, Pauses, Scope

#: The longest name of who does it, and reason, in characters.
MAX_BY, MAX_REASON = 128, 500
_OWNER = re.compile(r"[!-~]{1,128}")


class PauseDesk:
    """What an operator pauses. It is kept, with who, when and why, until it is resumed."""

    def __init__(self, pauses: Pauses, knows: Callable[[str], bool], kinds: Sequence[str]) -> None:
        """`knows` says whether a name can be that of a kind; `kinds` are those that this process runs."""
        self._pauses, self._knows, self._kinds = pauses, knows, kinds

    async def pause(self, what: Paused, *, by: str, reason: str | None = None) -> Pause:
        """Start no job of it from now on; what runs ends as it will. One that is paused already stays as it is.

        Raises:
            InvalidInput: there is no such kind, that cannot be an owner's id, or `by` or `reason` is no short line.
        """
        self._check(what, by, reason)
        return await self._pauses.pause(what, by=by, reason=reason)

    async def resume(self, what: Paused, *, by: str, reason: str | None = None) -> Pause:
        """Let it go on; returns the pause that ended. Another one that holds the same jobs stands.

        Raises:
            InvalidInput: as `pause`.
            NotFound: it is not paused.
        """
        self._check(what, by, reason, is_new=False)
        ended = await self._pauses.resume(what, by=by, reason=reason)
        if ended is None:
            raise NotFound(f"{what} is not paused: `tidings status` shows what is")
        return ended

    async def list(self) -> Sequence[Pause]:
        """List the pauses that stand, the oldest first."""
        return await self._pauses.list()

    def _check(self, what: Paused, by: str, reason: str | None, *, is_new: bool = True) -> None:
        _check_line("by", by, MAX_BY)
        if reason is not None:
            _check_line("reason", reason, MAX_REASON)
        if what.scope is Scope.OWNER and not _OWNER.fullmatch(what.name):
            raise InvalidInput("the owner's id is not usable: give 1 to 128 printable ASCII characters without spaces")
        if what.scope is Scope.KIND and is_new and not self._knows(what.name):
            raise InvalidInput(f"there is no kind {what.name[:60]!r}: use one of {', '.join(self._kinds)}")


def _check_line(what: str, text: str, longest: int) -> None:
    if not 1 <= len(text) <= longest or not text.isprintable() or text != text.strip():
        raise InvalidInput(f"{what!r} is not usable: give one line of 1 to {longest} characters, no space at its ends")
