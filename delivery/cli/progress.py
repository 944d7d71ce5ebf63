"""A bar on standard error while something long runs, where there is a terminal to show it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self

from delivery.cli.failures import MEANT
from delivery.cli.output import write_note
from delivery.cli.signals import Stopped

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID


class Progress:
    """How far it is."""

    def __init__(self, what: str, *, visible: bool) -> None:
        """Show a bar where `visible`, there is anything to do, and standard error is a terminal."""
        self.total, self.done = 0, 0
        self._what, self._visible = what, visible
        self._bar: tuple[Bar, TaskID] | None = None

    def __enter__(self) -> Self:
        if self._visible and self.total and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import Progress as Bar

            bar = Bar(console=Console(stderr=True), transient=True)
            bar.start()
            self._bar = bar, bar.add_task(self._what, total=self.total)
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar[0].stop()

    def advance(self, number: int) -> None:
        """Say that so many more are done."""
        self.done += number
        if self._bar is not None:
            bar, task = self._bar
            bar.update(task, completed=self.done, total=max(self.total, self.done))

    @contextmanager
    def told_when_cut_short(self, what: str) -> Iterator[None]:
        """Say how far it came, where an error or a signal ends it."""
        try:
            yield
        except (Stopped, *MEANT):
            if self.done:
                write_note(f"{self.done} of {self.total} were {what}")
            raise
