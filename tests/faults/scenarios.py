"""What is broken. Each scenario takes a database, a folder, a seed and a size, and returns what the checker found."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import psycopg

from delivery.adapters.postgres.database import Database
from delivery.adapters.postgres.runtime import PostgresRuntime
from delivery.jobs import NewJob
from tests.conformance.patience import stalls_of
from tests.journeys.patience import eventually
from tests.journeys.platform import Process

from . import ledger
from .books import Reader
from .checker import Acceptance, Books, Verdict, judge
from .claimers import KIND, PLACE, one_at_a_time
from .clusters import Cluster
from .proxy import proxying
from .stage import PATIENCE_S, Size, Stage, on_stage

WORKERS = ("worker 1", "worker 2")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a scenario came to."""

    verdict: Verdict
    kills: int
    notes: list[str]
    lease_s: float = 0.0
    longest_silence_s: float = 0.0  #: in which nothing was accepted, while there was work; no longer than a lease
    longest_stall_s: float = 0.0  #: in which the machine let not even this process read the database

    @property
    def wrong(self) -> list[str]:
        """Everything that breaks a promise."""
        silence = f"nothing was accepted for {self.longest_silence_s:.2f} s, longer than a lease"
        is_silent = self.longest_silence_s > self.lease_s + self.longest_stall_s
        return [*self.verdict.wrong, *([silence] if is_silent else [])]


async def outcome(stage: Stage) -> Outcome:
    """Judge what the stage has seen."""
    return Outcome(verdict=await stage.verdict(), kills=stage.kills, notes=stage.notes)


async def staff(stage: Stage, workers: tuple[str, ...] = WORKERS, **more: str) -> None:
    """Start a relay and workers."""
    roles = {"relay": "relay"} | dict.fromkeys(workers, "worker")
    await asyncio.gather(*(stage.start(name, role, **more) for name, role in roles.items()))


# Processes ------------------------------------------------------------------------------------------------------


async def workers_are_killed(dsn: str, home: Path, seed: str, size: Size) -> Outcome:
    """SIGKILL one of two workers, whichever."""
    async with on_stage(dsn, home, seed, size) as stage:
        await staff(stage)
        async for _ in stage.moments():
            await stage.kill(stage.rng.choice(WORKERS))
        return await outcome(stage)


async def relays_are_killed(dsn: str, home: Path, seed: str, size: Size) -> Outcome:
    """SIGKILL one of two relays, whichever."""
    async with on_stage(dsn, home, seed, size) as stage:
        relays = ("relay 1", "relay 2")
        await asyncio.gather(stage.start("worker", "worker"), *(stage.start(relay, "relay") for relay in relays))
        async for _ in stage.moments():
            await stage.kill(stage.rng.choice(relays))
        return await outcome(stage)


async def everything_is_killed(dsn: str, home: Path, seed: str, size: Size) -> Outcome:
    """SIGKILL relay, workers and producer at once."""
    async with on_stage(dsn, home, seed, size) as stage:
        await staff(stage)
        async for _ in stage.moments():
            await stage.kill("relay", *WORKERS, "producer")
            await stage.something_is_accepted()
        return await outcome(stage)


async def a_worker_is_frozen_past_its_lease(dsn: str, home: Path, seed: str, size: Size) -> Outcome:
    """SIGSTOP one of two workers until another has its jobs, then SIGCONT."""
    async with on_stage(dsn, home, seed, size, lease="1s") as stage:
        await staff(stage)
        async for _ in stage.moments():
            async with stage.frozen(stage.rng.choice(WORKERS)):
                await asyncio.sleep(stage.lease_s * stage.rng.uniform(1.1, 2.0))
        return await outcome(stage)


async def one_of_many_workers_is_always_down(dsn: str, home: Path, seed: str, size: Size) -> Outcome:
    """SIGKILL one worker after the other; in a soak one of four each five seconds, for a minute at least.

    There is work all the while, so something is accepted in any time as long as a lease.
    """
    number = 4 if size.seconds else 3
    if size.seconds:
        size = replace(size, every=5.0, kills=12, seconds=max(size.seconds, 60.0))
    workers = tuple(f"worker {n}" for n in range(1, number + 1))
    async with on_stage(dsn, home, seed, size, lease="5s") as stage:
        await staff(stage, workers)
        reader = Reader(dsn, "webhook.deliver")

        async def look() -> None:
            await asyncio.sleep(0.2)
            await reader.left()

        async with stalls_of(look) as stalls:
            async for n in stage.moments():
                await stage.kill(workers[n % number])
            at, stall = stage.accepted_at(), stalls.longest_s
        gap = max((later - earlier for earlier, later in itertools.pairwise(at)), default=0.0)
        stage.notes.append(f"longest silence {gap:.2f} s, stall {stall:.2f} s, the lease is {stage.lease_s:.0f} s")
        return replace(await outcome(stage), lease_s=stage.lease_s, longest_silence_s=gap, longest_stall_s=stall)


async def clocks_are_wrong(dsn: str, home: Path, seed: str, size: Size) -> Outcome:
    """One worker's clock is 90 s slow, the other's and the relay's 90 s fast; one of the workers is killed."""
    async with on_stage(dsn, home, seed, size) as stage:
        wrong = {"worker 1": ("worker", "-90"), "worker 2": ("worker", "90"), "relay": ("relay", "90")}
        await asyncio.gather(
            *(
                stage.start(name, role, module="tests.faults.altered", SKEW_S=skew)
                for name, (role, skew) in wrong.items()
            )
        )
        async for _ in stage.moments():
            await stage.kill(stage.rng.choice(WORKERS))
        return await outcome(stage)


# The database ---------------------------------------------------------------------------------------------------


async def connections_are_cut(dsn: str, home: Path, seed: str, size: Size) -> Outcome:
    """Reset every connection, stall every one, or delay what they carry by 200 ms; nothing is started again.

    A stall comes anywhere, within a statement too. The server does not hear that a client gave a stalled connection up:
    what its session holds is held until `idle_in_transaction_session_timeout`, or `transaction_timeout`, which are
    shortened here.
    """
    options = "-c idle_in_transaction_session_timeout=3s"
    with psycopg.connect(dsn) as connection:
        knows = connection.info.server_version >= 170_000
    options += " -c transaction_timeout=10s" if knows else ""
    async with (
        proxying(dsn) as proxy,
        on_stage(dsn, home, seed, size, through=proxy.dsn(dsn, options=options)) as stage,
    ):
        await staff(stage, statement_deadline="2s", claim_deadline="2s", relay_deadline="2s")
        async for n in stage.moments():
            if n % 3 == 0:
                stage.fault("reset", connections=proxy.reset())
            elif n % 3 == 1:
                stage.fault("stall", connections=proxy.stall(after=stage.rng.randrange(20_000) if knows else 0))
            else:
                stage.fault("delay")
                proxy.delay_s = 0.2
                await asyncio.sleep(2.0)
                proxy.delay_s = 0.0
            await stage.something_is_accepted()
        return await outcome(stage)


async def a_snapshot_is_held(dsn: str, home: Path, seed: str, size: Size) -> Outcome:
    """Hold a REPEATABLE READ transaction open all the while, and SIGKILL workers beside it."""
    async with (
        on_stage(dsn, home, seed, size) as stage,
        await psycopg.AsyncConnection.connect(dsn) as connection,
    ):
        await connection.set_isolation_level(psycopg.IsolationLevel.REPEATABLE_READ)
        await connection.execute("SELECT count(*) FROM tidings.job")
        await staff(stage)
        async for _ in stage.moments():
            await stage.kill(stage.rng.choice(WORKERS))
        result = await outcome(stage)
        cursor = await connection.execute("SELECT count(*) FROM tidings.event")
        assert await cursor.fetchone() == (0,), "the snapshot was not held"
        return result


async def the_server_is_killed(cluster: Cluster, home: Path, seed: str, size: Size) -> Outcome:
    """SIGKILL PostgreSQL, and start it again."""
    async with on_stage(cluster.dsn, home, seed, size) as stage:
        await staff(stage)
        async for _ in stage.moments():
            since = cluster.kill()
            await asyncio.sleep(stage.rng.uniform(0.0, 0.5))
            await cluster.is_up()
            stage.crashed(since)
        return await outcome(stage)


async def the_server_refuses_writes(cluster: Cluster, home: Path, seed: str, size: Size) -> Outcome:
    """Turn `default_transaction_read_only` on, for every session at once, and off again."""
    async with on_stage(cluster.dsn, home, seed, size) as stage:
        await staff(stage)
        try:
            async for _ in stage.moments():
                stage.fault("read-only")
                cluster.read_only(True)
                await asyncio.sleep(stage.rng.uniform(0.2, 0.8) * stage.lease_s)
                cluster.read_only(False)
                await stage.something_is_accepted()
        finally:
            cluster.read_only(False)
        return await outcome(stage)


async def the_disk_is_full(cluster: Cluster, home: Path, seed: str, size: Size) -> Outcome:
    """Leave the file system of PostgreSQL without a free byte, then give it room again."""
    async with on_stage(cluster.dsn, home, seed, size) as stage:
        await staff(stage)
        try:
            async for _ in stage.moments():
                since = cluster.fill()
                await asyncio.sleep(stage.rng.uniform(0.2, 0.8) * stage.lease_s)
                cluster.make_room()
                await cluster.is_up()
                stage.crashed(since)  # a full disk under the log is a crash, too
        finally:
            cluster.make_room()
        return await outcome(stage)


# One lane -------------------------------------------------------------------------------------------------------


async def fifty_processes_claim_one_lane(dsn: str, home: Path, seed: str, size: Size) -> Outcome:
    """Five processes of ten runtimes each claim a lane with limit 1; SIGKILL the one that runs its job."""
    stage = Stage(home=home, dsn=dsn, through=dsn, seed=seed, size=size, keys="", pace={})
    lease_s = 2.0
    ran = home / "ran"

    async def start(name: str) -> Process:
        arguments = (dsn, str(ran), str(home / "lock"), "10", str(lease_s))
        return await stage.spawn(name, "tests.faults.claimers", *arguments)

    reader = Reader(dsn, KIND)
    try:
        names = [f"claimers {n}" for n in range(1, 6)]
        for process in await asyncio.gather(*(start(name) for name in names)):
            await process.says("ready", PATIENCE_S)
        async with enqueueing(dsn, home) as enqueue:
            done = 0
            for pause in size.pauses(stage.rng):
                fates = await enqueue(max(size.deliveries // size.kills, 1))
                await eventually(lambda done=done: sum("pid" in line for line in ledger.read(ran)) > done, PATIENCE_S)
                await asyncio.sleep(min(pause, 0.3))
                done = len(lines := [line for line in ledger.read(ran) if "pid" in line])
                [running] = [n for n in names if stage.processes[n].pid == lines[-1]["pid"]] or [names[0]]
                await stage.processes[running].kill()
                stage.fault(f"kill {running}")
                await start(running)
                if stage.kills >= size.kills and len(fates) >= size.deliveries:
                    break

        async def nothing_left() -> bool:
            return await reader.left() == 0

        await eventually(nothing_left, 2 * PATIENCE_S)
        books = await lane_books(reader, ran, fates)
    finally:
        await stage.tear_down()
    return Outcome(verdict=judge(books), kills=stage.kills, notes=["50 runtimes in 5 processes"])


@asynccontextmanager
async def enqueueing(dsn: str, home: Path) -> AsyncIterator[Callable[[int], Awaitable[dict[str, str]]]]:
    """Put jobs on the lane; gives what was committed so far."""
    database = Database(dsn, size=2)
    await database.open()
    jobs = PostgresRuntime(database, [one_at_a_time(ledger.Ledger(home / "unused"), home / "unused")])
    fates: dict[str, str] = {}

    async def enqueue(number: int) -> dict[str, str]:
        names = [f"turn {len(fates) + n}" for n in range(number)]
        await jobs.enqueue_many([NewJob(kind=KIND, args={"event_id": name, "endpoint_id": PLACE}) for name in names])
        fates.update(dict.fromkeys(names, "committed"))
        return fates

    yield enqueue
    await database.close()


async def lane_books(reader: Reader, ran: Path, fates: dict[str, str]) -> Books:
    """Read the books of jobs: what a handler began is what a receiver accepts elsewhere."""
    lines = list(ledger.read(ran))
    lapsed = [(line["since"], line["at"]) for line in lines if "lapsed" in line]
    overlaps = [line["at"] for line in lines if "overlap" in line]
    return Books(
        fates=fates,
        changes=None,
        kept=set(fates),
        places=[PLACE],
        acceptances=[
            Acceptance(at=line["at"], event=line["event"], place=PLACE, digest="") for line in lines if "event" in line
        ],
        jobs=await reader.jobs(),
        tries=await reader.tries(),
        overlaps=sum(not any(since <= at <= until for since, until in lapsed) for at in overlaps),
    )


Scenario = Callable[[str, Path, str, Size], Awaitable[Outcome]]
ServerScenario = Callable[[Cluster, Path, str, Size], Awaitable[Outcome]]

#: On any database.
SCENARIOS: tuple[Scenario, ...] = (
    workers_are_killed,
    relays_are_killed,
    everything_is_killed,
    a_worker_is_frozen_past_its_lease,
    one_of_many_workers_is_always_down,
    clocks_are_wrong,
    connections_are_cut,
    a_snapshot_is_held,
    fifty_processes_claim_one_lane,
)
#: On a server of their own.
SERVER_SCENARIOS: tuple[ServerScenario, ...] = (the_server_is_killed, the_server_refuses_writes)
#: On a server of its own, on a small file system of its own.
DISK_SCENARIO: ServerScenario = the_disk_is_full
