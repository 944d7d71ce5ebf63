"""Keep the leases of the jobs that run here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta

from delivery.adapters.postgres.clock import boot_time
from delivery.adapters.postgres.database import Database
from delivery.adapters.postgres.statements import statement
from delivery.adapters.postgres.tries import Flight

#: A lease is renewed once less than this share of it is left.
RENEW_BELOW = 0.8


class Leases:
    """The leases of one process's flights; call `renew` at least four times a lease."""

    def __init__(self, database: Database, lease: timedelta, flights: Mapping[int, Flight]) -> None:
        self._database, self._lease, self._flights = database, lease, flights

    async def renew(self) -> None:
        """Lengthen the leases of what runs; stop what has lost its own, and what is to be cancelled."""
        called, lease_s = boot_time(), self._lease.total_seconds()
        due = sorted(
            (f for f in self._flights.values() if f.cancelled_by or f.good_until - called < lease_s * RENEW_BELOW),
            key=lambda flight: flight.row["id"],
        )
        if not due:
            return
        parameters = {
            "ids": [flight.row["id"] for flight in due],
            "leases": [flight.lease for flight in due],
            "lease_for": self._lease,
        }
        try:
            rows = await self._database.fetch(statement("renew_leases"), parameters, quick=True)
        except Exception:
            _drop(flight for flight in due if not flight.holds_lease())
            raise
        told = {row["id"]: row for row in rows}
        _drop(flight for flight in due if flight.row["id"] not in told)
        for flight in due:
            row = told.get(flight.row["id"])
            if row is None:
                continue
            if row["renewed"]:
                flight.good_until = called + lease_s
                flight.cancelled_by = row["cancelled_by"]
            elif not flight.holds_lease():  # another transaction holds the row, and held it for too long
                _drop([flight])
            if row["cancelled_by"] is not None:
                flight.cancelled_by = row["cancelled_by"]
                flight.cancel()


def _drop(flights: Iterable[Flight]) -> None:
    """Stop handlers whose jobs others may run by now; their results count for nothing."""
    for flight in flights:
        flight.lapsed = True
        flight.cancel()
