"""What a command runs in: the settings, the open app, one event loop."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, overload
from uuid import UUID

from delivery.cli.ids import Id, whole
from delivery.cli.logs import note
from delivery.cli.signals import Stop

if TYPE_CHECKING:
    from delivery.app import App
    from delivery.settings import Settings

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Session:
    """What was given on the command line, and what follows from it. Nothing is opened before `run`."""

    given: dict[str, Any] = field(default_factory=dict, repr=False)  #: settings by name; these win
    any_owner: bool = False  #: the command speaks of the things of all owners
    tells_new: bool = True  #: say where a database was made on the way; `up` is there to make one

    def having(self, **given: Any) -> Session:
        """Return a session with more given; None is as if it were not given."""
        return replace(self, given=self.given | {name: value for name, value in given.items() if value is not None})

    @cached_property
    def settings(self) -> Settings:
        """Read the settings.

        Raises:
            ConfigurationError: a value is refused.
        """
        from delivery.settings import read_settings

        return read_settings(**self.given)

    @property
    def owner(self) -> str:
        """Return whose things the command speaks of."""
        return self.settings.owner

    @overload
    def run(self, work: Callable[[App], Awaitable[T]], *, stopping: Callable[[], None] | None = None) -> T: ...
    @overload
    def run(self, work: Callable[[App, UUID], Awaitable[T]], given: Id, /) -> T: ...
    @overload
    def run(self, work: Callable[[App, UUID | None], Awaitable[T]], given: Id | None, /) -> T: ...
    def run(self, work: Callable[..., Awaitable[T]], *ids: Id | None, stopping: Callable[[], None] | None = None) -> T:
        """Open the app, do the work on it and close it; an id that is given is made whole first.

        Raises:
            NotFound, InvalidInput: the id was given by its beginning, and none or several begin so.
            Stopped: a signal came; what the work had done stays done.
        """
        return self.run_bare(self._opened(work, ids), stopping=stopping)

    def run_bare(self, work: Coroutine[Any, Any, T], *, stopping: Callable[[], None] | None = None) -> T:
        """Do work that needs no open app."""
        with Stop(stopping) as stop:
            return stop.run(work)

    async def _opened(self, work: Callable[..., Awaitable[T]], ids: Sequence[Id | None]) -> T:
        from delivery.app import open_app

        is_new = self.makes_database
        async with open_app(self.settings) as app:
            if is_new and self.tells_new:
                note(told_new(self.settings.home))
            owner_id = None if self.any_owner else self.owner
            return await work(app, *[None if each is None else await whole(app, each, owner_id) for each in ids])

    @property
    def makes_database(self) -> bool:
        """Say whether opening the app would make a new embedded database."""
        return self.settings.dsn is None and not any(self.settings.home.glob("pg*/"))


def told_new(home: Path) -> str:
    """Say that a database was made, to somebody who may have meant another one."""
    return f"made a new database in {home}: there was none (--home or TIDINGS_HOME names another folder)"


async def gathered(pages: AsyncIterator[T]) -> list[T]:
    """Collect what comes."""
    return [page async for page in pages]
