"""Pauses on the command line: what is meant, and how one is shown."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from delivery.cli.output import Form, instant_shown, moment, shown, write_fields, write_json
from delivery.cli.parameters import FILLED
from delivery.pauses import Pause, Paused, Scope

Command = Callable[..., None]


def scoped(command: Command) -> Command:
    """Add --kind, --owner and --all, of which one is to be given; the command takes `what`."""

    @click.option("--kind", type=FILLED, metavar="KIND", help="Jobs of this kind: webhook.deliver, handler.NAME ...")
    @click.option("--owner", type=FILLED, metavar="OWNER", help="What is this owner's.")
    @click.option("--all", "everything", is_flag=True, help="Everything but the platform's own upkeep.")
    @wraps(command)
    def with_what(*args: Any, kind: str | None, owner: str | None, everything: bool, **given: Any) -> None:
        meant = [Paused(scope=Scope.KIND, name=kind)] if kind is not None else []
        meant += [Paused(scope=Scope.OWNER, name=owner)] if owner is not None else []
        meant += [Paused(scope=Scope.ALL)] if everything else []
        if len(meant) != 1:
            raise click.UsageError("say what is meant: give one of --kind, --owner and --all")
        command(*args, what=meant[0], **given)

    return with_what


def document(one: Pause) -> dict[str, Any]:
    """Describe a pause as JSON."""
    scope = one.what.scope
    return {
        "scope": scope.value,
        "kind": one.what.name if scope is Scope.KIND else None,
        "owner_id": one.what.name if scope is Scope.OWNER else None,
        "by": one.by,
        "reason": one.reason,
        "at": moment(one.at),
    }


def line(one: Pause) -> str:
    """Say it in a line."""
    why = f": {one.reason}" if one.reason else ""
    return shown(f"{one.what}, by {one.by} at {instant_shown(one.at)}{why}")


def write(one: Pause, form: Form, then: tuple[str, str]) -> None:
    """Write a pause, and what comes of it."""
    if form is Form.JSON:
        write_json(document(one))
    else:
        write_fields([("paused", str(one.what)), ("by", one.by), ("reason", one.reason), ("at", one.at), then])
