"""Deliver: load, sign, send, classify, say what came of it. One attempt; the job layer owns every retry."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from functools import lru_cache
from typing import Protocol
from uuid import UUID

from delivery import backoff, envelope
from delivery.attempts import Report
from delivery.channels import Channel, Fault, FaultCode, Message, PermanentError, Reply, RetryableError
from delivery.classifier import Delivered, Ours, Permanent, Retryable, Verdict, classify
from delivery.compiler import endpoint_lane
from delivery.deliveries import Deliveries, Parcel
from delivery.errors import TidingsError
from delivery.health import Health
from delivery.jobs import Cancel, Discard, Job, Retry, Snooze
from delivery.metrics import Metrics
from delivery.sealing import SealError
from delivery.traces import Traces
from signing import InvalidKeyError, SenderKey, WebhookSigner
from subscriptions.errors import written
from subscriptions.match import is_reserved
from subscriptions.model import Endpoint, EndpointState, Exposure
from subscriptions.policies import STANDARD
from subscriptions.store import StoredKey

log = logging.getLogger("tidings.delivery")

#: How much of a response's head is kept, in bytes.
MAX_HEAD_BYTES = 16_384
#: A delivery that met its endpoint just as it was disabled looks again after this, if its lane is on.
_DISABLED_AGAIN = timedelta(seconds=5)

#: What an answer asks for besides, pausing or disabling, may take so long: the answer is kept in any case.
_AFTERMATH = timedelta(seconds=5)

#: Endpoints whose opened keys are kept at most.
KEPT_OPEN = 20_000

#: The endpoint kept us waiting until the deadline.
_HUNG = {FaultCode.TIMEOUT, FaultCode.CONNECT_TIMEOUT}

Answer = Reply | Fault | RetryableError | PermanentError


class Lanes(Protocol):
    """Hold a lane: what the worker needs of the runtime."""

    def __call__(self, lane: str, pause: timedelta, /) -> Awaitable[None]:
        """Start no job of the lane for that long."""


class DeliverWorker:
    """The handler of `webhook.deliver`. Idempotent but for the send itself, which is at least once."""

    def __init__(
        self,
        deliveries: Deliveries,
        channel: Channel,
        open_key: Callable[[StoredKey, Endpoint], SenderKey],
        *,
        disable: Callable[[Endpoint, str], Awaitable[None]],
        pause: Lanes,
        health: Health,
        user_agent: str,
        jitter: Callable[[], float] = lambda: random.uniform(-1.0, 1.0),  # noqa: S311 - spreads load, hides nothing
        aftermath: timedelta = _AFTERMATH,
        metrics: Metrics | None = None,
        traces: Traces | None = None,
    ) -> None:
        self._deliveries, self._channel, self._open_key = deliveries, channel, open_key
        self._disable, self._pause, self._health = disable, pause, health
        self._user_agent, self._jitter = user_agent, jitter
        self._signers: dict[UUID, tuple[tuple[StoredKey, ...], WebhookSigner]] = {}  # by endpoint: of which keys
        self._aftermath_s = aftermath.total_seconds()
        self._metrics, self._traces = metrics or Metrics(), traces

    async def __call__(self, job: Job) -> Report:
        """Make one attempt of one delivery."""
        try:
            loaded = await self._deliveries.load(UUID(job.args["event_id"]), _endpoint_id(job.args["endpoint_id"]))
        except TidingsError as error:
            code = FaultCode.UNREADABLE_KEY if isinstance(error, SealError) else FaultCode.INTERNAL_ERROR
            fault = Fault(code=code, detail=str(error))
            verdict = classify(fault)
            assert not isinstance(verdict, Delivered)  # noqa: S101 - no fault is
            self._metrics.attempt(verdict.outcome, verdict.code, 0.0)
            raise await self._outcome(job, None, fault, verdict) from None
        parcel = _sendable(loaded, job.age)
        started = time.monotonic()
        answer = await self._tried(job, parcel)
        took = time.monotonic() - started
        verdict = _judged(parcel, answer)
        if isinstance(verdict, Delivered | Permanent) and verdict.disable:
            verdict = await self._disabled(parcel, verdict)
        if parcel.is_failing or not isinstance(verdict, Delivered):
            await self._keep_health(parcel, verdict)
        self._metrics.attempt(verdict.outcome, verdict.code, took)
        _log_line(job, verdict, took)
        if isinstance(verdict, Delivered):
            return _report(answer, verdict)
        raise await self._outcome(job, parcel, answer, verdict)

    async def _tried(self, job: Job, parcel: Parcel) -> Answer:
        """Make the attempt, as a span of the event's trace where traces are made."""
        event = parcel.event
        if self._traces is None or event.traceparent is None:
            return await self.attempt(parcel, job.holds_lease)
        said: dict[str, str | int] = {
            "tidings.event": str(event.id),
            "tidings.type": event.type,
            "tidings.endpoint": str(parcel.endpoint.id),
            "tidings.attempt": job.attempt,
        }
        with self._traces.span("tidings.attempt", event.traceparent, said) as span:
            answer = await self.attempt(parcel, job.holds_lease, traceparent=span.traceparent)
            verdict = _judged(parcel, answer)
            span.ended(verdict.outcome, verdict.code, is_fine=isinstance(verdict, Delivered))
            return answer

    async def attempt(
        self, parcel: Parcel, holds_lease: Callable[[], bool] = lambda: True, *, traceparent: str | None = None
    ) -> Answer:
        """Sign and send once; with the event's own `traceparent`, unless one is given."""
        try:
            message = self._message(parcel, traceparent or parcel.event.traceparent)
        except (SealError, InvalidKeyError) as error:  # also none at all: nothing goes out unsigned
            return Fault(code=FaultCode.UNREADABLE_KEY, detail=str(error))
        if not holds_lease():
            raise Snooze(timedelta(0), Report(outcome="ours", code="lease_lost", detail="not sent: the lease was over"))
        try:
            answer = await self._channel.send(message)
            return envelope.masked(answer, parcel.endpoint.headers) if isinstance(answer, Reply) else answer
        except (RetryableError, PermanentError) as error:
            return error

    def _message(self, parcel: Parcel, traceparent: str | None) -> Message:
        endpoint, event = parcel.endpoint, parcel.event
        body, of_body = envelope.written(event, endpoint.format)
        signed = self._signer(parcel).headers(str(event.id), body, timestamp=parcel.loaded_at)
        if traceparent is not None:
            signed["traceparent"] = traceparent
        return Message(
            owner_id=endpoint.owner_id,
            url=endpoint.url,
            headers=envelope.attempt_headers(endpoint.headers, of_body, signed.items(), user_agent=self._user_agent),
            body=body,
            timeout=endpoint.timeout or parcel.policy.timeout,
            tls=endpoint.tls,
        )

    def _signer(self, parcel: Parcel) -> WebhookSigner:
        """Return what signs with these very keys: the parcels of an endpoint share them while they stand."""
        keys, signer = self._signers.get(parcel.endpoint.id, ((), None))
        if signer is None or keys is not parcel.keys:
            signer = WebhookSigner([self._open_key(key, parcel.endpoint) for key in parcel.keys])
            if len(self._signers) >= KEPT_OPEN:
                self._signers.clear()
            self._signers[parcel.endpoint.id] = (parcel.keys, signer)
        return signer

    async def _disabled(self, parcel: Parcel, verdict: Delivered | Permanent) -> Verdict:
        """Disable the endpoint, as the verdict says; where that fails, the delivery is tried again."""
        try:
            async with asyncio.timeout(self._aftermath_s):
                await self._disable(parcel.endpoint, verdict.code)
        except (TidingsError, TimeoutError) as error:
            return Ours(code=FaultCode.INTERNAL_ERROR.value, rule=f"the endpoint could not be disabled: {_why(error)}")
        return verdict

    async def _keep_health(self, parcel: Parcel, verdict: Verdict) -> None:
        """Count what says something of the endpoint; deliveries of what the platform tells of itself say nothing."""
        if is_reserved(parcel.event.type):
            return
        try:
            async with asyncio.timeout(self._aftermath_s):
                if isinstance(verdict, Delivered):
                    await self._health.recovered(parcel.endpoint.id)
                elif isinstance(verdict, Permanent) or (isinstance(verdict, Retryable) and verdict.counts):
                    await self._health.failed(parcel.endpoint.id, verdict.code)
        except (TidingsError, TimeoutError) as error:
            log.warning("endpoint %s: its health could not be kept: %s", parcel.endpoint.id, _why(error))

    async def _outcome(
        self, job: Job, parcel: Parcel | None, answer: Answer, verdict: Permanent | backoff.Waiting
    ) -> Snooze | Retry | Discard:
        """Say what comes next of what was not delivered."""
        if isinstance(verdict, Permanent):
            return Discard(verdict.code, _report(answer, verdict))
        policy, now = (parcel.policy, parcel.loaded_at) if parcel else (STANDARD, job.created_at)
        step = backoff.plan(policy, verdict, job.memo, spent=job.spent, now=now, jitter=self._jitter, age=job.age)
        if step.pause_lane is not None and parcel is not None:
            await self._try_pause(parcel.endpoint, step.pause_lane)
        return _stepped(step, _report(answer, step.verdict))

    async def _try_pause(self, endpoint: Endpoint, pause: timedelta) -> None:
        try:
            async with asyncio.timeout(self._aftermath_s):
                await self._pause(endpoint_lane(endpoint.id), pause)
        except (TidingsError, TimeoutError) as error:
            log.warning("endpoint %s: its lane could not be paused: %s", endpoint.id, _why(error))


#: Read an endpoint's id, of which there are few.
_endpoint_id = lru_cache(maxsize=KEPT_OPEN)(UUID)


def _why(error: TidingsError | TimeoutError) -> str:
    return str(error) or "the database did not do it in time"


def _judged(parcel: Parcel, answer: Answer) -> Verdict:
    return classify(answer, parcel.endpoint.overrides, parcel.policy.client_errors)


def _sendable(parcel: Parcel | None, age: timedelta) -> Parcel:
    """Return the parcel, where it may still be sent."""
    if parcel is None:
        raise Cancel("event_removed")
    match parcel.endpoint.state:
        case EndpointState.REMOVED:
            raise Cancel("endpoint_removed")
        case EndpointState.DISABLED:
            report = Report(outcome="ours", code="endpoint_disabled", detail="not sent: the endpoint is disabled")
            raise Snooze(_DISABLED_AGAIN, report)
        case EndpointState.ENABLED:
            pass
    if parcel.exposure is not Exposure.WEBHOOK:
        raise Discard("not_exposed", Report(outcome="permanent", code="not_exposed", detail="the type is internal now"))
    if parcel.policy.max_age is not None and age > parcel.policy.max_age:
        detail = f"not sent: older than its policy {parcel.policy.name} allows, {written(parcel.policy.max_age)}"
        raise Discard("expired", Report(outcome="ours", code="expired", detail=detail))
    return parcel


def _stepped(step: backoff.Step, report: Report) -> Snooze | Retry | Discard:
    match step.kind:
        case backoff.Move.SNOOZE:
            return Snooze(step.delay, report, memo=step.memo)
        case backoff.Move.RETRY if not step.charges:
            return Snooze(step.delay, report, memo=step.memo)
        case backoff.Move.RETRY:
            return Retry(step.delay, report, memo=step.memo)
        case backoff.Move.GIVE_UP:
            detail = f"{report.detail}; {step.rule}" if report.detail else step.rule
            return Discard(step.reason or "exhausted", replace(report, detail=detail))


def _report(answer: Answer, verdict: Verdict) -> Report:
    outcome, code, rule = verdict.outcome, verdict.code, verdict.rule
    match answer:
        case Reply():
            head = b"HTTP/1.1 %d\r\n" % answer.status + b"".join([b"%b: %b\r\n" % pair for pair in answer.headers])
            location = answer.header("location") if 300 <= answer.status < 400 else None
            return Report(
                outcome=outcome,
                code=code,
                rule=rule,
                status=answer.status,
                head=head[:MAX_HEAD_BYTES],
                body=answer.body or None,
                detail=f"redirects to {location}, which is not followed" if location else answer.body_note,
            )
        case Fault():
            hung = answer.code in _HUNG
            return Report(outcome=outcome, code=code, rule=rule, detail=answer.detail or None, hung=hung)
        case _:
            return Report(outcome=outcome, code=code, rule=rule)


def _log_line(job: Job, verdict: Verdict, took: float) -> None:
    log.info(
        "event=%s endpoint=%s attempt=%d verdict=%s code=%s ms=%d",
        job.args["event_id"],
        job.args["endpoint_id"],
        job.attempt,
        verdict.outcome,
        verdict.code,
        took * 1000,
    )
