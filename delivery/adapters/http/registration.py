"""Refuse a URL at once that could never be dialled.

This is a courtesy to whoever registers it. The promise is kept elsewhere, at every dial.
"""

from __future__ import annotations

from .faults import SendError
from .guard import Blocked, Guard
from .judge import Judge
from .proxy import Proxy
from .resolver import Resolver
from .targets import target_of


async def blocked_url(
    url: str, owner_id: str, *, guard: Guard, resolver: Resolver, proxy: Proxy | None = None
) -> Blocked | None:
    """Return why none of the URL's addresses may be dialled now; None = it may.

    A name that does not resolve is accepted: its DNS entry may come later.

    Raises:
        InvalidEndpoint: the URL itself cannot be sent to.
    """
    origin = target_of(url).origin
    try:
        judged = await Judge(guard, resolver, proxy).judge(origin, owner_id)
    except SendError:
        return None
    return None if judged.vetted or not judged.blocked else judged.blocked[0]
