"""What a process tells of its work: as much as happened, in as many series for one endpoint as for a thousand."""

from __future__ import annotations

from delivery.app.watch import Watch
from delivery.compiler import DELIVER
from delivery.metrics import ATTEMPT_S, ATTEMPTS, CLAIMED, JOBS, JOINT, RELAYED_EVENTS, RELAYED_JOBS, SETTLED

from .patience import eventually
from .platform import Platform
from .receivers import Receiver, reply

ENDPOINTS = 1_000


async def gone(_: object) -> bytes:
    return reply(410)


async def test_a_thousand_endpoints_make_no_more_series_than_one(platform: Platform, receiver: Receiver) -> None:
    await platform.endpoint("/first")
    async with platform.working(worker=False) as app:
        await platform.record(1)
        await platform.relayed()
    async with platform.working() as app:
        await platform.ended()
        watch = Watch(app._parts)
        await eventually(lambda: settled(watch) == 1)
        before = series(watch)
        for number in range(ENDPOINTS):
            await platform.endpoint(f"/{number}", owner_id=f"owner-{number % 100}")
        for number in range(100):
            await platform.record(1, owner_id=f"owner-{number}")
        ended = await platform.ended(110)
        await eventually(lambda: settled(watch) == 1 + ENDPOINTS)
        numbers = watch.numbers()
    assert ended == {"completed": 1 + ENDPOINTS}
    assert numbers[ATTEMPTS.name] == {f"delivered{JOINT}http_2xx": [1.0 + ENDPOINTS]}
    assert sum(numbers[ATTEMPT_S.name]["delivered"][:-1]) == 1 + ENDPOINTS
    assert numbers[RELAYED_EVENTS.name][""] == [100.0]
    assert numbers[RELAYED_JOBS.name][""] == [float(ENDPOINTS)]
    assert numbers[CLAIMED.name][""][0] >= ENDPOINTS
    assert numbers[SETTLED.name][""][0] >= ENDPOINTS
    upkeep = {each for each in series(watch) if each[1].startswith("tidings.")}  # comes and goes by the clock
    relay = {each for each in series(watch) if each[0].startswith("tidings_relay")}  # there was nothing to relay before
    assert series(watch) - upkeep - relay == before - upkeep - relay


async def test_each_way_in_which_a_delivery_ends_is_counted_once(platform: Platform, receiver: Receiver) -> None:
    receiver.answer(gone, "/gone")
    await platform.endpoint("/fine")
    await platform.endpoint("/gone")
    async with platform.working() as app:
        await platform.record(1)
        await platform.ended()
        watch = Watch(app._parts)
        await eventually(lambda: settled(watch, "completed") == 1 and settled(watch, "discarded") == 1)
        numbers = watch.numbers()
    assert numbers[ATTEMPTS.name] == {f"delivered{JOINT}http_2xx": [1.0], f"permanent{JOINT}http_4xx": [1.0]}


def settled(watch: Watch, state: str = "completed") -> float:
    return watch.numbers().get(JOBS.name, {}).get(f"{DELIVER}{JOINT}{state}", [0.0])[0]


def series(watch: Watch) -> set[tuple[str, str]]:
    return {(name, labels) for name, values in watch.numbers().items() for labels in values}
