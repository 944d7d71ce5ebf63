"""Whether anything can be sent to an endpoint, asked before deliveries are put back for it."""

from __future__ import annotations

from uuid import UUID

from delivery.api.endpoints import Unit
from delivery.errors import Conflict, NotFound
from subscriptions.errors import no_endpoint
from subscriptions.model import Endpoint, EndpointState


async def named_endpoint(unit: Unit, owner_id: str | None, endpoint_id: UUID | None) -> Endpoint | None:
    """Return the endpoint that an owner's filter names; None where it names none, or is of every owner.

    Raises:
        NotFound: the owner has no such endpoint.
    """
    if endpoint_id is None or owner_id is None:
        return None
    async with unit() as store:
        endpoint = await store.endpoint(owner_id, endpoint_id)
    if endpoint is None:
        raise NotFound(no_endpoint(owner_id, endpoint_id))
    return endpoint


def check_sendable(endpoint: Endpoint) -> None:
    """Refuse an endpoint that nothing is sent to.

    Raises:
        Conflict: it is disabled or removed.
    """
    if endpoint.state is EndpointState.REMOVED:
        raise Conflict(f"endpoint {endpoint.id} was removed: nothing can be sent to it")
    if endpoint.state is EndpointState.DISABLED:
        raise Conflict(
            f"endpoint {endpoint.id} is disabled ({endpoint.state_reason}):"
            f" `tidings endpoints enable {endpoint.id}` first"
        )
