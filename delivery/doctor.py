"""What around the platform is fit for it, and what is not: facts in, findings out, each with what to do. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Protocol


class Mark(StrEnum):
    """How good a finding is."""

    FINE = "ok"
    DOUBTFUL = "warning"  # works, with a drawback that the advice names
    WRONG = "wrong"  # something does not work, or what was promised may be lost


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one check found."""

    check: str
    mark: Mark
    text: str
    advice: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """Connections that one more process may open."""

    left: int  #: of the server, the database and the role, whichever has least
    needed: int  #: by a process with these settings
    whose: str  #: `server`, `database` or `role`: who has least


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """All that was looked at."""

    server: str
    settings: Mapping[str, str]  #: the server's, by their names
    room: Room
    skew: timedelta  #: how far the database's clock is ahead of this process's
    is_pooled: bool
    heard_after: timedelta | None  #: how long a notification took; None = it never came, or nobody can hear any
    days_ahead: int  #: days after today that every table by day has a partition for
    missing_keys: Mapping[str, int]  #: keys that are not there -> secrets that are sealed with them
    keys: str | None  #: why there is no key that seals; None = there is one
    names: Mapping[str, str | None]  #: hosts of endpoints -> why they have no address; None = they have
    workers: int
    relays: int
    files: int  #: how many this process may have open


class Examiner(Protocol):
    """Look around."""

    async def look(self) -> Surroundings:
        """Look at everything once. Changes nothing but for one notification, on a channel of its own.

        Raises:
            Unavailable: the database does not answer.
        """


#: The database's clock may be off by so much before it is told of, and before receivers refuse what is dated by it.
SKEW_TOLD, SKEW_WRONG = timedelta(seconds=2), timedelta(minutes=4)
#: A notification within the same room takes a millisecond.
SLOW = timedelta(seconds=1)
#: Files of a process: one for each connection to a receiver, and some.
FEW_FILES = 1_024
#: Settings of a server, what they should be, whether anything is lost otherwise, and why it matters.
WANTED = (
    ("fsync", "on", True, "a crash of the machine may cost the whole database: set it to on and restart the server"),
    ("full_page_writes", "on", True, "a crash may leave torn pages: set it to on"),
    ("synchronous_commit", "on", True, "a crash may take events whose commit was confirmed: leave it on for this role"),
    ("autovacuum", "on", False, "tables only grow and plans go stale: set it to on"),
    ("track_counts", "on", False, "autovacuum does not know when to run: set it to on"),
)
#: Values of `synchronous_commit` that promise as much or more.
_DURABLE = {"on", "local", "remote_write", "remote_apply"}


def diagnose(seen: Surroundings) -> list[Finding]:
    """Judge everything; the order is that of the checks, whatever is found."""
    checks = (
        _database,
        _settings,
        _connections,
        _clock,
        _notifications,
        _partitions,
        _keys,
        _names,
        _processes,
        _files,
    )
    return [finding for check in checks for finding in check(seen)]


def _fine(check: str, text: str) -> Finding:
    return Finding(check=check, mark=Mark.FINE, text=text)


def _database(seen: Surroundings) -> Iterator[Finding]:
    yield _fine("database", f"{seen.server}, its schema is of this release")  # else nobody could have looked


def _settings(seen: Surroundings) -> Iterator[Finding]:
    bad = []
    for name, wanted, loses, advice in WANTED:
        value = seen.settings.get(name, wanted)
        if value == wanted or (name == "synchronous_commit" and value in _DURABLE):
            continue
        mark = Mark.WRONG if loses else Mark.DOUBTFUL
        bad.append(Finding(check="settings", mark=mark, text=f"{name} is {value}", advice=advice))
    yield from bad or [_fine("settings", "what is committed stays, and vacuum runs by itself")]


def _connections(seen: Surroundings) -> Iterator[Finding]:
    room = seen.room
    text = f"the {room.whose} has room for {room.left} more, a process opens up to {room.needed}"
    if room.left >= room.needed:
        yield _fine("connections", text)
        return
    raising = {
        "server": "raise max_connections, or lower TIDINGS_POOL_SIZE",
        "database": "raise its limit (ALTER DATABASE ... CONNECTION LIMIT), or lower TIDINGS_POOL_SIZE",
        "role": "raise its limit (ALTER ROLE ... CONNECTION LIMIT), or lower TIDINGS_POOL_SIZE",
    }
    yield Finding(check="connections", mark=Mark.DOUBTFUL, text=text, advice=raising[room.whose])


def _clock(seen: Surroundings) -> Iterator[Finding]:
    seconds = seen.skew.total_seconds()
    text = f"the database's is {abs(seconds):.1f} s {'ahead of' if seconds > 0 else 'behind'} this machine's"
    if abs(seen.skew) < SKEW_TOLD:
        yield _fine("clock", text)
        return
    mark = Mark.WRONG if abs(seen.skew) >= SKEW_WRONG else Mark.DOUBTFUL
    advice = "set both by NTP: signatures are dated by the database's clock, and receivers refuse what is 5 min off"
    yield Finding(check="clock", mark=mark, text=text, advice=advice)


def _notifications(seen: Surroundings) -> Iterator[Finding]:
    if seen.is_pooled:
        text = "the connections go by way of a pooler, so nothing is heard: work is found by polling"
        advice = "give processes a connection past the pooler, or a session-pooling one, where latency matters"
        yield Finding(check="notifications", mark=Mark.DOUBTFUL, text=text, advice=advice)
    elif seen.heard_after is None:
        advice = "see the server's log, and whether what stands between lets idle connections live"
        yield Finding(check="notifications", mark=Mark.WRONG, text="a notification was not heard", advice=advice)
    elif seen.heard_after > SLOW:
        text = f"a notification took {seen.heard_after.total_seconds():.1f} s"
        advice = "see how busy the database is: each event waits for two of them"
        yield Finding(check="notifications", mark=Mark.DOUBTFUL, text=text, advice=advice)
    else:
        yield _fine("notifications", f"heard after {seen.heard_after.total_seconds() * 1000:.0f} ms")


def _partitions(seen: Surroundings) -> Iterator[Finding]:
    if seen.days_ahead >= 2:
        yield _fine("partitions", f"made for {seen.days_ahead} days ahead")
        return
    text = f"made for {seen.days_ahead} days ahead" if seen.days_ahead >= 0 else "today's are missing"
    advice = "let a worker run: it makes them once an hour; `tidings periodic run tidings.partitions` asks for it now"
    yield Finding(check="partitions", mark=Mark.DOUBTFUL, text=text, advice=advice)


def _keys(seen: Surroundings) -> Iterator[Finding]:
    if seen.keys is not None:
        advice = "give TIDINGS_KEYS, as the other processes have it"
        yield Finding(check="keys", mark=Mark.WRONG, text=seen.keys, advice=advice)
        return
    for key_id, number in seen.missing_keys.items():
        text = f"{number} secrets are sealed with key {key_id}, which is missing"
        advice = "add it to TIDINGS_KEYS behind the one that seals: their deliveries wait for it"
        yield Finding(check="keys", mark=Mark.WRONG, text=text, advice=advice)
    if not seen.missing_keys:
        yield _fine("keys", "they open everything that is sealed")


def _names(seen: Surroundings) -> Iterator[Finding]:
    failed = {host: why for host, why in seen.names.items() if why is not None}
    if not seen.names:
        yield _fine("names", "no endpoint has a name that is looked up here")
    elif not failed:
        yield _fine("names", f"found the addresses of {', '.join(seen.names)}")
    elif len(failed) == len(seen.names):
        text = "; ".join(f"{host}: {why}" for host, why in failed.items())
        advice = "see that this machine has a name server that answers, and that the names are right"
        yield Finding(check="names", mark=Mark.WRONG, text=text, advice=advice)
    else:
        text = "; ".join(f"{host}: {why}" for host, why in failed.items())
        yield Finding(check="names", mark=Mark.DOUBTFUL, text=text, advice="see that these names are right")


def _processes(seen: Surroundings) -> Iterator[Finding]:
    lacking = [what for what, number in (("relay", seen.relays), ("worker", seen.workers)) if not number]
    text = f"running: {seen.relays} relaying, {seen.workers} delivering"
    if lacking:
        advice = f"start `tidings {lacking[0]}`" if len(lacking) == 1 else "start `tidings up`: nothing is delivered"
        yield Finding(check="processes", mark=Mark.DOUBTFUL, text=text, advice=advice)
    else:
        yield _fine("processes", text)


def _files(seen: Surroundings) -> Iterator[Finding]:
    text = f"a process may have {seen.files} open"
    if seen.files < FEW_FILES:
        advice = "raise the limit (ulimit -n, or LimitNOFILE of the unit): each connection to a receiver takes one"
        yield Finding(check="files", mark=Mark.DOUBTFUL, text=text, advice=advice)
    else:
        yield _fine("files", text)


def worst(findings: Sequence[Finding]) -> Mark:
    """Return the worst mark."""
    marks = {finding.mark for finding in findings}
    return next((mark for mark in (Mark.WRONG, Mark.DOUBTFUL) if mark in marks), Mark.FINE)
