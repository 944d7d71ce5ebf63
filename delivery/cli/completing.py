"""What is in the database, for a shell that completes a word: at once, or not at all, and never with an error.

Asked between two key strokes, so nothing is started, made or migrated for it: of the embedded database only one on
which `tidings up` runs is asked.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import re
import signal
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any
from uuid import UUID

import click
from click.shell_completion import CompletionItem

from delivery.cli.output import shown
from delivery.cli.session import Session

if TYPE_CHECKING:
    from delivery.app import App

#: After so long there is nothing to choose from, in seconds.
WITHIN_S = 2.0
#: Things to choose from.
MOST, NEWEST = 50, 20

#: An id or a word, and what it is.
Choice = tuple[str, str]
Look = Callable[["App", str | None, str], Awaitable[Sequence[Choice]]]


def endpoints(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the id of an endpoint that is not removed."""
    return _items(ctx, incomplete, _endpoints)


def events(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the id of an event; where nothing is typed yet, one of the newest."""
    return _items(ctx, incomplete, _events)


def event_types(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the type of an event."""
    return _items(ctx, incomplete, _event_types)


def policies(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the name of a retry policy: those that are built in also where the database does not answer."""
    from subscriptions.policies import POLICIES

    built_in = [CompletionItem(name) for name in POLICIES if name.startswith(incomplete)]
    return [*built_in, *_items(ctx, incomplete, _policies)]


def own_policies(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the name of a retry policy that is not built in."""
    return _items(ctx, incomplete, _policies)


async def _endpoints(app: App, owner_id: str | None, incomplete: str) -> Sequence[Choice]:
    first, last = _range(incomplete)
    found = await app.endpoints.between(owner_id, first, last, limit=MOST)
    return [(str(endpoint_id), what) for endpoint_id, what in found if not what.endswith(", removed")]


async def _events(app: App, owner_id: str | None, incomplete: str) -> Sequence[Choice]:
    if not incomplete:
        from delivery.events import EventFilter

        newest = await app.events.list(EventFilter(owner_id=owner_id), limit=NEWEST)
        return [(str(event.id), f"{event.type} {event.subject or ''}") for event, _ in newest]
    first, last = _range(incomplete)
    return [(str(event_id), what) for event_id, what in await app.events.between(owner_id, first, last, limit=MOST)]


async def _policies(app: App, _owner_id: str | None, incomplete: str) -> Sequence[Choice]:
    from subscriptions.policies import POLICIES

    found = [each.policy for each in await app.policies.list() if each.policy.name not in POLICIES]
    return [(each.name, f"{each.max_attempts} attempts") for each in found if each.name.startswith(incomplete)]


async def _event_types(app: App, _owner_id: str | None, incomplete: str) -> Sequence[Choice]:
    declared = [each for each in await app.event_types.list() if each.type.startswith(incomplete)]
    return [(each.type, each.description or each.exposure.value) for each in declared]


def _range(incomplete: str) -> tuple[UUID, UUID]:
    digits = incomplete.lower().replace("-", "")
    if not re.fullmatch("[0-9a-f]{0,32}", digits, re.ASCII):
        raise ValueError("no id begins so")
    return UUID(digits.ljust(32, "0")), UUID(digits.ljust(32, "f"))


def _items(ctx: click.Context, incomplete: str, look: Look) -> list[CompletionItem]:
    session = Session().having(database_url=_given(ctx, "dsn"), home=_given(ctx, "home"), owner=_given(ctx, "owner"))

    async def work() -> Sequence[Choice]:
        from delivery.app import open_app

        async with open_app(session.settings) as app:
            return await look(app, None if _given(ctx, "any_owner") else session.owner, incomplete)

    with _quiet_and_quick():
        try:
            if session.settings.dsn is None and not _runs(session.settings.home):
                return []
            return [CompletionItem(value, help=shown(what).strip()) for value, what in asyncio.run(work())]
        except Exception:  # whatever it is, a person who types a command is not told of it here
            return []


def _given(ctx: click.Context | None, name: str) -> Any:
    """Return what was given for an option, to this command or one above it."""
    while ctx is not None:
        if ctx.params.get(name):
            return ctx.params[name]
        ctx = ctx.parent
    return None


def _runs(home: Path) -> bool:
    """Say whether a `tidings up` runs on a state folder: it holds a lock."""
    from delivery.cli.loops import LOCK

    try:
        lock = os.open(home / LOCK, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


@contextmanager
def _quiet_and_quick() -> Iterator[None]:
    """Log nothing, and end the process where it takes too long: it is there for one completion."""

    def leave(_number: int, _frame: FrameType | None) -> None:
        os._exit(0)

    before = signal.signal(signal.SIGALRM, leave)
    signal.setitimer(signal.ITIMER_REAL, WITHIN_S)
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
