"""Ask before what no later command brings back. Where nobody can be asked, nothing is done without --yes.

What can be taken back does not ask: a cancelled delivery is sent by `deliveries retry`, a disabled endpoint goes on
by `endpoints enable`.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from delivery.cli.failures import Failed
from delivery.cli.output import shown

Command = Callable[..., None]


class Consent:
    """Whether somebody agrees."""

    def __init__(self, *, given: bool) -> None:
        self.is_given = given

    def require(self) -> None:
        """See that it is given, or can be asked for, before anything is begun.

        Raises:
            UsageError: it is not given, and there is no terminal to ask on.
        """
        if not self.is_given and not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise click.UsageError("this cannot be undone, and there is no terminal to ask on: give --yes")

    def ask(self, question: str) -> None:
        """Ask, beside what is printed for programs.

        Raises:
            Failed: the answer is no.
        """
        if not self.is_given and not _confirmed(question):
            raise Failed("nothing was changed")


def _confirmed(question: str) -> bool:
    """Ask; Ctrl-C ends it by an exception, which leaves the terminal as it was."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return click.confirm(shown(question), err=True)
    finally:
        signal.signal(signal.SIGINT, before)


def destructive(command: Command) -> Command:
    """Add --yes; the command takes `consent`, requires it first, and asks once it knows what would go."""

    @click.option("--yes", is_flag=True, help="Do not ask. Needed where there is no terminal.")
    @wraps(command)
    def with_consent(*args: Any, yes: bool, **given: Any) -> None:
        command(*args, consent=Consent(given=yes), **given)

    return with_consent
