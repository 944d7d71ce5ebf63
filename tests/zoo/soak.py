"""Deliver to the whole zoo over and over, and see that nothing is left behind: `make zoo`, or with options
`python -m tests.zoo.soak --deliveries 100000`.

Prints a line for each round: deliveries so far, how they ended, and what the process holds.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import resource
import sys
import tempfile
import tracemalloc
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import timedelta
from itertools import cycle, islice
from pathlib import Path

from delivery.adapters.http import LOCAL, Guard, HttpChannel
from delivery.channels import Message, Reply
from tests.delivery.adapters.http.receivers import Names

from .cage import receivers
from .open import Zoo
from .test_zoo import code_of, open_files

AT_ONCE = 100


@dataclass(frozen=True)
class Holdings:
    """What the process holds between two rounds."""

    deliveries: int
    codes: Counter[str]
    traced: int  #: bytes that Python allocated
    sockets: int
    tasks: int

    def __str__(self) -> str:
        """Write it on a line."""
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // (1024 if sys.platform == "linux" else 1_048_576)
        return (
            f"{self.deliveries:,} deliveries, {len(self.codes)} outcomes: {self.traced / 1024:,.0f} KiB traced, "
            f"{self.sockets} files, {self.tasks} tasks, at most {peak:,} MiB"
        )


async def rounds(zoo: Zoo, deliveries: int, of: int) -> AsyncIterator[Holdings]:
    """Deliver in rounds; after the last one the channel is closed, and the last holdings are without it."""
    doors = [("127.0.0.1", zoo.ports[name]) for name, each in receivers().items() if each.door]
    names = {f"{name}.example.com".replace("_", "-"): each.addresses or () for name, each in receivers().items()}
    channel = HttpChannel(
        Guard(allowed=LOCAL, denied=doors), resolver=Names(names), ssl_context=zoo.authority.client_context()
    )
    messages, codes = cycle(message(zoo, name) for name in receivers()), Counter[str]()
    done, files, tasks = 0, open_files(), len(asyncio.all_tasks())
    tracemalloc.start()
    try:
        while done < deliveries:
            await one_round(channel, list(islice(messages, of)), codes)
            done += of
            await settle(lambda: len(asyncio.all_tasks()) <= tasks)
            yield holdings(done, codes)
        await channel.aclose()
        await settle(lambda: len(asyncio.all_tasks()) <= tasks and open_files() <= files)
        yield holdings(done, codes)
    finally:
        tracemalloc.stop()
        await channel.aclose()


async def settle(is_quiet: Callable[[], bool]) -> None:
    """Let what ended just now go; who looks finds what stays."""
    for _ in range(200):
        await asyncio.sleep(0)
        gc.collect()
        if is_quiet():
            return
        await asyncio.sleep(0.05)


async def one_round(channel: HttpChannel, messages: list[Message], codes: Counter[str]) -> None:
    left = iter(messages)

    async def send() -> None:
        for each in left:
            answer = await channel.send(each)
            if isinstance(answer, Reply):
                assert len(answer.body) <= 16_384
            codes[code_of(answer)] += 1

    async with asyncio.TaskGroup() as tasks:
        for _ in range(AT_ONCE):
            tasks.create_task(send())


def message(zoo: Zoo, name: str) -> Message:
    receiver = receivers()[name]
    host = "127.0.0.1" if receiver.addresses is None else f"{name}.example.com".replace("_", "-")
    return Message(
        owner_id="acme",
        url=f"{'http' if receiver.tls is None else 'https'}://{host}:{zoo.ports[name]}/in",
        headers=(("content-type", "application/json"), ("webhook-id", "evt_1")),
        body=b"x" * 600,
        timeout=timedelta(seconds=0.3 if receiver.ends == "deadline" else 20),
    )


def holdings(deliveries: int, codes: Counter[str]) -> Holdings:
    gc.collect()
    traced, _ = tracemalloc.get_traced_memory()
    return Holdings(deliveries, codes.copy(), traced, open_files(), len(asyncio.all_tasks()))


async def main(deliveries: int, of: int) -> None:
    """Run the long form."""
    with tempfile.TemporaryDirectory() as folder:
        zoo = Zoo(Path(folder))
        try:
            async for held in rounds(zoo, deliveries, of):
                print(held, flush=True)
            print(*(f"{code} {count:,}" for code, count in held.codes.most_common()), sep=", ")
        finally:
            zoo.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--deliveries", type=int, default=10_000)
    parser.add_argument("--of", type=int, default=1_000, help="deliveries in a round")
    given = parser.parse_args()
    asyncio.run(main(given.deliveries, given.of))
