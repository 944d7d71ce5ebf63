"""One platform with its producer and its receiver, all in processes of their own, and what is done to them."""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import signal
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import psycopg

from delivery import open_app
from subscriptions.model import Exposure
from tests.journeys.patience import eventually
from tests.journeys.platform import OWNER, TYPE, Process, new_keys, settings_of

from . import ledger
from .books import Reader, fates, read_deliveries
from .checker import Verdict, judge
from .receiver import DEADLINE_S

ROOT = Path(__file__).parents[2]
PATHS = ("/a", "/b")
#: Whoever says nothing for two seconds is dead.
PACE = {"lease": "2s", "shard_lease": "1s", "poll": "0.3s", "relay_poll": "0.05s", "grace": "1s", "pool_size": "4"}
#: How long whatever is left may take in the end, in seconds. It says nothing about speed: the machine may be busy.
PATIENCE_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much of it."""

    deliveries: int
    kills: int
    seconds: float = 0.0  #: go on breaking things for at least that long, if it takes less
    rate: float = 50.0  #: events a second
    every: float | None = None  #: break something each so many seconds; None = at random moments

    def pauses(self, rng: random.Random) -> Iterator[float]:
        """Give the pauses between faults, in seconds."""
        if self.every is not None:
            yield from itertools.repeat(self.every)
        mean = 0.7 * self.seconds / self.kills or 0.6
        for number in itertools.count():
            yield mean * rng.uniform(0.3, 1.5) * (1 if number < self.kills else 3)  # enough are dead: let them work


@dataclass(kw_only=True)
class Stage:
    """What the scenarios play on."""

    home: Path
    dsn: str  #: straight to the database
    through: str  #: what the platform and the producer are given
    seed: str
    size: Size
    keys: str
    pace: dict[str, str]
    places: dict[str, str] = field(default_factory=dict)  #: endpoint ids by their paths
    processes: dict[str, Process] = field(default_factory=dict)
    kills: int = 0
    notes: list[str] = field(default_factory=list)  #: a scenario's own figures

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self._faults = ledger.Ledger(self.home / "faults")
        self._roles: dict[str, tuple[str, dict[str, str]]] = {}

    @property
    def lease_s(self) -> float:
        """How long a claimed job is kept from others."""
        return settings_of(self.dsn, {"keys": self.keys} | self.pace).lease.total_seconds()

    # Processes --------------------------------------------------------------------------------------------------

    async def spawn(self, name: str, *command: str, **environment: str) -> Process:
        """Start `python -m ...`; what it logs goes to a file of its name."""
        with (self.home / f"{name}.log").open("ab") as log:
            started = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                *command,
                cwd=ROOT,
                env=os.environ | {"PYTHONPATH": str(ROOT)} | environment,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
            )
        self.processes[name] = process = Process(started)
        return process

    async def start(self, name: str, role: str = "all", *, module: str = "tests.journeys.worker", **more: str) -> None:
        """Start a process of the platform and wait until it works; `more` is settings, upper-case names as they are."""
        self._roles[name] = role, {"module": module} | more
        process = await self._launch(name)
        await process.says("ready", PATIENCE_S)

    async def _launch(self, name: str) -> Process:
        role, more = self._roles[name]
        settings = {"database_url": self.through, "keys": self.keys, "allow": "127.0.0.0/8"} | self.pace
        environment = {f"TIDINGS_{key.upper()}": value for key, value in settings.items()}
        environment |= {key if key.isupper() else f"TIDINGS_{key.upper()}": value for key, value in more.items()}
        return await self.spawn(name, environment.pop("TIDINGS_MODULE"), role, **environment)

    async def kill(self, *names: str) -> None:
        """Kill these processes at once, and start them again without waiting for them."""
        for name in names:
            self.processes[name].freeze()  # so that "at once" is true of more than one
        for name in names:
            await self.processes[name].kill()
            self.fault(f"kill {name}")
        for name in names:
            await (self.produce() if name == "producer" else self._launch(name))

    @asynccontextmanager
    async def frozen(self, name: str) -> AsyncIterator[None]:
        """Stop a process in its tracks meanwhile."""
        self.processes[name].freeze()
        self.fault(f"freeze {name}")
        yield
        os.kill(self.processes[name].pid, signal.SIGCONT)
        self._faults.write(what="thaw", name=name)

    def fault(self, what: str, **more: float) -> None:
        """Write down what is broken, which counts as a kill."""
        self.kills += 1
        self._faults.write(what=what, **more)

    def crashed(self, since: float) -> None:
        """Write down that the server was gone from then until now."""
        self.fault("server crash", since=since)

    # The load ---------------------------------------------------------------------------------------------------

    async def produce(self) -> None:
        """Start the producer; each start records other things."""
        seed = f"{self.seed} {self.rng.random()}"
        await self.spawn(
            "producer",
            *("tests.faults.producer", self.through, str(self.home / "produced"), seed, str(self.size.rate)),
        )

    async def moments(self) -> AsyncIterator[int]:
        """Come back at random moments under load until enough was broken; leaves with enough recorded."""
        await self.produce()
        began = time.monotonic()
        await self._recorded(1)
        for number, pause in enumerate(self.size.pauses(self.rng)):
            if self._is_enough(number, time.monotonic() - began):
                break
            await asyncio.sleep(pause)
            yield number
        if not self.size.seconds:
            await self._recorded(self.size.deliveries // len(PATHS))
        self.processes["producer"].terminate()
        code = await self.processes["producer"].ended()
        assert code in {0, -signal.SIGTERM}, (self.home / "producer.log").read_text()  # it may have just begun

    def _is_enough(self, faults: int, took_s: float) -> bool:
        """Say whether enough was broken; a soak waits for enough deliveries under faults, but not for ever."""
        if not self.size.seconds:
            return faults >= self.size.kills
        enough = faults >= self.size.kills and self._committed() >= self.size.deliveries // len(PATHS)
        return took_s >= self.size.seconds * (1 if enough else 3)

    def _committed(self) -> int:
        return sum(fate == "committed" for fate in fates(self.home / "produced").values())

    async def _recorded(self, events: int) -> None:
        """Wait until so many were committed."""
        await eventually(lambda: self._committed() >= events, PATIENCE_S)

    async def all_live(self) -> None:
        """See that no process of the platform ended by itself."""
        for name in self._roles:
            with suppress(TimeoutError):
                code = await self.processes[name].ended(0.05)
                raise AssertionError(f"{name} ended with {code}: {(self.home / f'{name}.log').read_text()[-2000:]}")

    async def verdict(self) -> Verdict:
        """Give the platform its time to end everything, then judge."""
        await self.all_live()
        reader = Reader(self.dsn, "webhook.deliver")

        async def nothing_left() -> bool:
            return await reader.left() == 0

        try:
            await eventually(nothing_left, PATIENCE_S)
        except AssertionError:
            self.notes.append("something never ended")  # the checker says what
        await self.all_live()
        return judge(await read_deliveries(self.dsn, self.home, self.places, self.lease_s))

    async def something_is_accepted(self) -> None:
        """Wait until the next delivery is accepted: the platform works."""
        before = len(self.accepted_at())
        await eventually(lambda: len(self.accepted_at()) > before, PATIENCE_S)

    def accepted_at(self) -> list[float]:
        """Read when deliveries were accepted."""
        return sorted(line["at"] for line in ledger.read(self.home / "received") if line.get("accepted"))

    # Its beginning and end --------------------------------------------------------------------------------------

    async def set_up(self) -> None:
        """Start the receiver, and subscribe its endpoints to the one type of event."""
        received = self.home / "received"
        await self.spawn("receiver", "tests.faults.receiver", str(received), self.seed)
        first = await eventually(lambda: next(ledger.read(received), None), PATIENCE_S)
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute("CREATE TABLE public.change (event uuid PRIMARY KEY)")
        async with open_app(settings_of(self.dsn, {"keys": self.keys} | self.pace)) as app:
            await app.event_types.declare(TYPE, by="test", exposure=Exposure.WEBHOOK)
            for path in PATHS:
                url, timeout = f"http://127.0.0.1:{first['port']}{path}", timedelta(seconds=DEADLINE_S)
                endpoint, _ = await app.endpoints.add(OWNER, url, by="test", policy="quick", timeout=timeout)
                await app.subscriptions.add(OWNER, f"to {path}", [TYPE], endpoint.id, by="test", future=True)
                self.places[path] = str(endpoint.id)

    async def tear_down(self) -> None:
        """Kill whatever still runs."""
        for process in self.processes.values():
            await process.kill()


@asynccontextmanager
async def on_stage(
    dsn: str, home: Path, seed: str, size: Size, *, through: str | None = None, **pace: str
) -> AsyncIterator[Stage]:
    """Set the stage on a migrated database that nobody else uses; `home` is an empty folder for the ledgers."""
    stage = Stage(home=home, dsn=dsn, through=through or dsn, seed=seed, size=size, keys=new_keys(), pace=PACE | pace)
    try:
        await stage.set_up()
        yield stage
    finally:
        await stage.tear_down()
