"""Which figures of a status need somebody's attention, and what to do about each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from delivery.jobs import UNKNOWN_KIND
from delivery.pauses import Scope
from delivery.status import MOST_COUNTED, Holder, KindStatus, OutboxStatus, Status


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What is still as it should be."""

    backlog: int = 1000  #: events that wait for the relay, or jobs that are due
    oldest: timedelta = timedelta(minutes=5)  #: how long the oldest of them may wait
    discarded: float = 0.005  #: share of the deliveries that ended within the last hour
    held: timedelta = timedelta(minutes=5)  #: how long vacuum may be kept from removing dead rows
    held_transactions: int = 1_000_000  #: the same, where nobody knows how long
    skew: timedelta = timedelta(seconds=60)  #: between the clocks of the database and of this process
    taken_up: timedelta = timedelta(seconds=10)  #: how long work waits before somebody should have come for it
    missed: int = 3  #: ticks that a periodic job may miss ...
    overdue: timedelta = timedelta(minutes=15)  #: ... and how long that takes at least


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """One thing that needs attention, in two parts of a line."""

    code: str  #: stable
    message: str  #: what, with its figure; hostile where it names what others named
    advice: str  #: what to do


LIMITS = Limits()
#: Before the name of a handler, in the kind of its jobs (`delivery.compiler`).
_HANDLER = "handler."


def alerts(status: Status, limits: Limits = LIMITS) -> list[Alert]:
    """Return what needs attention, first what stops the work."""
    first = (_paused(status), _processes(status, limits), outbox_alerts(status.outbox, limits))
    parts = (*first, _jobs(status, limits), _replays(status), _database(status, limits), _upkeep(status, limits))
    return [alert for part in parts for alert in part]


def outbox_alerts(outbox: OutboxStatus, limits: Limits = LIMITS) -> Iterator[Alert]:
    """Return what in the outbox needs attention."""
    if outbox.waiting > limits.backlog or outbox.age > limits.oldest:
        yield Alert(
            code="outbox_backlog",
            message=f"waiting for the relay: {_counted(outbox.waiting, 'event')}, the oldest for {_span(outbox.age)}",
            advice="see in the relays' logs what holds them up, or run more of them",
        )
    if outbox.poisoned:
        yield Alert(
            code="poisoned_events",
            message=f"given up by the relay: {_counted(outbox.poisoned, 'event')}",
            advice="`tidings events list --poisoned --any-owner` tells why; mend it, then `tidings events requeue ID`",
        )


def _paused(status: Status) -> Iterator[Alert]:
    for pause in status.pauses:
        why = f" ({pause.reason})" if pause.reason else ""
        option = {Scope.ALL: "--all", Scope.KIND: "--kind", Scope.OWNER: "--owner"}[pause.what.scope]
        yield Alert(
            code="paused",
            message=f"PAUSED: {pause.what}, by {pause.by} for {_span(status.at - pause.at)}{why}",
            advice=f"`{' '.join(['tidings resume', option, pause.what.name]).strip()}` lets it go on",
        )


def _processes(status: Status, limits: Limits) -> Iterator[Alert]:
    if not status.relays and status.outbox.age > limits.taken_up:
        yield Alert(
            code="no_relay",
            message=f"no relay runs; waiting for one: {_counted(status.outbox.waiting, 'event')}",
            advice="start `tidings up` or `tidings relay`; where one runs, its log says what holds it up",
        )
    late = [kind.due for kind in status.kinds if kind.oldest_due and status.at - kind.oldest_due > limits.taken_up]
    if not status.workers and late:
        yield Alert(
            code="no_worker",
            message=f"no worker runs; waiting for one: {_counted(sum(late), 'job')}",
            advice="start `tidings up` or `tidings worker`; where one runs, its log says what holds it up",
        )
    if status.workers and not status.is_led:
        yield Alert(
            code="no_leader",
            message=f"none of {_counted(status.workers, 'worker')} leads the periodic jobs",
            advice="another takes over within seconds; where this lasts, the workers' logs say why not",
        )


def _jobs(status: Status, limits: Limits) -> Iterator[Alert]:
    handlers = [kind for kind in status.kinds if kind.kind.startswith(_HANDLER)]
    yield from (alert for kind in handlers for alert in _handler(kind, status.at, limits))
    others = [kind for kind in status.kinds if kind not in handlers]
    due = sum(kind.due for kind in others)
    since, kind = min(((kind.oldest_due, kind.kind) for kind in others if kind.oldest_due), default=(None, ""))
    age = timedelta(0) if since is None else status.at - since
    if due > limits.backlog or age > limits.oldest:
        yield Alert(
            code="jobs_backlog",
            message=f"due: {_counted(due, 'job')}, the oldest ({kind}) for {_span(age)}",
            advice="`tidings deliveries list --any-owner` shows whose: a slow or failing endpoint, or too few workers",
        )
    yield from _put_off(status)
    if status.discarded > limits.discarded * status.settled:
        share = status.discarded / status.settled
        yield Alert(
            code="discarded",
            message=f"discarded of the last hour's deliveries: {status.discarded} of {status.settled} ({share:.2%})",
            advice="`tidings deliveries list --state discarded --any-owner` tells why; next `deliveries replay`",
        )


def _handler(kind: KindStatus, at: datetime, limits: Limits) -> Iterator[Alert]:
    """Only processes that have a handler in their code run its jobs; one that is gone leaves its subscription."""
    name, age = (
        kind.kind.removeprefix(_HANDLER),
        timedelta(0) if kind.oldest_due is None else at - kind.oldest_due,
    )
    if kind.due > limits.backlog or age > limits.oldest:
        yield Alert(
            code="handler_backlog",
            message=f"due for the handler {name}: {_counted(kind.due, 'job')}, the oldest for {_span(age)}",
            advice=f"does a process with it run? If not, `tidings subscriptions remove {name}`, --owner or --platform",
        )


def _put_off(status: Status) -> Iterator[Alert]:
    for each in status.put_off:
        what = f"{_counted(each.number, 'job')} of {each.kind}, the oldest since {_span(status.at - each.since)}"
        if each.code == UNKNOWN_KIND:
            yield Alert(
                code="unknown_kind",
                message=f"nobody who claims them declared their kind: {what}",
                advice="start a process that declares it, or `tidings jobs cancel`; at their greatest age they expire",
            )
        else:
            yield Alert(
                code="jobs_put_off",
                message=f"tried in vain, with no attempt spent ({each.code}): {what}",
                advice=_IN_VAIN.get(each.code, "`tidings jobs list --state retryable` finds them; the log says why"),
            )


_IN_VAIN = {
    "unreadable_key": "give every process the TIDINGS_KEYS that sealed the secret; `tidings keys list` counts by key",
    "snoozed": "their handler snoozes them; see why in what it does",
}


def _replays(status: Status) -> Iterator[Alert]:
    if stalled := status.stalled_replays:
        several = f" and {len(stalled) - 1} more" if len(stalled) > 1 else ""
        yield Alert(
            code="stalled_replay",
            message=f"the job of a replay has ended before it: replay {stalled[0]}{several}",
            advice=f"`tidings replays show {stalled[0]} --any-owner` tells more, and `resume` in its place goes on",
        )


def _database(status: Status, limits: Limits) -> Iterator[Alert]:
    holder = next((holder for holder in status.holders if _holds_long(holder, limits)), None)
    if holder is not None:
        span = "" if holder.held is None else f" for {_span(holder.held)}"
        age = _counted(holder.transactions, "transaction")
        yield Alert(
            code="xmin_held",
            message=f"{holder.what} {holder.name} holds vacuum back{span}, {age}",
            advice=_LET_GO[holder.what],
        )
    if abs(status.skew) > limits.skew:
        way = "ahead of" if status.skew > timedelta(0) else "behind"
        yield Alert(
            code="clock_skew",
            message=f"the database's clock is {_span(abs(status.skew))} {way} this machine's",
            advice="set both clocks by NTP; receivers refuse signatures whose time is far off",
        )
    yield from _ahead(status, limits)
    if status.strays:
        yield Alert(
            code="default_partition",
            message=f"rows of {' and '.join(status.strays)} lie in the DEFAULT partition",
            advice="`tidings periodic run tidings.partitions` moves them; its last job says what stood in the way",
        )


def _ahead(status: Status, limits: Limits) -> Iterator[Alert]:
    """Tell of times that have not come yet and should have passed: what waits for them waits unseen."""
    ticks = [each.name for each in status.upkeep if each.last_tick and each.last_tick - status.at > each.every]
    parts = [_counted(status.leases_ahead, "lease")] if status.leases_ahead else []
    parts += [f"the last tick of {' and '.join(ticks)}"] if ticks else []
    if status.outbox.oldest is not None and status.outbox.oldest - status.at > limits.skew:
        parts.append(f"when {_counted(status.outbox.waiting, 'event')} came that wait")
    if parts:
        yield Alert(
            code="times_ahead",
            message=f"the database's clock was ahead once; in the future lie: {', '.join(parts)}",
            advice="set it by NTP; a worker and a relay that run put it right within seconds: `tidings up`",
        )


_LET_GO = {
    "session": "end that transaction; `SELECT pg_terminate_backend(pid)` does it by force",
    "prepared transaction": "`COMMIT PREPARED` or `ROLLBACK PREPARED` it",
    "replication slot": "see that its standby follows, or drop the slot",
}


def _holds_long(holder: Holder, limits: Limits) -> bool:
    if holder.held is None:
        return holder.transactions > limits.held_transactions
    return holder.held > limits.held


def _upkeep(status: Status, limits: Limits) -> Iterator[Alert]:
    for each in status.upkeep:
        if each.last_tick is None:
            continue
        age = status.at - each.last_tick
        if age > max(limits.missed * each.every, limits.overdue):
            yield Alert(
                code="upkeep_overdue",
                message=f"{each.name} was last due to run {_span(age)} ago, and is every {_span(each.every)}",
                advice="a worker must run for it: `tidings up` or `tidings worker`",
            )
        elif each.state == "discarded":
            yield Alert(
                code="upkeep_failed",
                message=f"the last {each.name} failed in every attempt",
                advice=f"`tidings jobs show {each.last_job} --any-owner` shows why",
            )


def _counted(number: int, what: str) -> str:
    return f"{number}{' or more' * (number == MOST_COUNTED)} {what}{'s' * (number != 1)}"


def _span(length: timedelta) -> str:
    seconds = length.total_seconds()
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
