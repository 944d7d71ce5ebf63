"""The options that commands share, as decorators; each command takes its `Session` first."""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable
from dataclasses import replace
from difflib import get_close_matches
from functools import wraps
from typing import Any

import click

from delivery.cli import logs
from delivery.cli.hints import repeat
from delivery.cli.output import Form
from delivery.cli.parameters import ADDRESS, FILLED
from delivery.cli.processes import MOST
from delivery.cli.session import Session

Command = Callable[..., None]

#: Where an option stands in the help: those that every command has come last.
_PLACES = {"as_json": 1, "as_lines": 1, "by": 1, "owner": 2, "any_owner": 2, "dsn": 3, "home": 3}


class Act(click.Command):
    """One command."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """List what is particular to the command first."""
        own, help_option = list(self.params), self.get_help_option(ctx)
        last = [] if help_option is None else [help_option]
        return [*sorted(own, key=lambda param: _PLACES.get(param.name or "", 0)), *last]

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write lines that can be typed, each as one line: whoever copies it gets all of it."""
        from delivery.cli.examples import EXAMPLES

        examples = EXAMPLES.get(path_of(ctx), ())
        if examples:
            with formatter.section("Examples"):
                margin = " " * formatter.current_indent
                for each in examples:
                    formatter.write(f"{margin}# {each.why}\n" if each.why else "")
                    formatter.write(f"{margin}{each.line}\n")
        super().format_epilog(ctx, formatter)


def path_of(ctx: click.Context) -> str:
    """Return the words that name the command, without that of the program."""
    words: list[str] = []
    while ctx.parent is not None:
        words.insert(0, ctx.info_name or "")
        ctx = ctx.parent
    return " ".join(words)


class Guessing(click.Group):
    """Say which command was probably meant, where there is none of a name."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that the arguments begin with."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError:
            name = args[0]
            if name.startswith("-"):
                raise
            near = get_close_matches(name, self.list_commands(ctx), n=1)
            guess = f": did you mean {near[0]!r}?" if near else ""
            raise click.UsageError(f"No such command {name!r}{guess}", ctx) from None


class Noun(Guessing):
    """The commands about one noun."""

    command_class = Act

    def list_commands(self, ctx: click.Context) -> list[str]:
        """List the commands in the order they are written in."""
        return list(self.commands)


DSN = click.option(
    "--dsn", type=FILLED, metavar="DSN", help="PostgreSQL to use (TIDINGS_DATABASE_URL); none: the embedded one."
)
HOME = click.option(
    "--home", type=FILLED, metavar="FOLDER", help="State folder of the embedded PostgreSQL (TIDINGS_HOME)."
)
OWNER = click.option(
    "--owner", type=FILLED, metavar="OWNER", help="Whose things (TIDINGS_OWNER; 'default' if not set)."
)


def connected(command: Command) -> Command:
    """Hand the session over as the first argument, with --dsn and --home."""

    @DSN
    @HOME
    @wraps(command)
    def with_session(*args: Any, dsn: str | None, home: str | None, **given: Any) -> None:
        session = _session().having(database_url=dsn, home=home)
        repeat(session.given)
        command(session, *args, **given)

    return with_session


def owned(command: Command) -> Command:
    """Hand the session over as `connected` does, with --owner."""

    @connected
    @OWNER
    @wraps(command)
    def with_owner(session: Session, *args: Any, owner: str | None, **given: Any) -> None:
        session = session.having(owner=owner)
        repeat(session.given)
        command(session, *args, **given)

    return with_owner


def several(command: Command) -> Command:
    """Add --processes; the command takes `processes`."""
    option = click.option(
        "--processes",
        type=click.IntRange(1, MOST),
        default=1,
        show_default=True,
        help="Deliver by so many processes: this one, and workers beside it that end with it.",
    )
    return option(command)


def watched(command: Command) -> Command:
    """Add --log-format and --serve, which the session knows. Stands below `connected`."""

    @click.option(
        "--log-format",
        type=click.Choice(logs.FORMATS),
        help="How to log: lines for people, or a JSON object a line (TIDINGS_LOG_FORMAT; 'console' if not set).",
    )
    @click.option(
        "--serve",
        type=ADDRESS,
        metavar="HOST:PORT",
        help="Serve /metrics, /healthz and /readyz there (TIDINGS_SERVE; nowhere if not set).",
    )
    @wraps(command)
    def with_both(session: Session, *args: Any, log_format: str | None, serve: str | None, **given: Any) -> None:
        if log_format is not None:
            logs.use(log_format)  # before settings are read, of which something may be said
        command(session.having(log_format=log_format, serve=serve), *args, **given)

    return with_both


def any_owner(command: Command) -> Command:
    """Add --any-owner for operators; the command takes `owner_id`, None for all. Stands below `owned`."""

    @click.option("--any-owner", is_flag=True, help="Of every owner, and what is the platform's own.")
    @wraps(command)
    def with_scope(session: Session, *args: Any, any_owner: bool, **given: Any) -> None:
        owner_id = None if any_owner else session.owner
        command(replace(session, any_owner=any_owner), *args, owner_id=owner_id, **given)

    return with_scope


def printed(command: Command) -> Command:
    """Add --json; the command takes `form`."""

    @click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
    @wraps(command)
    def with_form(*args: Any, as_json: bool, **given: Any) -> None:
        command(*args, form=Form.JSON if as_json else Form.PEOPLE, **given)

    return with_form


def listed(command: Command) -> Command:
    """Add --json and --jsonl; the command takes `form`."""

    @click.option("--json", "as_json", is_flag=True, help="Print one JSON document, a list.")
    @click.option("--jsonl", "as_lines", is_flag=True, help="Print one JSON document a line.")
    @wraps(command)
    def with_form(*args: Any, as_json: bool, as_lines: bool, **given: Any) -> None:
        if as_json and as_lines:
            raise click.UsageError("--json and --jsonl are two forms of one thing: give one of them")
        form = Form.JSON if as_json else Form.JSONL if as_lines else Form.PEOPLE
        command(*args, form=form, **given)

    return with_form


def limited(most: int = 50) -> Callable[[Command], Command]:
    """Add --limit; longer lists are read page by page."""
    return click.option(
        "--limit",
        type=click.IntRange(1, 10_000_000),
        default=most,
        show_default=True,
        help="How many at most.",
    )


def signed(command: Command) -> Command:
    """Add --by, kept with the change; the command takes `by`."""

    @click.option("--by", type=FILLED, metavar="NAME", help="Who does this, for the record (default: your account).")
    @wraps(command)
    def with_name(*args: Any, by: str | None, **given: Any) -> None:
        command(*args, by=by or _account(), **given)

    return with_name


def _account() -> str:
    uid = os.geteuid()
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


def _session() -> Session:
    found = click.get_current_context().find_object(Session)
    return found if found is not None else Session()
