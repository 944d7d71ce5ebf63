"""Deliveries: one event on its way to one endpoint."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from uuid import UUID

from delivery import replay
from delivery.api import watching
from delivery.api.endpoints import Unit
from delivery.api.sendable import check_sendable, named_endpoint
from delivery.attempts import Attempt
from delivery.compiler import DELIVER
from delivery.errors import Conflict, NotFound, Unavailable
from delivery.events import Event, EventLog
from delivery.jobs import Inspector, JobId, JobOutcome, JobRow
from delivery.replay import DeliveryFilter
from subscriptions.model import Endpoint, RetryPolicy
from subscriptions.policy_registry import policy_of


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryStory:
    """One delivery from its event to its last attempt."""

    job: JobRow
    event: Event | None  #: None = no longer kept
    endpoint: Endpoint | None
    policy: RetryPolicy | None  #: that the endpoint names
    attempts: tuple[Attempt, ...]


class DeliveryDesk:
    """Look at deliveries, and step in. Another owner's delivery is "not found"."""

    def __init__(self, unit: Unit, log: EventLog, jobs: Inspector) -> None:
        self._unit, self._log, self._jobs = unit, log, jobs

    async def list(self, which: DeliveryFilter, *, limit: int = 50, before: JobId | None = None) -> Sequence[JobRow]:
        """List deliveries, newest first; page on with `before` = the last id seen."""
        await self._check_endpoint(which)
        return await self._jobs.list(which.as_jobs(), limit=limit, before=before)

    async def get(self, owner_id: str, delivery_id: JobId) -> DeliveryStory:
        """Tell one delivery's story.

        Raises:
            NotFound: the owner has no such delivery.
        """
        job = await self._find(owner_id, delivery_id)
        try:
            event, _ = await self._log.get(owner_id, UUID(job.args["event_id"]))
        except NotFound:
            event = None
        attempts = await self._jobs.attempts(delivery_id)
        async with self._unit() as store:
            endpoint = await store.endpoint(owner_id, UUID(job.args["endpoint_id"]))
            policy = None if endpoint is None else await policy_of(store, endpoint)
        return DeliveryStory(job=job, event=event, endpoint=endpoint, policy=policy, attempts=tuple(attempts))

    async def retry(self, owner_id: str, delivery_id: JobId) -> JobRow:
        """Send now: past a pause or a wait; a finished one with a new budget.

        Raises:
            NotFound: the owner has no such delivery.
            Conflict: it is being sent right now, or its endpoint is disabled or removed.
        """
        job = await self._find(owner_id, delivery_id)
        endpoint = await self._endpoint(owner_id, job)
        if endpoint is None:
            raise Conflict(f"the endpoint of delivery {delivery_id} is not there: nothing can be sent to it")
        check_sendable(endpoint)
        return await self._jobs.retry(delivery_id, owner_id=owner_id)

    async def cancel(self, owner_id: str, delivery_id: JobId, *, by: str) -> JobRow:
        """End a delivery that waits; one that is being sent may still arrive."""
        await self._find(owner_id, delivery_id)
        return await self._jobs.cancel(delivery_id, by=by, owner_id=owner_id)

    async def count_replay(self, which: DeliveryFilter) -> int:
        """Count what `replay` would put back now."""
        await self._check_endpoint(which, sendable=True)
        return await replay.count(self._jobs, which)

    async def replay(self, which: DeliveryFilter) -> AsyncIterator[int]:
        """Put finished deliveries back, discarded ones where no state is named; yields how many each step moved.

        Raises:
            NotFound: the owner has no such endpoint.
            Conflict: the endpoint is disabled or removed.
            InvalidInput: a state that is not final is named.
        """
        await self._check_endpoint(which, sendable=True)
        async for moved in replay.replay(self._jobs, which):
            yield moved

    async def watch(
        self,
        which: DeliveryFilter,
        *,
        started: Callable[[], None] = lambda: None,
        away: Callable[[Unavailable], None] = lambda _: None,
    ) -> AsyncGenerator[JobOutcome, None]:
        """Yield deliveries from now on as they end, or fail and wait to be tried again, until it is cancelled.

        `started` is called once what comes is seen; `away` each time that the database does not answer meanwhile.

        Raises:
            NotFound: the owner has no such endpoint.
        """
        await self._check_endpoint(which)
        async for outcome in watching.watch(self._jobs, which.as_jobs(), started=started, away=away):
            yield outcome

    async def _find(self, owner_id: str, delivery_id: JobId) -> JobRow:
        try:
            job = await self._jobs.get(delivery_id, owner_id=owner_id)
        except NotFound:
            job = None
        if job is None or job.kind != DELIVER:
            raise NotFound(
                f"owner {owner_id!r} has no delivery {delivery_id}: `tidings deliveries list` shows those it has"
            )
        return job

    async def _endpoint(self, owner_id: str, job: JobRow) -> Endpoint | None:
        async with self._unit() as store:
            return await store.endpoint(owner_id, UUID(job.args["endpoint_id"]))

    async def _check_endpoint(self, which: DeliveryFilter, *, sendable: bool = False) -> None:
        endpoint = await named_endpoint(self._unit, which.owner_id, which.endpoint_id)
        if sendable and endpoint is not None:
            check_sendable(endpoint)
