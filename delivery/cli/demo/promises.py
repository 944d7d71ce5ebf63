"""The promises that the demo puts to the test, judged from what was seen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import UUID

from delivery.api.deliveries import DeliveryStory
from delivery.cli.demo.receivers import Receiver
from delivery.jobs import JobRow, JobState
from subscriptions.model import Endpoint, EndpointState

#: What the whole demo may take.
LONGEST = timedelta(seconds=60)


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """One promise, and what was seen of it."""

    says: str
    kept: bool
    seen: str


@dataclass(slots=True, kw_only=True)
class Placed:
    """One order that was placed."""

    order_id: int
    event_id: UUID
    jobs: tuple[JobRow, ...] = ()
    deliveries: dict[str, DeliveryStory] = field(default_factory=dict)  #: by the receiver's name

    def answers(self, name: str) -> str:
        """Say what a receiver answered, try by try."""
        story = self.deliveries.get(name)
        tries = () if story is None else story.attempts
        return " ".join(str(each.report.status or each.report.code or each.outcome) for each in tries)

    def state(self, name: str) -> str:
        """Say how its delivery stands."""
        story = self.deliveries.get(name)
        if story is None:
            return "none"
        return "parked" if story.job.parked else story.job.state.value


@dataclass(slots=True, kw_only=True)
class Facts:
    """All that was seen."""

    receivers: dict[str, Receiver]
    endpoints: dict[str, Endpoint] = field(default_factory=dict)
    placed: list[Placed] = field(default_factory=list)
    committed: list[tuple[int, int]] = field(default_factory=list)  #: rows and events of each order that was placed
    left_by_rollback: tuple[int, int] = (-1, -1)  #: rows of orders, events
    discarded: JobRow | None = None  #: the broken one's delivery before its replay
    replayed: int = 0
    forgery: tuple[int, str | None] = (0, None)  #: the answer's status, the verifier's code
    took: timedelta = timedelta(0)


def judge(facts: Facts) -> list[Promise]:
    """Judge every promise. A story that was cut short has broken those it did not come to."""
    rules: tuple[Callable[[Facts], Promise], ...] = (
        _together,
        _rollback,
        _once_each,
        _steady,
        _wobbly,
        _gone,
        _broken,
        _signed,
        _forgery,
        _same_id,
        _in_time,
    )
    return [rule(facts) for rule in rules]


def _together(facts: Facts) -> Promise:
    rows, events = (sum(counts) for counts in zip((0, 0), *facts.committed, strict=True))
    kept = facts.committed == [(1, 1)] * len(facts.placed) != []
    return Promise(says="An order and its event commit together", kept=kept, seen=f"{rows} orders, {events} events")


def _rollback(facts: Facts) -> Promise:
    rows, events = facts.left_by_rollback
    seen = f"{rows} rows, {events} events" if rows >= 0 else "not seen"
    return Promise(says="A rolled-back order leaves no event", kept=(rows, events) == (0, 0), seen=seen)


def _once_each(facts: Facts) -> Promise:
    pairs = [(job.args["event_id"], job.args["endpoint_id"]) for placed in facts.placed for job in placed.jobs]
    wanted = len(facts.placed) * len(facts.receivers)
    kept = len(pairs) == len(set(pairs)) == wanted > 0
    seen = f"{len(facts.placed)} events, {len(facts.receivers)} endpoints: {len(pairs)} deliveries"
    return Promise(says="One delivery per event and endpoint", kept=kept, seen=seen)


def _steady(facts: Facts) -> Promise:
    return _served(facts, "steady", "steady gets both, each at the first try", ["204", "204"])


def _wobbly(facts: Facts) -> Promise:
    return _served(facts, "wobbly", "wobbly gets both, after two failures", ["503 503 204", "204"])


def _served(facts: Facts, name: str, says: str, wanted: list[str]) -> Promise:
    answers = [placed.answers(name) for placed in facts.placed]
    completed = all(placed.state(name) == JobState.COMPLETED for placed in facts.placed)
    return Promise(says=says, kept=completed and answers == wanted, seen=_then(answers))


def _gone(facts: Facts) -> Promise:
    endpoint = facts.endpoints.get("gone")
    disabled = endpoint is not None and endpoint.state is EndpointState.DISABLED
    asked = len(facts.receivers["gone"].received)
    states = [placed.state("gone") for placed in facts.placed]
    told = endpoint is not None and endpoint.state_by == "http_410"
    kept = disabled and told and asked == 1 and states == ["discarded", "parked"]
    why = endpoint.state_reason or endpoint.state if endpoint is not None else "not seen"
    times = "once" if asked == 1 else f"{asked} times"
    return Promise(says="gone (410) is disabled and left alone", kept=kept, seen=f"asked {times}; {why}")


def _broken(facts: Facts) -> Promise:
    job = facts.discarded
    exhausted = job is not None and job.state is JobState.DISCARDED and job.reason == "exhausted"
    served = _served(facts, "broken", "", ["500 500 500 500 204", "204"])
    kept = exhausted and facts.replayed == 1 and served.kept
    replayed = "replayed" if facts.replayed == 1 else f"{facts.replayed} replayed"
    answers = facts.placed[0].answers("broken") if facts.placed else ""
    seen = f"{job.reason}, {replayed}: {answers}" if job is not None else "not seen"
    return Promise(says="broken gets it by replay, once repaired", kept=kept, seen=seen)


def _signed(facts: Facts) -> Promise:
    received = sum(len(receiver.received) for receiver in facts.receivers.values())
    verified = sum(len(receiver.genuine()) for receiver in facts.receivers.values())
    kept = verified == received > 0
    return Promise(says="Every request is signed", kept=kept, seen=f"{verified} of {received} verified")


def _forgery(facts: Facts) -> Promise:
    status, code = facts.forgery
    kept = (status, code) == (401, "no_match")
    return Promise(says="A tampered copy is refused", kept=kept, seen=f"{status} {code}" if status else "not seen")


def _same_id(facts: Facts) -> Promise:
    wanted = {str(placed.event_id) for placed in facts.placed}
    seen = [each.webhook_id for receiver in facts.receivers.values() for each in receiver.genuine()]
    kept = set(seen) == wanted and len(wanted) > 0
    whose = "the events' own" if kept else "not those of the events"
    said = f"{len(seen)} requests, {len(set(seen))} ids, {whose}"
    return Promise(says="webhook-id stays over retry and replay", kept=kept, seen=said)


def _in_time(facts: Facts) -> Promise:
    seconds, most = facts.took.total_seconds(), LONGEST.total_seconds()
    return Promise(says=f"All of it within {most:.0f} s", kept=seconds < most, seen=f"{seconds:.1f} s")


def _then(answers: list[str]) -> str:
    return ", then ".join(each or "nothing" for each in answers) or "nothing"
