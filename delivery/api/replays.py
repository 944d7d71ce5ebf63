"""Replays: deliveries sent again, and past events sent to an endpoint that came later, by a job in the background."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from delivery.api.endpoints import Unit
from delivery.api.sendable import check_sendable, named_endpoint
from delivery.errors import Conflict, InvalidInput
from delivery.jobs import JobState
from delivery.replays import NewReplay, Replay, ReplayFilter, Replays, ReplayState, Source, Tally
from subscriptions.match import parse_patterns
from subscriptions.model import EndpointTarget

#: Deliveries a second that may be asked for.
SLOWEST, FASTEST = 0.001, 1_000_000
#: The longest reason, in characters.
MAX_REASON = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """What a replay would find."""

    which: ReplayFilter  #: with the types that the endpoint's subscriptions name, where none were given
    before: datetime  #: what was finished, or recorded, before then is taken
    tally: Tally


class ReplayDesk:
    """Start replays, watch them, and step in. Another owner's replay is "not found"."""

    def __init__(self, unit: Unit, replays: Replays) -> None:
        self._unit, self._replays = unit, replays

    async def count(self, which: ReplayFilter) -> Outlook:
        """Count exactly what `start` would put back now, and what it would skip; changes nothing.

        Raises:
            NotFound: the owner has no such endpoint.
            Conflict: the endpoint is disabled or removed, or is subscribed to nothing and no types are given.
            InvalidInput: a state is not final, or only undelivered ones are asked for among completed ones.
            InvalidPattern: a type is no pattern.
        """
        which = await self._checked(which)
        before = await self._replays.now()
        return Outlook(which=which, before=before, tally=await self._replays.count(which, before=before))

    async def start(self, outlook: Outlook, *, by: str, reason: str | None = None, pace: float | None = None) -> Replay:
        """Start a replay of what was counted; `App.work` with a worker, in whatever process, runs it.

        `pace` is in deliveries a second; None = as fast as it goes.

        Raises:
            InvalidInput: the pace is out of range, or the reason too long.
        """
        self.check(pace=pace, reason=reason)
        return await self._replays.start(
            NewReplay(
                which=outlook.which,
                pace=pace,
                by=by,
                reason=reason,
                before=outlook.before,
                total=outlook.tally.seen,
            )
        )

    @staticmethod
    def check(*, pace: float | None, reason: str | None) -> None:
        """Refuse what `start` would.

        Raises:
            InvalidInput: the pace is out of range, or the reason too long.
        """
        if pace is not None and not SLOWEST <= pace <= FASTEST:
            raise InvalidInput(f"a pace of {pace} deliveries a second is not within {SLOWEST} and {FASTEST}")
        if reason is not None and len(reason) > MAX_REASON:
            raise InvalidInput(f"the reason is {len(reason)} characters long: shorten it to {MAX_REASON}")

    async def get(self, owner_id: str | None, replay_id: int) -> Replay:
        """Return one replay as it stands; None = whoever's.

        Raises:
            NotFound: the owner has no such replay.
        """
        return await self._replays.get(owner_id, replay_id)

    async def list(self, owner_id: str | None, *, limit: int = 50, before: int | None = None) -> Sequence[Replay]:
        """List replays, newest first; page on with `before` = the last id seen."""
        return await self._replays.list(owner_id, limit=limit, before=before)

    async def pause(self, owner_id: str | None, replay_id: int, *, by: str, reason: str | None = None) -> Replay:
        """Put nothing back from now on, until it is resumed; what was put back is sent as usual.

        Raises:
            NotFound: the owner has no such replay.
            Conflict: it has ended.
        """
        self.check(pace=None, reason=reason)
        return await self._replays.switch(owner_id, replay_id, ReplayState.PAUSED, by=by, reason=reason)

    async def resume(self, owner_id: str | None, replay_id: int, *, by: str, reason: str | None = None) -> Replay:
        """Go on where it stands: one that is paused, or whose job has ended.

        Raises:
            NotFound: the owner has no such replay.
            Conflict: it has ended, or its endpoint is disabled or removed.
        """
        self.check(pace=None, reason=reason)
        replay = await self._replays.get(owner_id, replay_id)
        if replay.state is ReplayState.PAUSED:
            await self._check_endpoint(replay.which)
        return await self._replays.switch(owner_id, replay_id, ReplayState.RUNNING, by=by, reason=reason)

    async def cancel(self, owner_id: str | None, replay_id: int, *, by: str, reason: str | None = None) -> Replay:
        """End it where it stands; what was put back is sent as usual.

        Raises:
            NotFound: the owner has no such replay.
            Conflict: it has completed.
        """
        self.check(pace=None, reason=reason)
        return await self._replays.switch(owner_id, replay_id, ReplayState.CANCELLED, by=by, reason=reason)

    async def _checked(self, which: ReplayFilter) -> ReplayFilter:
        live = [state.value for state in which.states if not state.is_final]
        if live:
            raise InvalidInput(
                f"only finished deliveries are replayed, not {live[0]} ones: use `tidings deliveries retry` for those"
            )
        if which.only_undelivered and JobState.COMPLETED in which.states:
            raise InvalidInput("completed deliveries were delivered: ask for them, or for undelivered ones only")
        if which.types:
            parse_patterns(which.types)
        await self._check_endpoint(which)
        if which.source is Source.EVENTS and not which.types:
            return await self._subscribed(which)
        return which

    async def _check_endpoint(self, which: ReplayFilter) -> None:
        if which.source is Source.EVENTS and (which.endpoint_id is None or which.owner_id is None):
            raise InvalidInput("past events are sent to one endpoint of their owner: name both")
        endpoint = await named_endpoint(self._unit, which.owner_id, which.endpoint_id)
        if endpoint is not None:
            check_sendable(endpoint)

    async def _subscribed(self, which: ReplayFilter) -> ReplayFilter:
        """Ask for what the endpoint is subscribed to, by patterns and filters."""
        async with self._unit() as store:
            standing = await store.subscriptions(which.owner_id)
        target = None if which.endpoint_id is None else EndpointTarget(endpoint_id=which.endpoint_id)
        theirs = [each for each in standing if each.target == target]
        if not theirs:
            raise Conflict(
                f"endpoint {which.endpoint_id} is subscribed to nothing: name the types of the events,"
                " or `tidings subscriptions add` first"
            )
        patterns = dict.fromkeys(pattern for each in theirs for pattern in each.patterns)
        return replace(which, types=tuple(patterns), sifts=any(each.filter is not None for each in theirs))
