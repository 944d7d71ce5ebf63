"""Judge the books: nothing missing, nothing in two states, every duplicate explained by a recorded cause. Pure.

How a duplicate is explained. Each attempt that the database kept has a span: from the end of the attempt before it to
its own end, both on the database's clock. Spans follow each other without gaps, so an acceptance belongs to the attempt
in whose span it falls, and an attempt sends once. One acceptance is the delivery itself. Any other needs

- an attempt of its own whose answer never reached us: lost, interrupted, or retryable without a status, unless the
  receiver knows that its answer was read; one that ended before, where the receiver read it late; or
- a server that crashed: it may take the last moments' settles (sent again) and claims (two processes hold the job);
  one for each crash.

And the other way round: what is completed was accepted in the very attempt that says so.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

#: Between a kill or a thaw and what the receiver read of it later, in seconds.
STRAGGLING_S = 8.0
#: An asynchronous commit is on disk after three rounds of the WAL writer (3 x 200 ms); a result waits a moment before.
SETTLE_LAG_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """The receiver took a delivery: it answered 2xx, or would have had it not gone silent."""

    at: float
    event: str
    place: str
    digest: str  #: of the body
    signed_at: float | None = None
    sent_since: float | None = None  #: it may have lain unread since then; None = it was read at once
    was_read: bool = False  #: who sent it asked for something else on the same connection afterwards


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLine:
    """One row of `job` or `job_done`."""

    id: int
    event: str
    place: str
    state: str
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Try:
    """One row of `attempt`."""

    job: int
    n: int
    outcome: str
    code: str | None
    status: int | None
    ended_at: float

    @property
    def settled_it(self) -> bool:
        """Say whether its answer came through and was good."""
        return self.outcome in {"delivered", "completed"}

    @property
    def cause(self) -> str | None:
        """Say how its answer got lost; None where it did not."""
        if self.outcome in {"lost", "interrupted"}:
            return self.outcome
        if self.outcome in {"retryable", "failed"} and self.status is None:
            return f"{self.outcome}: {self.code}"
        return None

    def may_have_lost(self, acceptance: Acceptance) -> bool:
        """Say whether the answer may have got lost in this attempt; one that was read did only with its process."""
        return self.cause is not None and (not acceptance.was_read or self.outcome in {"lost", "interrupted"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Books:
    """Everything that was written down."""

    fates: dict[str, str]  #: event -> `committed`, `rolled back`, or `unknown`
    changes: set[str] | None  #: events whose business change stands; None = there are none in this scenario
    kept: set[str]  #: events that the database has
    places: Sequence[str]  #: where each event has to go
    acceptances: Sequence[Acceptance]
    jobs: Sequence[JobLine]
    tries: Sequence[Try]
    crashes: Sequence[tuple[float, float]] = ()  #: of the server: when it was killed, until when it may matter
    thaws: Sequence[float] = ()  #: when a frozen process went on
    waiting: int = 0  #: rows in the outbox
    overlaps: int = 0  #: two held what only one may


@dataclass(slots=True, kw_only=True)
class Verdict:
    """What is wrong, each in a line; and what was counted."""

    deliveries: int = 0
    states: Counter[str] = field(default_factory=Counter)
    lost: list[str] = field(default_factory=list)
    two_states: list[str] = field(default_factory=list)
    invented: list[str] = field(default_factory=list)  #: nobody committed it, or it says what was never recorded
    duplicates: Counter[str] = field(default_factory=Counter)  #: cause -> how many
    unexplained: list[str] = field(default_factory=list)

    @property
    def wrong(self) -> list[str]:
        """Everything that breaks a promise."""
        return [*self.lost, *self.two_states, *self.invented, *self.unexplained]


def judge(books: Books) -> Verdict:
    """Compare what was committed, what was accepted and what the database says."""
    verdict = Verdict(states=Counter(job.state for job in books.jobs))
    _judge_events(books, verdict)
    accepted: dict[tuple[str, str], list[Acceptance]] = defaultdict(list)
    for acceptance in books.acceptances:
        accepted[acceptance.event, acceptance.place].append(acceptance)
    jobs: dict[tuple[str, str], list[JobLine]] = defaultdict(list)
    for job in books.jobs:
        jobs[job.event, job.place].append(job)
    tries: dict[int, list[Try]] = defaultdict(list)
    for each in books.tries:
        tries[each.job].append(each)
    wanted = {(event, place) for event in books.kept for place in books.places}
    verdict.deliveries = len(wanted)
    for key in sorted(wanted | jobs.keys() | accepted.keys()):
        name = f"{key[0]} to {key[1]}"
        if key not in wanted:
            verdict.invented.append(f"{name}: no event of that name stands")
            continue
        _judge_job(name, jobs[key], accepted[key], tries, verdict)
        _judge_acceptances(name, [each for job in jobs[key] for each in tries[job.id]], accepted[key], books, verdict)
    if books.overlaps:
        verdict.two_states.append(f"{books.overlaps} times two handlers ran where one may")
    return verdict


def _judge_events(books: Books, verdict: Verdict) -> None:
    for event, fate in books.fates.items():
        if fate == "committed" and event not in books.kept:
            verdict.lost.append(f"{event}: committed, and the database does not have it")
        if fate == "rolled back" and event in books.kept:
            verdict.invented.append(f"{event}: rolled back, and it stands")
    for event in books.kept - books.fates.keys():
        verdict.invented.append(f"{event}: nobody recorded it")
    if books.changes is not None:
        for event in books.kept ^ books.changes:
            verdict.invented.append(f"{event}: of event and business change only one stands")
    if books.waiting:
        verdict.lost.append(f"{books.waiting} events are still in the outbox")


def _judge_job(
    name: str, jobs: list[JobLine], accepted: list[Acceptance], tries: dict[int, list[Try]], verdict: Verdict
) -> None:
    if not jobs:
        verdict.lost.append(f"{name}: no delivery stands for it")
        return
    if len(jobs) > 1:
        verdict.two_states.append(f"{name}: {', '.join(f'job {job.id} is {job.state}' for job in jobs)}")
        return
    [job] = jobs
    numbers = [each.n for each in tries[job.id]]
    good = sum(each.settled_it for each in tries[job.id])
    if job.state not in {"completed", "discarded", "cancelled"}:
        verdict.lost.append(f"{name}: it is still {job.state}")
    elif job.state == "completed" and not accepted:
        verdict.lost.append(f"{name}: completed, and no receiver ever accepted it")
    elif job.state != "completed" and not job.reason:
        verdict.lost.append(f"{name}: {job.state}, and nothing says why")
    if sorted(set(numbers)) != [*range(1, len(set(numbers)) + 1)]:
        verdict.lost.append(f"{name}: of its attempts only {sorted(numbers)} are kept")
    if good != (job.state == "completed") or len(set(numbers)) != len(numbers):
        verdict.two_states.append(f"{name}: job {job.id} is {job.state} with {good} good of the attempts {numbers}")


def _judge_acceptances(name: str, tries: list[Try], accepted: list[Acceptance], books: Books, verdict: Verdict) -> None:
    if len({each.digest for each in accepted}) > 1:
        verdict.invented.append(f"{name}: two tries said different things")
    for each in accepted:
        if each.signed_at is not None and abs(each.signed_at - each.at) > 60:
            verdict.invented.append(f"{name}: signed {each.signed_at - each.at:+.0f} s off")
    causes = explain(accepted, tries, books.crashes, books.thaws)
    surplus = Counter(causes)
    if accepted and any(each.settled_it for each in tries) and not surplus["the delivery"]:
        verdict.invented.append(f"{name}: the attempt that says it was delivered was never accepted")
    if surplus["the delivery"]:
        del surplus["the delivery"]
    elif surplus:  # every answer was lost: the first acceptance is no duplicate
        surplus[next(cause for cause in causes if cause)] -= 1
    verdict.duplicates += surplus
    for each, cause in zip(sorted(accepted, key=lambda a: a.at), causes, strict=True):
        if cause == UNEXPLAINED:
            kept = [(t.n, t.outcome, t.code, round(t.ended_at - each.at, 3)) for t in sorted(tries, key=lambda t: t.n)]
            verdict.unexplained.append(f"{name}: accepted at {each.at:.3f}; attempts, each with its end after: {kept}")


UNEXPLAINED = "unexplained"


def explain(
    accepted: Sequence[Acceptance],
    tries: Sequence[Try],
    crashes: Sequence[tuple[float, float]] = (),
    thaws: Sequence[float] = (),
) -> list[str]:
    """Give each acceptance of one delivery, in order of time, its cause: `the delivery`, or how its answer got lost."""
    left, unused = sorted(tries, key=lambda each: each.ended_at), list(crashes)
    causes: list[str] = []
    for acceptance in sorted(accepted, key=lambda each: each.at, reverse=True):  # an attempt's last one is its own
        own = next((each for each in sorted(tries, key=lambda t: t.ended_at) if each.ended_at >= acceptance.at), None)
        if own in left and (own.settled_it or own.may_have_lost(acceptance)):
            left.remove(own)
            causes.append("the delivery" if own.settled_it else str(own.cause))
            continue
        late = next((each for each in left if each.outcome == "lost" and _straggles(each, acceptance.at, thaws)), None)
        if late is None:
            late = next((each for each in left if each.may_have_lost(acceptance) and _lay(each, acceptance)), None)
        if late is not None:
            left.remove(late)
            causes.append(str(late.cause))
        elif crash := next((each for each in unused if each[0] - SETTLE_LAG_S <= acceptance.at <= each[1]), None):
            unused.remove(crash)
            causes.append("server crash")
        else:
            causes.append(UNEXPLAINED)
    return causes[::-1]


def _lay(lost: Try, acceptance: Acceptance) -> bool:
    """Say whether it lay unread as the try ended whose request it is."""
    return acceptance.sent_since is not None and acceptance.sent_since <= lost.ended_at < acceptance.at


def _straggles(lost: Try, at: float, thaws: Sequence[float]) -> bool:
    """Say whether a lost try may have been read that late: just after its end, or after its process thawed."""
    return lost.ended_at < at and any(begin <= at <= begin + STRAGGLING_S for begin in (lost.ended_at, *thaws))
