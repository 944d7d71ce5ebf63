"""What a scenario is: a command with a size, whose outcome is one line, and a bar that it keeps or misses."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import click


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a scenario."""

    figures: str  #: medians and their ratios, in a few words
    bar: str = ""  #: what is asked for, in words
    kept: bool | None = None  #: None = there is no bar


class Scenario(click.Command):
    """A command that returns its `Outcome`; with `--short`, other defaults hold and no bar does."""

    def __init__(self, *args: Any, short: Mapping[str, Any], **options: Any) -> None:
        super().__init__(*args, **options)
        self.short = short

    def invoke(self, ctx: click.Context) -> bool:
        """Run it and print its one line; False where the bar was missed."""
        is_short = ctx.find_root().params["short"]
        outcome: Outcome = super().invoke(ctx)
        verdict = f"{outcome.bar}: {'kept' if outcome.kept else 'MISSED'}" if outcome.bar else "no bar"
        if is_short:
            verdict = "smoke run, judges nothing"
        click.echo(f"{self.name}: {outcome.figures} | {verdict} | {self._as_typed(ctx)}")
        return is_short or outcome.kept is not False

    def _as_typed(self, ctx: click.Context) -> str:
        options = " ".join(f"--{name.replace('_', '-')} {value}" for name, value in ctx.params.items())
        return f'make bench ARGS="{self.name} {options}"'


def scenario(short: Mapping[str, Any], **sizes: float | str) -> Callable[[Callable[..., Outcome]], Scenario]:
    """Make a scenario of a function: each size is an option, named with its default; `short` are the smoke run's."""

    def make(function: Callable[..., Outcome]) -> Scenario:
        command = click.command(cls=Scenario, short=short)(click.pass_obj(function))
        for name, default in reversed(sizes.items()):
            option = click.option(f"--{name.replace('_', '-')}", type=type(default), default=default, show_default=True)
            option(command)
        command.params.reverse()
        return command

    return make


def p99(values: Sequence[float]) -> float:
    """Return the 99th percentile, by nearest rank."""
    return sorted(values)[math.ceil(0.99 * len(values)) - 1]


def middle(values: Sequence[float]) -> float:
    """Return the median."""
    return median(values)


def progress(text: str) -> None:
    """Say on standard error what goes on."""
    click.echo(f"  {text}", err=True)
