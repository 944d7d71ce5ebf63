"""The shape of everything as JSON: stable names in snake_case, instants in ISO 8601 UTC, UUIDs as text."""

from __future__ import annotations

import base64
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from delivery.alerts import Alert
from delivery.attempts import Attempt
from delivery.channels import Fault, Reply
from delivery.cli.output import decoded, moment
from delivery.doctor import Finding
from delivery.events import Event, JsonText, Relaying
from delivery.health import Streak
from delivery.jobs import FINAL_STATES, JobOutcome, JobRow, KindOverview, PeriodicRow
from delivery.replays import Replay, ReplayFilter, Tally
from delivery.status import Holder, KindStatus, Status, TableSize, UpkeepStatus
from signing import SenderKey, SigningSecret
from subscriptions.model import (
    Endpoint,
    EndpointTarget,
    EventType,
    HandlerTarget,
    RetryPolicy,
    Subscription,
    UnopenedHeaders,
    described_tls,
)
from subscriptions.policies import POLICIES
from subscriptions.store import StoredKey

if TYPE_CHECKING:
    from delivery.api.keys import KeyUse

JsonObject = dict[str, Any]


def event_type(declared: EventType) -> JsonObject:
    """Describe a type of event."""
    about = {"type": declared.type, "exposure": declared.exposure.value, "description": declared.description}
    return about | {"checks": declared.checks.value, "schema": declared.schema}


def endpoint(one: Endpoint) -> JsonObject:
    """Describe an endpoint; of its credentials the names only, or null where the key that opens them is missing."""
    unopened = isinstance(one.headers, UnopenedHeaders)
    return {
        "id": str(one.id),
        "owner_id": one.owner_id,
        "url": one.url,
        "description": one.description,
        "state": one.state.value,
        "state_reason": one.state_reason,
        "state_by": one.state_by,
        "policy": one.policy,
        "headers": None if unopened else [name for name, _ in one.headers],
        "tls": None if unopened else described_tls(one.tls),
        "format": one.format.value,
        "limit": one.limit,
        "rate": None if one.rate is None else str(one.rate),
        "burst": None if one.rate is None else one.rate.burst,
        "timeout_s": None if one.timeout is None else one.timeout.total_seconds(),
        "overrides": dict(one.overrides),
        "created_at": moment(one.created_at),
        "updated_at": moment(one.updated_at),
    }


def finding(one: Finding) -> JsonObject:
    """Describe what a check found."""
    return {"check": one.check, "mark": one.mark.value, "text": one.text, "advice": one.advice or None}


def streak(one: Streak) -> JsonObject:
    """Describe failed tries of an endpoint without a success between them."""
    times = {"since": moment(one.since), "failed_at": moment(one.failed_at), "probe_at": moment(one.probe_at)}
    return times | {"failures": one.failures, "code": one.code, "warned_percent": one.warned}


def key(one: StoredKey) -> JsonObject:
    """Describe a signing key; nothing of its secret."""
    ends = {"created_at": moment(one.created_at), "expires_at": moment(one.expires_at)}
    return {"id": str(one.id), "scheme": one.scheme} | ends


def revealed(key: SenderKey) -> JsonObject:
    """Show what a receiver verifies with: the one time that a secret is shown."""
    name = "secret" if isinstance(key, SigningSecret) else "public_key"
    return {"scheme": key.scheme, name: key.verifying_key.reveal()}


def policy(one: RetryPolicy) -> JsonObject:
    """Describe a retry policy."""
    return {
        "name": one.name,
        "ladder_s": _seconds(one.ladder),
        "max_attempts": one.max_attempts,
        "short_ladder_s": _seconds(one.short_ladder),
        "short_attempts": one.short_attempts,
        "timeout_s": one.timeout.total_seconds(),
        "max_age_s": None if one.max_age is None else one.max_age.total_seconds(),
        "client_errors": one.client_errors.value,
        "built_in": one.name in POLICIES,
    }


def subscription(one: Subscription) -> JsonObject:
    """Describe a subscription."""
    target = one.target
    return {
        "id": str(one.id),
        "owner_id": one.owner_id,
        "name": one.name,
        "patterns": list(one.patterns),
        "filter": one.filter,
        "endpoint_id": str(target.endpoint_id) if isinstance(target, EndpointTarget) else None,
        "handler": target.kind if isinstance(target, HandlerTarget) else None,
        "created_at": moment(one.created_at),
    }


def event(one: Event, relaying: Relaying | None) -> JsonObject:
    """Describe an event; its data stands as it was recorded."""
    return {
        "id": str(one.id),
        "owner_id": one.owner_id,
        "type": one.type,
        "subject": one.subject,
        "occurred_at": moment(one.occurred_at),
        "data": JsonText(one.data),
        "traceparent": one.traceparent,
        "state": relay_state(relaying),
        "relay": None if relaying is None else _relay(relaying),
    }


def relay_state(relaying: Relaying | None) -> str:
    """Say in a word how far the relay is."""
    if relaying is None:
        return "relayed"
    return "poisoned" if relaying.poisoned else "waiting"


def delivery(job: JobRow) -> JsonObject:
    """Describe a delivery in words of its own."""
    return {
        "id": job.id,
        "owner_id": job.owner_id,
        "event_id": job.args.get("event_id"),
        "event_type": job.args.get("type"),
        "endpoint_id": job.args.get("endpoint_id"),
        **_standing(job),
    }


def outcome(one: JobOutcome) -> JsonObject:
    """Describe what came of a delivery at a time."""
    return {
        "at": moment(one.at),
        "id": one.id,
        "owner_id": one.owner_id,
        "event_id": one.args.get("event_id"),
        "event_type": one.args.get("type"),
        "endpoint_id": one.args.get("endpoint_id"),
        "state": one.state.value,
        "attempt": one.attempt,
        "code": one.code,
        "reason": one.reason,
        "next_at": moment(one.next_at),
    }


def job(one: JobRow) -> JsonObject:
    """Describe a job of any kind."""
    return {
        "id": one.id,
        "owner_id": one.owner_id,
        "kind": one.kind,
        "lane": one.lane,
        "args": one.args,
        "max_attempts": one.max_attempts,
        "priority": one.priority,
        **_standing(one),
    }


def attempt(one: Attempt) -> JsonObject:
    """Describe one try. What the receiver sent is text with escapes, and whole as base64."""
    report = one.report
    return {
        "number": one.number,
        "started_at": moment(one.started_at),
        "took_ms": one.took_ms,
        "outcome": one.outcome,
        "code": report.code,
        "status": report.status,
        "rule": report.rule,
        "detail": report.detail,
        "next_at": moment(one.next_at),
        "response_head": None if report.head is None else decoded(report.head),
        "response_body": None if report.body is None else decoded(report.body),
        "response_body_base64": None if report.body is None else base64.b64encode(report.body).decode("ascii"),
    }


def answer(one: object) -> JsonObject:
    """Describe what came of one test delivery."""
    match one:
        case Reply():
            return {
                "status": one.status,
                "response_body": decoded(one.body),
                "response_body_base64": base64.b64encode(one.body).decode("ascii"),
                "detail": one.body_note,
            }
        case Fault():
            return {"status": None, "response_body": None, "response_body_base64": None, "detail": one.detail or None}
        case _:
            return {"status": None, "response_body": None, "response_body_base64": None, "detail": str(one)}


def overview(one: KindOverview) -> JsonObject:
    """Describe how one kind stands."""
    return {
        "kind": one.kind,
        "counts": {state.value: number for state, number in one.counts.items()},
        "oldest_due": moment(one.oldest_due),
    }


def key_use(one: KeyUse) -> JsonObject:
    """Describe a key that seals others, and what hangs on it."""
    return {"id": one.id, "seals": one.seals, "is_there": one.is_there, "values": one.values}


def status(one: Status) -> JsonObject:
    """Describe how the platform stands."""
    return {
        "at": moment(one.at),
        "clock_skew_s": one.skew.total_seconds(),
        "workers": one.workers,
        "relays": one.relays,
        "is_led": one.is_led,
        "leases_ahead": one.leases_ahead,
        "stalled_replays": list(one.stalled_replays),
        "waiting_events": one.outbox.waiting,
        "oldest_waiting": moment(one.outbox.oldest),
        "poisoned_events": one.outbox.poisoned,
        "due_jobs": sum(each.due for each in one.kinds),
        "jobs": [kind_status(each) for each in one.kinds],
        "put_off": [
            {"kind": each.kind, "code": each.code, "number": each.number, "since": moment(each.since)}
            for each in one.put_off
        ],
        "settled_last_hour": one.settled,
        "discarded_last_hour": one.discarded,
        "upkeep": [_upkeep(each) for each in one.upkeep],
        "holders": [_holder(each) for each in one.holders],
        "default_partitions": list(one.strays),
        "tables": [_table(each) for each in one.tables],
    }


def kind_status(one: KindStatus) -> JsonObject:
    """Describe how one kind of jobs stands now."""
    return {
        "kind": one.kind,
        "due": one.due,
        "oldest_due": moment(one.oldest_due),
        "last_hour": {state.value: one.ended.get(state, 0) for state in FINAL_STATES},
    }


def alert(one: Alert) -> JsonObject:
    """Describe what needs attention."""
    return {"code": one.code, "message": one.message, "advice": one.advice}


def periodic(one: PeriodicRow) -> JsonObject:
    """Describe how one periodic stands."""
    return {
        "name": one.name,
        "kind": one.kind,
        "every_s": one.every.total_seconds(),
        "last_tick": moment(one.last_tick),
        "next_tick": moment(one.next_tick),
        "last_job": one.last_job,
    }


def replay(one: Replay) -> JsonObject:
    """Describe a replay as it stands."""
    return {
        "id": one.id,
        "owner_id": one.which.owner_id,
        "source": one.which.source.value,
        "filter": _replay_filter(one.which),
        "pace": one.pace,
        "state": one.state.value,
        "state_by": one.state_by,
        "state_reason": one.state_reason,
        "stalled": one.is_stalled,
        "started_by": one.started_by,
        "reason": one.reason,
        "started_at": moment(one.started_at),
        "ended_at": moment(one.ended_at),
        "total": one.total,
        **tally(one.tally),
        "job_id": one.job_id,
    }


def tally(one: Tally) -> JsonObject:
    """Describe what a replay found, or would find."""
    return {"seen": one.seen, "put_back": one.put_back, "skipped": dict(one.skipped)}


def _replay_filter(which: ReplayFilter) -> JsonObject:
    return {
        "endpoint_id": None if which.endpoint_id is None else str(which.endpoint_id),
        "types": list(which.types),
        "sifts": which.sifts,
        "since": moment(which.since),
        "until": moment(which.until),
        "states": [state.value for state in which.states],
        "error": which.error,
        "classes": list(which.outcomes),
        "statuses": None if which.statuses is None else list(which.statuses),
        "only_undelivered": which.only_undelivered,
    }


def _standing(one: JobRow) -> JsonObject:
    return {
        "state": one.state.value,
        "parked": one.parked,
        "held_until": moment(one.held_until),
        "attempt": one.attempt,
        "spent": one.spent,
        "run_at": moment(one.run_at),
        "created_at": moment(one.created_at),
        "finished_at": moment(one.finished_at),
        "reason": one.reason,
        "code": one.code,
    }


def _relay(relaying: Relaying) -> JsonObject:
    return {
        "failures": relaying.failures,
        "next_at": moment(relaying.next_at),
        "error": relaying.error,
        "poisoned": relaying.poisoned,
    }


def _upkeep(one: UpkeepStatus) -> JsonObject:
    return {
        "name": one.name,
        "every_s": one.every.total_seconds(),
        "last_tick": moment(one.last_tick),
        "last_job": one.last_job,
        "last_state": one.state,
    }


def _holder(one: Holder) -> JsonObject:
    return {
        "what": one.what,
        "name": one.name,
        "transactions": one.transactions,
        "held_s": None if one.held is None else one.held.total_seconds(),
    }


def _table(one: TableSize) -> JsonObject:
    return {
        "name": one.name,
        "rows": one.rows,
        "bytes": one.total,
        "heap_bytes": one.heap,
        "index_bytes": one.indexes,
        "toast_bytes": one.toast,
    }


def _seconds(ladder: tuple[timedelta, ...]) -> list[float]:
    return [step.total_seconds() for step in ladder]
