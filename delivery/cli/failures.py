"""What an error becomes: one line on standard error that says what to do next, and an exit code.

0 = done, 1 = failed, 2 = used wrongly, 3 = `status --check` has alerts, 130 = Ctrl-C, 143 = SIGTERM.
"""

from __future__ import annotations

import click

from delivery.cli.signals import Stopped
from delivery.errors import TidingsError
from signing import WebhookError
from subscriptions.errors import SubscriptionError

FAILED, MISUSED, ALERTED, INTERRUPTED = 1, 2, 3, 130

#: Errors that were raised on purpose: their message is for the person.
MEANT = (TidingsError, SubscriptionError, WebhookError)


class Failed(TidingsError):
    """The command did what it could, and the answer is no."""


def exit_code(error: BaseException) -> int:
    """Return the exit code of a command that ended with this."""
    match error:
        case Stopped():
            return error.exit_code
        case KeyboardInterrupt() | click.Abort():
            return INTERRUPTED
        case click.ClickException():
            return error.exit_code
        case _:
            return FAILED


def line(error: BaseException) -> str | None:
    """Return the one line to print; None where there is nothing to say."""
    match error:
        case Stopped() | KeyboardInterrupt() | click.Abort() | BrokenPipeError():
            return None
        case click.UsageError(ctx=click.Context() as context):
            return f"{_flat(error.format_message()).rstrip('.')} (see `{context.command_path} --help`)"
        case click.ClickException():
            return _flat(error.format_message())
        case _ if isinstance(error, MEANT):
            return _flat(str(error))
        case OSError():
            return f"the system refused: {_flat(str(error))}"
        case _:
            name = type(error).__name__
            return f"unexpected {name}: {_flat(str(error)) or '-'}; run again with --debug and report what it prints"


def is_meant(error: BaseException) -> bool:
    """Say whether nobody needs to see where it was raised: it was on purpose, or is the person's own doing."""
    known = (*MEANT, Stopped, KeyboardInterrupt, click.ClickException, click.Abort, BrokenPipeError)
    return isinstance(error, known)


def first(error: BaseException) -> BaseException:
    """Return the first error of a group, which task groups wrap theirs in; any other as it is."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _flat(text: str) -> str:
    return " ".join(text.split())
