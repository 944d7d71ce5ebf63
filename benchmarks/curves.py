"""Curves: deliveries a second of one process, against the backlog it drains and against how many are in flight.

`--plots FOLDER` draws both as SVG there.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.drain import drained
from benchmarks.scenario import Outcome, progress, scenario
from benchmarks.stage import Stage

BACKLOGS = (1_000, 5_000, 20_000, 100_000)
SLOTS = (10, 25, 50, 100, 200, 500, 1_000)
#: How long a receiver takes where what counts is how many are in flight, in seconds.
DELAY_S = 0.05
#: What one of these drains takes at the most, about, in seconds.
_LONG_S = 10.0
_SHORTEST = 1_000

Curve = dict[int, float]


@scenario(short={"backlog": 100, "slots": 10, "endpoints": 5}, backlog=0, slots=0, endpoints=200, plots="")
def curves(stage: Stage, backlog: int, slots: int, endpoints: int, plots: str) -> Outcome:
    """One backlog and one number of slots, or all of them."""
    by_backlog: Curve = {}
    for each in (backlog,) if backlog else BACKLOGS:
        by_backlog[each] = drained(stage, each, min(endpoints, 50))[0]
        progress(f"curves: a backlog of {each:,}: {by_backlog[each]:,.0f} deliveries/s")
    by_slots: Curve = {}
    for each in (slots,) if slots else SLOTS:
        deliveries = backlog or max(_SHORTEST, min(int(each / DELAY_S * _LONG_S), 20_000))
        by_slots[each] = drained(stage, deliveries, endpoints, slots=each, delay_s=DELAY_S)[0]
        progress(f"curves: {each:,} in flight: {by_slots[each]:,.0f} deliveries/s")
    if plots:
        _draw(by_backlog, "backlog", "deliveries that wait", Path(plots))
        _draw(by_slots, "in-flight", f"in flight, of receivers that take {DELAY_S * 1e3:g} ms", Path(plots))
    return Outcome(figures=f"by backlog {_said(by_backlog)}; by slots, {DELAY_S * 1e3:g} ms {_said(by_slots)}")


def _said(curve: Curve) -> str:
    return ", ".join(f"{each:,}: {rate:,.0f}/s" for each, rate in curve.items())


def _draw(curve: Curve, name: str, along: str, folder: Path) -> None:
    import pygal  # here, as it changes how everything else is imported
    from pygal.style import CleanStyle

    chart = pygal.Line(
        js=(), style=CleanStyle, show_legend=False, height=320, width=640, range=(0, max(curve.values()) * 1.1)
    )
    chart.x_labels = [f"{each:,}" for each in curve]
    chart.x_title, chart.y_title = along, "deliveries a second"
    chart.add("", list(curve.values()))
    chart.render_to_file(str(folder / f"throughput-{name}.svg"))
