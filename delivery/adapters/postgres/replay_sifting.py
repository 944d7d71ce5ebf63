"""Of past events for an endpoint, take those that the filters of its subscriptions let pass."""

from __future__ import annotations

import asyncio

from psycopg.rows import DictRow

from delivery.adapters.postgres.pools import Conn
from delivery.adapters.postgres.rows import subscription_of
from delivery.adapters.postgres.statements import statement
from delivery.compiler import Route, Routes, compile_routes
from delivery.replays import FILTERED, ReplayFilter
from delivery.sieve import FILTER_FAILED, Sieve
from subscriptions.model import EndpointTarget, Exposure


async def sifted(tx: Conn, which: ReplayFilter, found: DictRow) -> DictRow:
    """Return what a walk came upon without what is not wanted, which is counted as skipped, with its reason.

    An event whose filter fails is skipped, too: with `--type` it can be sent all the same.
    """
    routes = await _routes(tx, which)
    pairs = list(zip(found["ids"], found["types"], strict=True))
    asked = [event_id for event_id, event_type in pairs if routes.is_sifted(event_type, Exposure.WEBHOOK)]
    if not asked:
        return found
    cursor = await tx.execute(statement("read_payloads"), {"ids": asked})
    sieve = Sieve({row["id"]: row["data"] for row in await cursor.fetchall()})
    ids, types, skips = [], [], list(found["skips"])
    for event_id, event_type in pairs:
        targets: tuple[Route, ...] = routes.targets(event_type, Exposure.WEBHOOK)
        verdict = True
        for route in targets:  # one at most: they all lead to the endpoint
            judged = not route.filters or sieve.judge(event_id, route.filters)
            verdict = judged is True
            if not verdict:
                skips.append(FILTER_FAILED if judged else FILTERED)
        if verdict:
            ids.append(event_id)
            types.append(event_type)
        await asyncio.sleep(0)  # others have their turn between two events
    return {**found, "ids": ids, "types": types, "skips": skips}


async def _routes(tx: Conn, which: ReplayFilter) -> Routes:
    cursor = await tx.execute(statement("read_routing"), {"owner_ids": [which.owner_id]})
    standing = [subscription_of(row) for row in await cursor.fetchall()]
    target = EndpointTarget(endpoint_id=which.endpoint_id) if which.endpoint_id else None
    return compile_routes([each for each in standing if each.target == target])
