"""The command line: click, one file a noun; each command parses, calls one App method and prints.

::

    root.py          the group that holds every command; what an error becomes on the way out
    session.py       what a command runs in: settings, the open app, one event loop
    signals.py       Ctrl-C and SIGTERM: stop in order, then at once
    failures.py      any exception -> one line and an exit code
    options.py       the options that commands share
    examples.py      what `--help` of each command shows last
    parameters.py    what a person may write for a duration, an instant, a header, JSON ...
    completing.py    what is in the database, for a shell that completes a word
    consent.py       asks before what cannot be undone
    ids.py           ids that were given by their beginning, made whole
    hints.py         commands that are named in a message repeat the options of this one
    logs.py          what is logged: lines for people, JSON for programs
    serving.py       metrics and health over HTTP; beside.py: of several processes
    output.py        tables for people, JSON and JSON lines for programs; hostile text is escaped
    documents.py     the shape of everything as JSON
    place.py         where the database is, without its password
    story.py         what happens to a delivery next, and when
    trial.py         what came of a test delivery

Nothing heavy is imported before a command needs it, so that `--help` is quick.
"""

from __future__ import annotations

import os
import signal
import sys

_INTERRUPTED = 130


def main() -> None:
    """Run the command line and exit."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else the caller wants it otherwise
        signal.signal(signal.SIGINT, _leave)
    try:
        _open_streams()
        from delivery.cli.root import tidings

        tidings.main(prog_name="tidings")
    except KeyboardInterrupt:  # before the command had anything to stop in order
        os._exit(_INTERRUPTED)


def _leave(*_: object) -> None:
    """End while modules are still being read, where Python may drop the exception that it raises for Ctrl-C."""
    os._exit(_INTERRUPTED)


def _open_streams() -> None:
    """Stand in for standard streams that the caller closed: a command does what it was asked for without them."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - for as long as we live
