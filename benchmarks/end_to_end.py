"""End to end: events are recorded, relayed and delivered at once, for a while. Does the backlog stay flat?

pgbench records at a steady rate, ten events a transaction, which is a share of what one process drains; `tidings up`
does the rest. A rate is kept where no more waits at the end than a second brings.
"""

from __future__ import annotations

import asyncio
import time

from benchmarks.drain import drained
from benchmarks.load import event_type, payload
from benchmarks.scenario import Outcome, progress, scenario
from benchmarks.stage import OWNER, Platform, Receivers, Stage, until
from delivery import open_app

CONNECTIONS, A_TRANSACTION = 16, 10
_WAITING = "SELECT (SELECT count(*) FROM tidings.outbox) * %s + (SELECT count(*) FROM tidings.job)"


@scenario(
    short={"seconds": 2, "endpoints": 5, "drain": 50.0},
    seconds=60,
    endpoints=50,
    single=0.4,
    many=0.7,
    drain=0.0,
)
def end_to_end(stage: Stage, seconds: int, endpoints: int, single: float, many: float, drain: float) -> Outcome:
    """Deliveries a second that are kept up, each event going to one endpoint, and to ten; as shares of a drain's."""
    if not drain:
        drain = drained(stage, 20_000, endpoints)[0]
        progress(f"end-to-end: one process drains {drain:,.0f} deliveries/s")
    kept = {}
    for targets, share in ((1, single), (min(10, endpoints), many)):
        waits = _sustained(stage, seconds, endpoints, targets, share * drain)
        kept[targets] = waits <= share * drain
        progress(f"end-to-end: {share:g} x at {targets} targets an event: {waits:,} wait at the end")
    ends = {True: "kept up", False: "fell behind"}
    return Outcome(
        figures=f"{single * drain:,.0f}/s to one target {ends[kept[1]]}, {many * drain:,.0f}/s to ten"
        f" {ends[all(kept.values())]}; a drain makes {drain:,.0f}/s",
        bar=f"{single:g} x and {many:g} x of a drain, the backlog flat for {seconds} s",
        kept=all(kept.values()),
    )


def _sustained(stage: Stage, seconds: int, endpoints: int, targets: int, deliveries: float) -> int:
    """Return what waits at the end."""
    with Receivers(endpoints) as receivers, stage.platform() as platform:
        asyncio.run(platform.add_endpoints(receivers.answering))
        asyncio.run(widen(platform, endpoints, targets))
        with platform.running("up"):
            pace = f"{max(deliveries / targets / A_TRANSACTION, 0.1):.2f}"
            began = time.perf_counter()
            platform.pgbench(_script(endpoints), "-c", str(CONNECTIONS), "-j", "1", "-T", str(seconds), "-R", pace)
            [[waits]] = platform.sql(_WAITING, targets)
            progress(f"end-to-end: {receivers.count() / (time.perf_counter() - began):,.0f} deliveries/s arrived")
            until(lambda: not platform.sql("SELECT 1 FROM tidings.job UNION ALL SELECT 1 FROM tidings.outbox LIMIT 1"))
    return int(waits)


def _script(endpoints: int) -> str:
    one = f"SELECT tidings.record('{OWNER}', 'bench.to_' || :n, NULL, '{payload(0.0)}');\n"
    pick = f"\\set n random(0, {endpoints - 1})\n"
    return "BEGIN;\n" + A_TRANSACTION * (pick + one) + "COMMIT;\n"


async def widen(platform: Platform, endpoints: int, targets: int) -> None:
    """Send the events of each type to some more endpoints, those that follow."""
    async with open_app(platform.settings) as app:
        each = await app.endpoints.list(OWNER, limit=endpoints)
        for number, endpoint in enumerate(each):
            types = [event_type((number - back) % endpoints) for back in range(1, targets)]
            if types:
                await app.subscriptions.add(OWNER, f"more to {endpoint.id}", types, endpoint.id, by="bench")
