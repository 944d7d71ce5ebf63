"""Record: what does the relay's doorbell cost the transactions that record?

pgbench commits a row of its own and an event, on many connections at once; with the doorbell as shipped, and without
it (its trigger disabled), each pair right after another; the median of their ratios counts. Once beside a relay that
runs, and once with nothing of the platform running.
"""

from __future__ import annotations

from contextlib import nullcontext

from benchmarks.load import event_type, payload
from benchmarks.scenario import Outcome, middle, progress, scenario
from benchmarks.stage import OWNER, Platform, Stage

LEAST_SHARE = 0.9
_SCRIPT = f"""
BEGIN;
INSERT INTO public.purchase (amount) VALUES (1);
SELECT tidings.record('{OWNER}', '{event_type(0)}', NULL, '{payload(0.0)}');
COMMIT;
"""
_DECLARE = f"INSERT INTO tidings.event_type (type, exposure) VALUES ('{event_type(0)}', 'webhook')"


@scenario(short={"runs": 1, "seconds": 1, "connections": 4}, runs=5, seconds=5, connections=32)
def record(stage: Stage, runs: int, seconds: int, connections: int) -> Outcome:
    """Commits a second with and without the doorbell."""
    shares: dict[str, float] = {}
    figures = []
    for beside in ("a relay that runs", "none"):
        with stage.platform() as platform:
            platform.sql(_DECLARE)
            platform.sql("CREATE TABLE public.purchase (id bigint GENERATED ALWAYS AS IDENTITY, amount int)")
            found: dict[str, list[float]] = {"DISABLE": [], "ENABLE": []}
            for run in range(runs):
                for switch in sorted(found, reverse=run % 2 == 0):
                    found[switch].append(_commits(platform, switch, beside != "none", seconds, connections))
                    progress(f"record: run {run + 1}, relay: {beside}, {switch}: {found[switch][-1]:,.0f} commits/s")
        without, rung = (middle(found[name]) for name in ("DISABLE", "ENABLE"))
        shares[beside] = middle([b / a for a, b in zip(found["DISABLE"], found["ENABLE"], strict=True)])
        figures.append(f"{rung:,.0f} to {without:,.0f} ({shares[beside]:.2f} x) beside {beside}")
    return Outcome(
        figures=f"commits/s with to without the doorbell: {', '.join(figures)}",
        bar=f"at least {LEAST_SHARE} x",
        kept=min(shares.values()) >= LEAST_SHARE,
    )


def _commits(platform: Platform, switch: str, relays: bool, seconds: int, connections: int) -> float:
    platform.sql("TRUNCATE tidings.event, tidings.outbox, public.purchase")
    platform.sql(f"ALTER TABLE tidings.outbox {switch} TRIGGER ring")
    with platform.running("relay") if relays else nullcontext():
        said = platform.pgbench(_SCRIPT, "-c", str(connections), "-j", "2", "-T", str(seconds))
    return next(float(line.split()[2]) for line in said if line.startswith("tps = "))
