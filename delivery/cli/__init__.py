"""The command line: click, one file a noun; each command parses, calls one App method and prints.

::

    root.py          the group that holds every command; what an error becomes on the way out
    session.py       what a command runs in: settings, the open app, one event loop
    signals.py       Ctrl-C and SIGTERM: stop in order, then at once
    failures.py      any exception -> one line and an exit code
    options.py       the options that commands share
    parameters.py    what a person may write for a duration, an instant, a header, JSON ...
    hints.py         commands that are named in a message repeat the options of this one
    output.py        tables for people, JSON and JSON lines for programs; hostile text is escaped
    documents.py     the shape of everything as JSON
    place.py         where the database is, without its password
    story.py         what happens to a delivery next, and when
    trial.py         what came of a test delivery

Nothing heavy is imported before a command needs it, so that `--help` is quick.
"""

from __future__ import annotations

import os
import sys

_INTERRUPTED = 130


def main() -> None:
    """Run the command line and exit."""
    try:
        _open_streams()
        from delivery.cli.root import tidings

        tidings.main(prog_name="tidings")
    except KeyboardInterrupt:  # before the command had anything to stop in order
        os._exit(_INTERRUPTED)


def _open_streams() -> None:
    """Stand in for standard streams that the caller closed: a command does what it was asked for without them."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - for as long as we live
