"""What one delivery is made of (port)."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol
from uuid import UUID

from delivery.events import Event
from delivery.values import valueclass
from subscriptions.model import Endpoint, Exposure, RetryPolicy
from subscriptions.store import StoredKey

#: An event of the platform's own: deliveries to an endpoint were discarded.
DISCARDED = "tidings.delivery.discarded"


@valueclass
class Parcel:
    """An event on its way to an endpoint, as both stand now."""

    event: Event
    exposure: Exposure
    endpoint: Endpoint
    policy: RetryPolicy  #: that the endpoint names
    keys: tuple[StoredKey, ...]  #: not expired, newest first, sealed
    loaded_at: datetime  #: on the database's clock, which signatures are dated by
    is_failing: bool = False  #: the endpoint's last try that counts failed (see `delivery.health`)


class Deliveries(Protocol):
    """Find what is to be sent."""

    async def load(self, event_id: UUID, endpoint_id: UUID) -> Parcel | None:
        """Return the parcel, or None where the event or the endpoint is no longer kept.

        Raises:
            Unavailable: the database did not answer.
            SealError: the endpoint's headers cannot be opened.
        """
