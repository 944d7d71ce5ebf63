"""How fast one process drains pending deliveries: `make bench`, or `python -m benchmarks.drain --help`.

Everything is the product as shipped: sealed keys, a signature an attempt, lanes at their default limit, leases, the
address guard, attempt rows. The receivers run in a process of their own on the same machine. What is timed is from
the moment the worker starts until the last delivery is settled in the database.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from delivery import App, open_app, read_settings
from delivery.jobs import JobState
from subscriptions.model import Exposure

_PAYLOAD = {"text": "x" * 488}  # a body of about 500 bytes of data


async def prepare(app: App, ports: list[int], deliveries: int) -> None:
    """Declare, add the endpoints, record, and relay until every delivery is pending."""
    await app.allow_local(True, by="benchmark")
    await app.event_types.declare("bench.happened", by="benchmark", exposure=Exposure.WEBHOOK)
    for port in ports:
        endpoint, _ = await app.endpoints.add("bench", f"http://127.0.0.1:{port}/", by="benchmark")
        await app.subscriptions.add("bench", f"to-{port}", ["bench.*"], endpoint.id, by="benchmark")
    began = time.perf_counter()
    events = -(-deliveries // len(ports))
    for start in range(0, events, 200):
        async with app.transaction() as tx:
            recorder = app.recorder.with_(tx)
            for _ in range(start, min(start + 200, events)):
                await recorder.record("bench", "bench.happened", None, _PAYLOAD)
    recorded = time.perf_counter()
    relaying = asyncio.create_task(app.work(worker=False))
    while await _count(app, JobState.PENDING) < events * len(ports):
        await asyncio.sleep(0.02)
    relayed = time.perf_counter()
    relaying.cancel()
    await asyncio.gather(relaying, return_exceptions=True)
    print(f"recorded {events:,} events in {recorded - began:.2f} s")
    print(f"relayed them into {events * len(ports):,} deliveries in {relayed - recorded:.2f} s")


async def drain(app: App, deliveries: int) -> float:
    """Deliver everything; return the seconds it took."""
    began, cpu = time.perf_counter(), time.process_time()
    working = asyncio.create_task(app.work(relay=False))
    while await _count(app, JobState.COMPLETED) < deliveries:
        await asyncio.sleep(0.05)
    took, used = time.perf_counter() - began, time.process_time() - cpu
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)
    print(f"drained {deliveries:,} deliveries in {took:.2f} s: {deliveries / took:,.0f} a second,", end=" ")
    print(f"{used / deliveries * 1e6:,.0f} us of worker CPU each")
    return took


async def _count(app: App, state: JobState) -> int:
    return sum(kind.counts.get(state, 0) for kind in await app.jobs.overview() if kind.kind == "webhook.deliver")


async def main(deliveries: int, endpoints: int) -> None:
    """Measure once, on a throw-away embedded database or on TIDINGS_DATABASE_URL."""
    sink = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.sink", str(endpoints)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert sink.stdout is not None
    assert sink.stdin is not None
    ports = [int(port) for port in sink.stdout.readline().split()]
    home = Path(tempfile.mkdtemp(prefix="tidings-bench-"))
    home.chmod(0o711)
    try:
        async with open_app(read_settings(home=home)) as app:
            await prepare(app, ports, deliveries)
            whole = await _count(app, JobState.PENDING)
            await drain(app, whole)
        sink.stdin.write("count\n")
        sink.stdin.flush()
        print(f"the receivers counted {int(sink.stdout.readline()):,} requests on {endpoints} endpoints")
        print(f"peak memory of this process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MiB")
    finally:
        sink.terminate()
        sink.wait()
        shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--deliveries", type=int, default=20_000)
    parser.add_argument("--endpoints", type=int, default=50)
    given = parser.parse_args()
    print(f"{os.cpu_count()} cores, {given.deliveries:,} deliveries over {given.endpoints} endpoints, one process")
    asyncio.run(main(given.deliveries, given.endpoints))
