"""Ids as a person gives them: whole, or how they begin.

Numbers (deliveries, jobs) are short, and the beginning of one is another one's whole: those are given whole.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING
from uuid import UUID

from delivery.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from delivery.app import App

#: Digits of an id, and the fewest that are taken for its beginning.
_DIGITS, _FEWEST = 32, 6
#: So many are named where several begin so.
_NAMED = 5

Find = Callable[..., Awaitable[Sequence[tuple[UUID, str]]]]


class Sort(StrEnum):
    """What has such an id."""

    ENDPOINT = "endpoint"
    EVENT = "event"


@dataclass(frozen=True, slots=True)
class Id:
    """An id as it was given. What comes before `first` or after `last` does not begin so."""

    sort: Sort
    text: str
    first: UUID
    last: UUID

    def exactly(self, found: UUID) -> Id:
        """Return the id that it was found to be."""
        return replace(self, first=found, last=found)


def read_id(sort: Sort, text: str) -> Id:
    """Read an id, or at least six digits of how one begins; hyphens and case do not matter.

    Raises:
        InvalidInput: it is neither.
    """
    digits = text.strip().lower().replace("-", "")
    if not re.fullmatch(rf"[0-9a-f]{{{_FEWEST},{_DIGITS}}}", digits, re.ASCII):
        raise InvalidInput(
            f"{text[:60]!r} is no id: endpoints and events have UUIDs, which `list` shows;"
            f" the first {_FEWEST} digits or more will do where no other begins so"
        )
    first, last = (UUID(digits.ljust(_DIGITS, filling)) for filling in "0f")
    return Id(sort, text.strip(), first, last)


async def whole(app: App, given: Id, owner_id: str | None) -> UUID:
    """Return the whole id; one that was given whole is not looked for. `owner_id` None looks among all owners'.

    Raises:
        NotFound: the owner has none that begins so.
        InvalidInput: it has several; the message names them.
    """
    if given.first == given.last:
        return given.first
    find: Find = app.endpoints.between if given.sort is Sort.ENDPOINT else app.events.between
    found = await find(owner_id, given.first, given.last, limit=_NAMED + 1)
    if len(found) == 1:
        return found[0][0]
    if not found:
        whose = "nobody" if owner_id is None else f"owner {owner_id!r}"
        has = "has an" if owner_id is None else "has no"
        raise NotFound(
            f"{whose} {has} {given.sort} whose id begins with {given.text}: `tidings {given.sort}s list` shows those"
            " that are there"
        )
    named = "; ".join(f"{found_id} ({what})" for found_id, what in found[:_NAMED])
    more = "; and more" if len(found) > _NAMED else ""
    raise InvalidInput(f"{given.text} begins the ids of several {given.sort}s, give more of one: {named}{more}")
