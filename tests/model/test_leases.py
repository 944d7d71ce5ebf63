"""The leases of a worker's flights: renewed while they stand; what has lost its own is stopped, and does not count."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from delivery.adapters.postgres.clock import boot_time
from delivery.adapters.postgres.leases import Leases
from delivery.adapters.postgres.tries import Flight
from delivery.errors import Unavailable

LEASE = timedelta(seconds=30)


class Answers:
    """Says which claims still stand; raises when it is told to."""

    def __init__(self, *standing: dict[str, Any], trouble: Exception | None = None) -> None:
        self.standing, self.trouble = standing, trouble

    async def fetch(self, _: bytes, __: dict[str, Any], *, quick: bool) -> list[dict[str, Any]]:
        if self.trouble is not None:
            raise self.trouble
        return list(self.standing)


def flights(left_s: float) -> dict[int, Flight]:
    """Two flights with so much of their lease left."""
    return {n: Flight({"id": n}, 1, n, boot_time() + left_s, 0.0) for n in (1, 2)}


async def test_a_flight_whose_claim_no_longer_stands_is_stopped_and_the_other_goes_on():
    mine = flights(15.0)
    before = boot_time()
    await Leases(Answers({"id": 1, "cancelled_by": None, "renewed": True}), LEASE, mine).renew()  # type: ignore[arg-type]
    assert (mine[1].lapsed, mine[1].told, mine[1].holds_lease()) == (False, False, True)
    assert mine[1].good_until >= before + LEASE.total_seconds()
    assert (mine[2].lapsed, mine[2].told, mine[2].holds_lease()) == (True, True, False)


async def test_a_flight_that_is_to_be_cancelled_is_stopped_and_keeps_its_lease():
    mine = flights(15.0)
    standing = (
        {"id": 1, "cancelled_by": "ann", "renewed": True},
        {"id": 2, "cancelled_by": None, "renewed": True},
    )
    await Leases(Answers(*standing), LEASE, mine).renew()  # type: ignore[arg-type]
    assert [(flight.told, flight.cancelled_by, flight.lapsed) for flight in mine.values()] == [
        (True, "ann", False),
        (False, None, False),
    ]


@pytest.mark.parametrize(("left_s", "stopped"), [(15.0, False), (-1.0, True)])
async def test_a_flight_whose_job_another_transaction_holds_goes_on_until_its_lease_is_over(
    left_s: float, stopped: bool
):
    mine = flights(left_s)
    before = mine[2].good_until
    standing = ({"id": 1, "cancelled_by": None, "renewed": True}, {"id": 2, "cancelled_by": None, "renewed": False})
    await Leases(Answers(*standing), LEASE, mine).renew()  # type: ignore[arg-type]
    assert [flight.lapsed for flight in mine.values()] == [False, stopped]
    assert mine[2].good_until == before


async def test_a_flight_that_is_to_be_cancelled_is_stopped_also_while_another_transaction_holds_its_job():
    mine = flights(15.0)
    standing = ({"id": 1, "cancelled_by": None, "renewed": True}, {"id": 2, "cancelled_by": "ann", "renewed": False})
    await Leases(Answers(*standing), LEASE, mine).renew()  # type: ignore[arg-type]
    assert [(flight.told, flight.cancelled_by) for flight in mine.values()] == [(False, None), (True, "ann")]


@pytest.mark.parametrize("trouble", [Unavailable("away"), ZeroDivisionError("not of this world")])
@pytest.mark.parametrize(("left_s", "stopped"), [(15.0, False), (-1.0, True)])
async def test_while_the_database_is_away_a_flight_goes_on_until_its_lease_is_over(
    left_s: float, stopped: bool, trouble: Exception
):
    mine = flights(left_s)
    with pytest.raises(type(trouble)):
        await Leases(Answers(trouble=trouble), LEASE, mine).renew()  # type: ignore[arg-type]
    assert [flight.lapsed for flight in mine.values()] == [stopped] * 2
