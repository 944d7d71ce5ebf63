"""Tidings as a contestant among queues, as shipped: `setup`, `enqueue N`, `work`, `produce RATE SECONDS FILE`.

PGURL names the database. Ports 18100 to 18149 of this machine answer 204 to all: 50 endpoints, at the default limit.
`produce` records for one endpoint at a steady rate, and writes when each transaction ended and began. Whoever notes
the arrivals at SINK_URL knows ids as numbers: a small forwarder between the two puts the number for the event's id.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import psycopg

sys.path.insert(0, str(Path(__file__).parents[2]))

from delivery import Settings, open_app, read_settings
from delivery.adapters.postgres.database import migrate
from subscriptions.model import Exposure

DSN = os.environ["PGURL"]
OWNER, PORTS = "bench", range(18100, 18150)
#: The key of a database that lives for a minute.
KEY = "tdk_bench_" + "A" * 43
#: Where the forwarder listens, and the type of event that goes there.
FORWARDED, TIMED = 18201, "bench.timed"
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
        await app.event_types.declare(TIMED, by="bench", exposure=Exposure.WEBHOOK)
        endpoint, _ = await app.endpoints.add(OWNER, f"http://127.0.0.1:{FORWARDED}/hook", by="bench")
        await app.subscriptions.add(OWNER, "timed", [TIMED], endpoint.id, by="bench")
        working = asyncio.ensure_future(app.work(relay=False))  # as where it has run before: days have partitions
        async with await psycopg.AsyncConnection.connect(DSN, autocommit=True) as connection:
            made = "SELECT EXISTS (SELECT FROM tidings.job_done WHERE kind = 'tidings.partitions')"
            while (await (await connection.execute(made)).fetchone()) != (True,):
                await asyncio.sleep(0.02)
        working.cancel()
        await asyncio.wait([working])


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


class Forwarder(asyncio.Protocol):
    """Answers 204, and passes on the number of each request's event."""

    def __init__(self, sink: asyncio.WriteTransport) -> None:
        self._sink, self._read = sink, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep whom to answer."""
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer what is whole."""
        self._read += data
        while found := re.search(rb"content-length: ?(\d+).*?\r\n\r\n", self._read, re.DOTALL | re.IGNORECASE):
            end = found.end() + int(found[1])
            if len(self._read) < end:
                return
            number = json.loads(self._read[found.end() : end])["data"]["id"]
            self._sink.write(b"POST / HTTP/1.1\r\nwebhook-id: %d\r\ncontent-length: 0\r\n\r\n" % number)
            self._transport.write(b"HTTP/1.1 204 No Content\r\n\r\n")
            self._read = self._read[end:]


async def produce(rate: float, seconds: float, file: str) -> None:
    """Record at a rate, an event a transaction."""
    loop, sink = asyncio.get_running_loop(), urlsplit(os.environ["SINK_URL"])
    to_sink, _ = await loop.create_connection(asyncio.Protocol, sink.hostname, sink.port)
    await loop.create_server(lambda: Forwarder(to_sink), "127.0.0.1", FORWARDED)
    lines = []
    async with await psycopg.AsyncConnection.connect(DSN, autocommit=True) as connection:
        start = loop.time()
        for number in range(int(rate * seconds)):
            await asyncio.sleep(start + number / rate - loop.time())
            payload = PAYLOAD.replace('"id":1,', f'"id":{1_000_000 + number},')
            began = time.time_ns()
            await connection.execute("SELECT tidings.record(%s, %s, NULL, %s::json)", (OWNER, TIMED, payload))
            lines.append(f"{1_000_000 + number} {time.time_ns()} {began}\n")
    await asyncio.sleep(2)  # the last ones arrive
    Path(file).write_text("".join(lines))


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
        case ["produce", rate, seconds, file]:
            asyncio.run(produce(float(rate), float(seconds), file))
        case other:
            sys.exit(f"no such verb: {other}")
