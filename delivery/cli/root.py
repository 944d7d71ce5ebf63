"""The group that holds every command, and what an error becomes on its way out."""

from __future__ import annotations

import importlib
import logging
import os
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from contextvars import ContextVar
from importlib.util import find_spec
from typing import Any, NoReturn

import click

from delivery.cli import failures, hints, logs
from delivery.cli.options import DSN, HOME, OWNER, Guessing
from delivery.cli.session import Session

#: Every command, in the order of the help: its module, which is imported when it is asked for. One that is
#: missing from the installation is left out.
COMMANDS: dict[str, str] = {
    "up": "delivery.cli.up",
    "demo": "delivery.cli.demo",
    "listen": "delivery.cli.listen",
    "verify": "delivery.cli.verify",
    "status": "delivery.cli.status",
    "doctor": "delivery.cli.doctor",
    "pause": "delivery.cli.pause",
    "resume": "delivery.cli.resume",
    "event-types": "delivery.cli.event_type",
    "policies": "delivery.cli.policies",
    "endpoints": "delivery.cli.endpoints",
    "subscriptions": "delivery.cli.subscriptions",
    "events": "delivery.cli.events",
    "deliveries": "delivery.cli.deliveries",
    "replays": "delivery.cli.replays",
    "jobs": "delivery.cli.jobs",
    "periodic": "delivery.cli.periodic",
    "migrate": "delivery.cli.migrate",
    "relay": "delivery.cli.relay",
    "worker": "delivery.cli.worker",
    "keys": "delivery.cli.keys",
    "completion": "delivery.cli.completion",
}

_debug: ContextVar[bool] = ContextVar("debug", default=False)


class Root(Guessing):
    """Find commands by name when they are asked for, and end in an exit code whatever happens."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """List the commands that are installed."""
        return [name for name, module in COMMANDS.items() if find_spec(module)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command: it bears the name of its module."""
        module = COMMANDS.get(cmd_name)
        if module is None or find_spec(module) is None:
            return None
        command: click.Command = getattr(importlib.import_module(module), module.rpartition(".")[2])
        return command

    def main(
        self, args: Sequence[str] | None = None, prog_name: str | None = None, *rest: Any, **extra: Any
    ) -> NoReturn:
        """Run and exit; every error is one line on standard error."""
        extra["standalone_mode"] = False
        token, repeated = _debug.set(False), hints.repeat({})
        _write_anything()
        try:
            with logs.writing():
                result = super().main(args, prog_name, *rest, **extra)
                sys.stdout.flush()
            code = result if isinstance(result, int) else 0
        except BaseException as error:
            code = _report(failures.first(error))
        finally:
            hints.forget(repeated)
            _debug.reset(token)
        sys.exit(code)


def _report(error: BaseException) -> int:
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else failures.FAILED
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        error.show()
        return failures.MISUSED
    if isinstance(error, BrokenPipeError):
        _forget_output()
    line = failures.line(error)
    with suppress(OSError):
        traced = _debug.get() and not failures.is_meant(error)
        if traced and not logs.is_json():
            click.echo("".join(traceback.format_exception(error)), err=True)
        if line is not None:
            said = line if logs.is_json() else f"tidings: {line}"
            logs.note(said, level=logging.ERROR, error=error if traced else None)
    return failures.exit_code(error)


def _forget_output() -> None:
    """Lead what is still to be written nowhere: whoever read it has gone."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())


def _write_anything() -> None:
    """Let what the terminal's encoding lacks be written as an escape."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, ValueError):  # a stream that somebody put in place
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr] # asked for by suppress


def _set_debug(_ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    if value:
        _debug.set(True)


@click.group(
    cls=Root,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 done, 1 failed, 2 used wrongly, 3 `status --check` or `doctor` has alerts,"
    " 130 ended by Ctrl-C, 143 cut short by SIGTERM.",
)
@DSN
@HOME
@OWNER
@click.option("--debug", is_flag=True, expose_value=False, is_eager=True, callback=_set_debug, help="Show tracebacks.")
@click.version_option(package_name="tidings", message="%(prog)s %(version)s")
@click.pass_context
def tidings(context: click.Context, dsn: str | None, home: str | None, owner: str | None) -> None:
    """Deliver webhooks from PostgreSQL: at least once, signed, and with every attempt on record.

    Start with `tidings demo`, or `tidings up --allow-local` and `tidings listen`.
    """
    context.obj = Session().having(database_url=dsn, home=home, owner=owner)
