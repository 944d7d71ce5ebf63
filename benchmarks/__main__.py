"""Measure: `make bench` runs every scenario, `make bench ARGS="isolation --runs 3"` one, ARGS=--short a smoke run."""

from __future__ import annotations

import click

from benchmarks.claim_growth import claim_growth
from benchmarks.curves import curves
from benchmarks.drain import drain
from benchmarks.end_to_end import end_to_end
from benchmarks.fan_out import fan_out
from benchmarks.held_snapshot import held_snapshot
from benchmarks.isolation import isolation
from benchmarks.latency import latency
from benchmarks.record import record
from benchmarks.scenario import Scenario
from benchmarks.slow import slow
from benchmarks.stage import on_stage
from benchmarks.write_path import write_path

SCENARIOS: tuple[Scenario, ...] = (
    isolation,
    claim_growth,
    record,
    held_snapshot,
    drain,
    latency,
    end_to_end,
    fan_out,
    slow,
    write_path,
    curves,
)


@click.group(invoke_without_command=True)
@click.option("--short", is_flag=True, help="A smoke run of small sizes, which judges nothing.")
@click.option("--dsn", help="A server where databases may be made; else an embedded one.")
@click.pass_context
def bench(ctx: click.Context, short: bool, dsn: str | None) -> bool:
    """Measure the platform: one line a scenario. Exit code 1 where a bar was missed."""
    if short:
        ctx.default_map = {str(scenario.name): scenario.short for scenario in SCENARIOS}
    ctx.obj = ctx.with_resource(on_stage(dsn))
    click.echo(ctx.obj.machine())
    if ctx.invoked_subcommand is not None:
        return True
    kept = [scenario.invoke(scenario.make_context(scenario.name, [], parent=ctx)) for scenario in SCENARIOS]
    return all(kept)


@bench.result_callback()
def end(kept: bool, **_: object) -> None:
    """End with a code."""
    click.get_current_context().exit(0 if kept else 1)


for each in SCENARIOS:
    bench.add_command(each)

if __name__ == "__main__":
    bench(prog_name="bench")
