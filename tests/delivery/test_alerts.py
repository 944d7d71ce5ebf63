"""Which figures need attention."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from delivery.alerts import Alert, Limits, alerts
from delivery.pauses import Pause, Paused, Scope
from delivery.status import MOST_COUNTED, Holder, KindStatus, OutboxStatus, PutOff, Status, UpkeepStatus

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)


def status(**given: Any) -> Status:
    """Return the status of a platform that works and has nothing to do, but for what is given."""
    well: dict[str, Any] = {
        "at": NOW,
        "skew": timedelta(0),
        "outbox": outbox(),
        "kinds": [],
        "put_off": [],
        "settled": 0,
        "discarded": 0,
        "workers": 2,
        "relays": 1,
        "is_led": True,
        "leases_ahead": 0,
        "stalled_replays": [],
        "upkeep": [],
        "holders": [],
        "strays": [],
        "tables": [],
    }
    return Status(**well | given)


def outbox(waiting: int = 0, age: timedelta | None = None, poisoned: int = 0) -> OutboxStatus:
    return OutboxStatus(at=NOW, waiting=waiting, oldest=None if age is None else NOW - age, poisoned=poisoned)


def due(number: int, age: timedelta, kind: str = "webhook.deliver") -> KindStatus:
    return KindStatus(kind=kind, due=number, oldest_due=NOW - age, ended={})


def paused(scope: Scope, name: str = "") -> Pause:
    return Pause(what=Paused(scope=scope, name=name), by="ann", reason="moves", at=NOW - 2 * HOUR)


def put_off(code: str) -> PutOff:
    return PutOff(kind="report", code=code, number=1500, since=NOW - 10 * 24 * HOUR)


def held(held: timedelta | None, transactions: int = 3, what: str = "session") -> Holder:
    return Holder(what=what, name="17", transactions=transactions, held=held)


def upkeep(age: timedelta | None, every: timedelta = HOUR, state: str | None = "completed") -> UpkeepStatus:
    tick = None if age is None else NOW - age
    return UpkeepStatus(name="tidings.cleanup", every=every, last_tick=tick, last_job=8, state=state)


FINE = {
    "nothing to do": status(),
    "nobody there, and nothing to do": status(workers=0, relays=0, is_led=False),
    "a handler's backlog at the bound": status(kinds=[due(1000, 5 * MINUTE, "handler.mailer")]),
    "a backlog at the bound": status(outbox=outbox(1000, 5 * MINUTE), kinds=[due(1000, 5 * MINUTE)]),
    "work that just came, and nobody yet": status(
        workers=0, relays=0, is_led=False, outbox=outbox(1, SECOND), kinds=[due(1, SECOND)]
    ),
    "an event of a clock that was a little ahead": status(outbox=outbox(1, -MINUTE), relays=0),
    "one discarded of 200": status(settled=200, discarded=1),
    "vacuum held back for a while": status(holders=[held(5 * MINUTE, 10**9)]),
    "a slot that is not far behind": status(holders=[held(None, 1_000_000, "replication slot")]),
    "clocks a minute apart": status(skew=-60 * SECOND),
    "upkeep that was late once or twice": status(upkeep=[upkeep(2 * HOUR), upkeep(15 * MINUTE, MINUTE)]),
    "a tick of a clock that was a little ahead": status(upkeep=[upkeep(-HOUR)]),
    "upkeep that never ran": status(upkeep=[upkeep(None, state=None)]),
    "upkeep that is retried": status(upkeep=[upkeep(MINUTE, state="retryable")]),
}
#: Code -> each way to it, and what its message says.
WRONG: dict[str, list[tuple[Status, str]]] = {
    "paused": [
        (status(pauses=[paused(Scope.ALL)]), "PAUSED: everything, by ann for 2 h (moves)"),
        (status(pauses=[paused(Scope.KIND, "a.b")]), "PAUSED: the kind a.b, by ann for 2 h (moves)"),
    ],
    "no_relay": [(status(relays=0, outbox=outbox(7, 11 * SECOND)), "no relay runs; waiting for one: 7 events")],
    "no_worker": [(status(workers=0, kinds=[due(2, 11 * SECOND)]), "no worker runs; waiting for one: 2 jobs")],
    "no_leader": [(status(is_led=False), "none of 2 workers leads")],
    "outbox_backlog": [
        (status(outbox=outbox(1001, SECOND)), "waiting for the relay: 1001 events, the oldest for 1 s"),
        (status(outbox=outbox(1, 6 * MINUTE)), "waiting for the relay: 1 event, the oldest for 6 min"),
        (status(outbox=outbox(MOST_COUNTED, SECOND)), f"relay: {MOST_COUNTED} or more events, the"),
    ],
    "poisoned_events": [(status(outbox=outbox(poisoned=1)), "given up by the relay: 1 event")],
    "jobs_backlog": [
        (status(kinds=[due(600, SECOND), due(401, 3 * HOUR, "x")]), "due: 1001 jobs, the oldest (x) for 3 h"),
        (status(kinds=[due(1, 49 * HOUR)]), "due: 1 job, the oldest (webhook.deliver) for 2 d"),
    ],
    "handler_backlog": [
        (
            status(kinds=[due(7, 6 * MINUTE, "handler.mailer"), due(1000, SECOND)]),
            "due for the handler mailer: 7 jobs, the oldest for 6 min",
        ),
        (
            status(kinds=[due(1001, SECOND, "handler.mailer")]),
            "due for the handler mailer: 1001 jobs, the oldest for 1 s",
        ),
    ],
    "discarded": [
        (status(settled=199, discarded=1), "discarded of the last hour's deliveries: 1 of 199 (0.50%)"),
        (status(settled=1, discarded=1), "1 of 1 (100.00%)"),
    ],
    "xmin_held": [
        (status(holders=[held(6 * MINUTE)]), "session 17 holds vacuum back for 6 min, 3 transactions"),
        (status(holders=[held(None), held(HOUR)]), "session 17 holds vacuum back for 60 min"),
        (status(holders=[held(None, 2_000_000, "replication slot")]), "slot 17 holds vacuum back, 2000000 transact"),
        (status(holders=[held(HOUR, what="prepared transaction")]), "prepared transaction 17"),
    ],
    "clock_skew": [
        (status(skew=61 * SECOND), "the database's clock is 61 s ahead of this machine's"),
        (status(skew=-5 * MINUTE), "the database's clock is 5 min behind this machine's"),
    ],
    "unknown_kind": [
        (status(put_off=[put_off("unknown_kind")]), "their kind: 1500 jobs of report, the oldest since 10 d")
    ],
    "jobs_put_off": [
        (status(put_off=[put_off("unreadable_key")]), "no attempt spent (unreadable_key): 1500 jobs of report"),
        (status(put_off=[put_off("internal_error")]), "no attempt spent (internal_error): 1500 jobs of report"),
    ],
    "stalled_replay": [
        (status(stalled_replays=[7]), "the job of a replay has ended before it: replay 7"),
        (status(stalled_replays=[7, 9]), "the job of a replay has ended before it: replay 7 and 1 more"),
    ],
    "times_ahead": [
        (status(leases_ahead=65), "was ahead once; in the future lie: 65 leases"),
        (status(upkeep=[upkeep(-2 * HOUR)]), "in the future lie: the last tick of tidings.cleanup"),
        (status(outbox=outbox(1, -2 * MINUTE), relays=0), "in the future lie: when 1 event came that wait"),
    ],
    "default_partition": [(status(strays=["event", "attempt"]), "rows of event and attempt lie in the DEFAULT")],
    "upkeep_overdue": [
        (
            status(upkeep=[upkeep(3 * HOUR + SECOND)]),
            "tidings.cleanup was last due to run 3 h ago, and is every 60 min",
        ),
        (status(upkeep=[upkeep(16 * MINUTE, MINUTE)]), "16 min ago, and is every 60 s"),
    ],
    "upkeep_failed": [(status(upkeep=[upkeep(MINUTE, state="discarded")]), "the last tidings.cleanup failed")],
}


@pytest.mark.parametrize("fine", FINE.values(), ids=FINE)
def test_what_is_as_it_should_be_needs_no_attention(fine: Status):
    assert alerts(fine) == []


@pytest.mark.parametrize(("code", "wrong", "said"), [(code, *way) for code, ways in WRONG.items() for way in ways])
def test_what_is_not_is_told_with_its_figure_and_what_to_do(code: str, wrong: Status, said: str):
    [alert] = alerts(wrong)
    assert alert.code == code
    assert said in alert.message
    assert alert.advice
    assert "\n" not in alert.message + alert.advice


def test_what_stops_the_work_comes_first():
    found = alerts(status(workers=0, relays=0, outbox=outbox(2000, HOUR), kinds=[due(2000, HOUR)], strays=["event"]))
    assert [each.code for each in found] == [
        "no_relay",
        "no_worker",
        "outbox_backlog",
        "jobs_backlog",
        "default_partition",
    ]


def test_how_long_vacuum_may_be_held_back_can_be_set():
    found = alerts(status(holders=[held(2 * MINUTE)]), Limits(held=MINUTE))
    assert [each.code for each in found] == ["xmin_held"]
    assert isinstance(found[0], Alert)
