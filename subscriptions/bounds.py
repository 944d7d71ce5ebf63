"""What the numbers of an endpoint may be."""

from __future__ import annotations

from subscriptions.errors import InvalidEndpoint
from subscriptions.model import Endpoint
from subscriptions.policies import check_timeout

#: Deliveries that an endpoint may have in flight at once.
MAX_LIMIT = 1000


def check_bounds(endpoint: Endpoint) -> None:
    """See that limit, timeout and rate can be.

    Raises:
        InvalidEndpoint: one cannot; the message says which, and what may be.
    """
    if not 1 <= endpoint.limit <= MAX_LIMIT:
        raise InvalidEndpoint(f"a limit of {endpoint.limit} is not allowed: give 1 to {MAX_LIMIT}")
    if endpoint.timeout is not None:
        check_timeout(endpoint.timeout, InvalidEndpoint)
    if endpoint.rate:
        endpoint.rate.check()
