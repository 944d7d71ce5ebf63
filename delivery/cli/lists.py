"""Print lists: read page by page, as a table, a JSON list or JSON lines."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from delivery.cli.output import Form, write_json, write_table

T = TypeVar("T")

#: Rows a query.
PAGE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing(Generic[T]):
    """How things of one sort are listed."""

    headings: tuple[str, ...]
    row: Callable[[T], Sequence[object]]  #: the cells under the headings
    document: Callable[[T], dict[str, Any]]
    empty: str  #: what people read where there are none

    def with_owner(self, owner: Callable[[T], str | None]) -> Listing[T]:
        """Return it with a column that says whose each thing is."""
        row = self.row
        return replace(self, headings=("Owner", *self.headings), row=lambda each: (owner(each), *row(each)))

    def write(self, things: Sequence[T], form: Form) -> None:
        """Print a list that is here."""
        match form:
            case Form.PEOPLE:
                write_table(self.headings, [self.row(each) for each in things], empty=self.empty)
            case Form.JSON:
                write_json([self.document(each) for each in things])
            case Form.JSONL:
                for each in things:
                    write_json(self.document(each), form)

    async def write_pages(self, pages: AsyncIterator[Sequence[T]], form: Form) -> None:
        """Print a list that is still read; JSON lines appear as they come."""
        if form is Form.JSONL:
            async for page in pages:
                self.write(page, form)
        else:
            self.write([each async for page in pages for each in page], form)


async def pages(
    read: Callable[[int, Any], Awaitable[Sequence[T]]], *, limit: int, start: Any, key: Callable[[T], Any]
) -> AsyncIterator[Sequence[T]]:
    """Read up to `limit` things; `read` takes how many and the key of the last one seen."""
    last = start
    while limit > 0:
        wanted = min(limit, PAGE)
        page = await read(wanted, last)
        if page:
            yield page
        if len(page) < wanted:
            return
        limit, last = limit - wanted, key(page[-1])
