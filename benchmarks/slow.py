"""Slow receivers: are thousands in flight served at the rate that their slowness allows?"""

from __future__ import annotations

import resource

from benchmarks.drain import drained
from benchmarks.scenario import Outcome, progress, scenario
from benchmarks.stage import Stage

LEAST_SHARE, MOST_MIB = 0.8, 250


@scenario(
    short={"endpoints": 10, "slots": 20, "drain": 100.0, "seconds": 1.0},
    endpoints=1_000,
    slots=2_000,
    drain=0.0,
    seconds=10.0,
)
def slow(stage: Stage, endpoints: int, slots: int, drain: float, seconds: float) -> Outcome:
    """Deliveries a second to receivers that take 500 and 100 ms; `drain` = that of quick ones, 0 = measure it."""
    rates = {}
    if not drain:
        drain = drained(stage, 20_000, endpoints, slots=slots)[0]
        progress(f"slow: {drain:,.0f} deliveries/s to receivers that are quick")
    for delay_s in (0.5, 0.1):
        most = min(slots / delay_s, drain)
        rate, _ = drained(stage, int(most * seconds), endpoints, slots=slots, delay_s=delay_s)
        rates[delay_s] = rate / most
        progress(f"slow: {rates[delay_s]:.2f} of {most:,.0f} deliveries/s where each takes {delay_s:g} s")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    figures = ", ".join(f"{share:.2f} x with {delay_s * 1e3:g} ms" for delay_s, share in rates.items())
    return Outcome(
        figures=f"{figures} of what is possible, {slots:,} in flight, peak memory {peak:,.0f} MiB",
        bar=f"at least {LEAST_SHARE} x, at most {MOST_MIB} MiB",
        kept=min(rates.values()) >= LEAST_SHARE and peak <= MOST_MIB,
    )
