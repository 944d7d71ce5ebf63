"""Deliver: load, sign, send, classify, say what came of it. One attempt; the job layer owns every retry."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Protocol
from uuid import UUID

from delivery import backoff, envelope
from delivery.attempts import Report
from delivery.channels import Channel, Fault, FaultCode, Message, PermanentError, Reply, RetryableError
from delivery.classifier import Delivered, Ours, Permanent, Verdict, classify
from delivery.compiler import endpoint_lane
from delivery.deliveries import Deliveries, Parcel
from delivery.errors import TidingsError
from delivery.jobs import Cancel, Discard, Job, Retry, Snooze
from delivery.sealing import SealError
from signing import SenderKey, WebhookSigner
from subscriptions.model import Endpoint, EndpointState, Exposure
from subscriptions.policies import POLICIES
from subscriptions.store import StoredKey

log = logging.getLogger("tidings.delivery")

#: How much of a response's head is kept, in bytes.
MAX_HEAD_BYTES = 16_384
#: A delivery that met its endpoint just as it was disabled looks again after this, if its lane is on.
_DISABLED_AGAIN = timedelta(seconds=5)

#: What an answer asks for besides, pausing or disabling, may take so long: the answer is kept in any case.
_AFTERMATH = timedelta(seconds=5)

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
        user_agent: str,
        jitter: Callable[[], float] = lambda: random.uniform(-1.0, 1.0),  # noqa: S311 - spreads load, hides nothing
        aftermath: timedelta = _AFTERMATH,
    ) -> None:
        self._deliveries, self._channel, self._open_key = deliveries, channel, open_key
        self._disable, self._pause = disable, pause
        self._user_agent, self._jitter = user_agent, jitter
        self._aftermath_s = aftermath.total_seconds()

    async def __call__(self, job: Job) -> Report:
        """Make one attempt of one delivery."""
        try:
            loaded = await self._deliveries.load(UUID(job.args["event_id"]), UUID(job.args["endpoint_id"]))
        except TidingsError as error:
            code = FaultCode.UNREADABLE_KEY if isinstance(error, SealError) else FaultCode.INTERNAL_ERROR
            fault = Fault(code=code, detail=str(error))
            return await self._concluded(job, None, fault, classify(fault))
        parcel = _sendable(loaded)
        started = time.monotonic()
        answer = await self.attempt(parcel, job.holds_lease)
        verdict = await self._carried_out(parcel, classify(answer, parcel.endpoint.overrides))
        _log_line(job, verdict, time.monotonic() - started)
        return await self._concluded(job, parcel, answer, verdict)

    async def attempt(self, parcel: Parcel, holds_lease: Callable[[], bool] = lambda: True) -> Answer:
        """Sign and send once."""
        try:
            message = self._message(parcel)
        except SealError as error:
            return Fault(code=FaultCode.UNREADABLE_KEY, detail=str(error))
        if not holds_lease():
            raise Snooze(timedelta(0), Report(outcome="ours", code="lease_lost", detail="not sent: the lease was over"))
        try:
            answer = await self._channel.send(message)
            return envelope.masked(answer, parcel.endpoint.headers) if isinstance(answer, Reply) else answer
        except (RetryableError, PermanentError) as error:
            return error

    def _message(self, parcel: Parcel) -> Message:
        endpoint, event = parcel.endpoint, parcel.event
        body, of_body = envelope.written(event, endpoint.format)
        signer = WebhookSigner([self._open_key(key, endpoint) for key in parcel.keys])
        signed = dict(signer.headers(str(event.id), body, timestamp=parcel.loaded_at))
        if event.traceparent is not None:
            signed["traceparent"] = event.traceparent
        return Message(
            owner_id=endpoint.owner_id,
            url=endpoint.url,
            headers=envelope.attempt_headers(endpoint.headers, of_body, signed.items(), user_agent=self._user_agent),
            body=body,
            timeout=endpoint.timeout,
            tls=endpoint.tls,
        )

    async def _carried_out(self, parcel: Parcel, verdict: Verdict) -> Verdict:
        """Disable the endpoint where the verdict says so; where that fails, the delivery is tried again."""
        if not isinstance(verdict, Delivered | Permanent) or not verdict.disable:
            return verdict
        try:
            async with asyncio.timeout(self._aftermath_s):
                await self._disable(parcel.endpoint, verdict.code)
        except (TidingsError, TimeoutError) as error:
            return Ours(code=FaultCode.INTERNAL_ERROR.value, rule=f"the endpoint could not be disabled: {_why(error)}")
        return verdict

    async def _concluded(self, job: Job, parcel: Parcel | None, answer: Answer, verdict: Verdict) -> Report:
        """Return the report of a delivered one, raise what else comes next."""
        match verdict:
            case Delivered():
                return _report(answer, verdict)
            case Permanent():
                raise Discard(verdict.code, _report(answer, verdict))
            case _:
                raise await self._again(job, parcel, answer, verdict)

    async def _again(
        self, job: Job, parcel: Parcel | None, answer: Answer, verdict: backoff.Waiting
    ) -> Snooze | Retry | Discard:
        policy = POLICIES[parcel.endpoint.policy if parcel else "standard"]
        now = parcel.loaded_at if parcel else job.created_at
        step = backoff.plan(policy, verdict, job.memo, spent=job.spent, now=now, jitter=self._jitter)
        if step.pause_lane is not None and parcel is not None:
            await self._try_pause(parcel.endpoint, step.pause_lane)
        return _stepped(step, _report(answer, step.verdict))

    async def _try_pause(self, endpoint: Endpoint, pause: timedelta) -> None:
        try:
            async with asyncio.timeout(self._aftermath_s):
                await self._pause(endpoint_lane(endpoint.id), pause)
        except (TidingsError, TimeoutError) as error:
            log.warning("endpoint %s: its lane could not be paused: %s", endpoint.id, _why(error))


def _why(error: TidingsError | TimeoutError) -> str:
    return str(error) or "the database did not do it in time"


def _sendable(parcel: Parcel | None) -> Parcel:
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
    report = Report(outcome=verdict.outcome, code=verdict.code, rule=verdict.rule)
    match answer:
        case Reply():
            head = b"HTTP/1.1 %d\r\n" % answer.status + b"".join(b"%s: %s\r\n" % pair for pair in answer.headers)
            location = answer.header("location") if 300 <= answer.status < 400 else None
            detail = f"redirects to {location}, which is not followed" if location else answer.body_note
            body = answer.body or None
            return replace(report, status=answer.status, head=head[:MAX_HEAD_BYTES], body=body, detail=detail)
        case Fault():
            return replace(report, detail=answer.detail or None, hung=answer.code in _HUNG)
        case _:
            return report


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
