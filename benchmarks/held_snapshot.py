"""Held snapshot: how much slower do claims get while somebody holds an old snapshot?

A report, a dump or a forgotten session keeps VACUUM from removing what was settled since. The platform delivers at a
steady rate; first by itself, then beside an open REPEATABLE READ transaction. The time of a claim is what its caller
waits. The bar is for 600 seconds at 500 a second; a shorter run says less.
"""

from __future__ import annotations

import asyncio
import time

import psycopg

from benchmarks.scenario import Outcome, middle, p99, progress, scenario
from benchmarks.stage import Child, Receivers, Stage, until

MOST_FACTOR = 5.0
#: The load runs this long before it counts, in seconds.
_WARM_S = 5.0
#: The held time is looked at in pieces of this length, in seconds.
_PIECE_S = 60.0


@scenario(
    short={"seconds": 1.0, "baseline": 1.0, "rate": 50.0, "endpoints": 5},
    seconds=120.0,
    baseline=60.0,
    rate=500.0,
    endpoints=50,
)
def held_snapshot(stage: Stage, seconds: float, baseline: float, rate: float, endpoints: int) -> Outcome:
    """Claims beside an open REPEATABLE READ transaction."""
    warm = min(_WARM_S, baseline)
    with Receivers(endpoints) as receivers, stage.platform() as platform:
        asyncio.run(platform.add_endpoints(receivers.answering))
        with (
            Child("benchmarks.timed", **platform.environment) as timed,
            platform.load(endpoints, rate, warm + baseline + seconds + 1) as load,
        ):
            timed.read()
            _claims(timed, warm)
            before = _claims(timed, baseline)
            progress(f"held-snapshot: alone {_told(before)}")
            with psycopg.connect(platform.dsn) as holder:
                holder.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
                holder.execute("SELECT count(*) FROM tidings.job")
                began, held = receivers.count(), []
                for piece in _pieces(seconds):
                    held.append(_claims(timed, piece))
                    progress(f"held-snapshot: held {_told(held[-1])}")
                delivered = (receivers.count() - began) / seconds
            progress(f"held-snapshot: the load fell behind by {load.read()['behind_s'] * 1000:.0f} ms at most")
    alone, whole, last = p99(before), p99([took for piece in held for took in piece]), p99(held[-1])
    worst = max(whole, last) / alone
    return Outcome(
        figures=f"claim p99 {alone * 1000:.2f} ms, held {whole * 1000:.2f} over {seconds:.0f} s and {last * 1000:.2f}"
        f" at its end ({worst:.1f} x), at {delivered:.0f} deliveries/s",
        bar=f"below {MOST_FACTOR:.0f} x",
        kept=worst < MOST_FACTOR,
    )


def _pieces(seconds: float) -> list[float]:
    """Part the time into pieces; the last is a whole one."""
    whole = max(int(seconds // _PIECE_S), 1)
    rest = seconds - whole * _PIECE_S
    return [*([rest] if rest > 0 else []), *[min(_PIECE_S, seconds)] * whole]


def _claims(timed: Child, seconds: float) -> list[float]:
    """Return how long each claim took in the time to come, and until there was one at all."""
    timed.ask("claim_jobs")
    time.sleep(seconds)
    taken: list[float] = []

    def some() -> bool:
        taken.extend(took for took, _ in timed.ask("claim_jobs"))
        return bool(taken)

    until(some)
    return taken


def _told(claims: list[float]) -> str:
    return f"p50 {middle(claims) * 1000:.2f} p99 {p99(claims) * 1000:.2f} ms of {len(claims)} claims"
