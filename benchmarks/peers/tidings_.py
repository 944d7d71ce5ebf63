"""Tidings as a contestant among queues, as shipped: `setup`, `enqueue N`, `work`; 50 endpoints at the default limit.

PGURL names the database. Ports 18100 to 18149 of this machine answer 204 to all.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from pathlib import Path

import psycopg

sys.path.insert(0, str(Path(__file__).parents[2]))

from delivery import Settings, open_app, read_settings
from delivery.adapters.postgres.database import migrate
from subscriptions.model import Exposure

DSN = os.environ["PGURL"]
OWNER, PORTS = "bench", range(18100, 18150)
#: The key of a database that lives for a minute.
KEY = "tdk_bench_" + "A" * 43
PAYLOAD = json.dumps({"id": 1, "type": "order.created", "data": {"note": "x" * 440}}, separators=(",", ":"))


def settings() -> Settings:
    """The defaults."""
    return read_settings(database_url=DSN, keys=KEY, allow="127.0.0.0/8", grace="1s")


async def setup() -> None:
    """Make the schema, and 50 endpoints with a type of event each."""
    migrate(DSN)
    async with open_app(settings()) as app:
        for port in PORTS:
            name = f"bench.to_{port}"
            await app.event_types.declare(name, by="bench", exposure=Exposure.WEBHOOK)
            endpoint, _ = await app.endpoints.add(OWNER, f"http://127.0.0.1:{port}/hook", by="bench")
            await app.subscriptions.add(OWNER, f"to {port}", [name], endpoint.id, by="bench")


async def enqueue(number: int) -> None:
    """Record events for all of them, and relay them into deliveries; prints how long it took."""
    began = time.perf_counter()
    async with open_app(settings()) as app, await psycopg.AsyncConnection.connect(DSN, autocommit=True) as connection:
        for start in range(0, number, 1000):
            await connection.execute(
                "SELECT tidings.record(%s, 'bench.to_' || (18100 + n %% 50), NULL, %s::json)"
                " FROM generate_series(1, %s) AS n",
                (OWNER, PAYLOAD, min(1000, number - start)),
            )
        relaying = asyncio.ensure_future(app.work(worker=False))
        waiting = "SELECT EXISTS (SELECT FROM tidings.outbox)"
        while (await (await connection.execute(waiting)).fetchone()) != (False,):
            await asyncio.sleep(0.02)
        relaying.cancel()
        await asyncio.wait([relaying])
    print(json.dumps({"jobs": number, "seconds": time.perf_counter() - began}))


def work() -> None:
    """Become `tidings up`."""
    given = {"DATABASE_URL": DSN, "KEYS": KEY, "ALLOW": "127.0.0.0/8", "GRACE": "1s"}
    os.environ |= {f"TIDINGS_{name}": value for name, value in given.items()}
    os.execv(sys.executable, [sys.executable, "-m", "delivery.cli", "up", "--quiet"])


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["setup"]:
            asyncio.run(setup())
        case ["enqueue", number]:
            asyncio.run(enqueue(int(number)))
        case ["work"]:
            work()
        case other:
            sys.exit(f"no such verb: {other}")
