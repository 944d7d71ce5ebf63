"""`deliveries watch`: each delivery as it ends or fails, once, until it is stopped."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from psycopg import sql

from delivery.adapters.postgres.database import Database
from delivery.adapters.postgres.partitions import make_partitions
from delivery.adapters.postgres.statements import statement
from tests.delivery.adapters.postgres.test_hot_plans import pages_read
from tests.gates.shapes import faults_of

from .conftest import PATIENCE_S, Cli, Receiver, eventually

READY = "Ctrl-C ends"


class Watcher:
    """A `deliveries watch` that runs, and what it prints."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process, self.said = process, list[str]()
        self.noted(READY)

    def noted(self, words: str) -> str:
        """Read its notes up to the one with these words."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said.append(line)
            if words in line:
                return line
        raise AssertionError(f"{words!r} was never said: {self.said}")

    def line(self) -> str:
        """Return the next line of results."""
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def json(self) -> Any:
        return json.loads(self.line())

    def stop(self, number: int = signal.SIGINT) -> tuple[int, str]:
        """Stop it; returns its exit code, and what it had not been asked for."""
        self.process.send_signal(number)
        stdout, _ = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, stdout


Watch = Callable[..., Any]


@pytest.fixture
def watching(cli: Cli) -> Watch:
    @contextmanager
    def run(*args: object, **environment: str) -> Iterator[Watcher]:
        process = cli.having(**environment).start("deliveries", "watch", *args)
        try:
            yield Watcher(process)
        finally:
            process.kill()
            process.communicate()

    return run


@pytest.fixture
def up(cli: Cli, receiver: Receiver) -> Iterator[Cli]:
    """The platform at work, with one endpoint that gets everything."""
    for name in ("invoice.paid", "invoice.lost"):
        cli("event-types", "declare", name, "--exposure", "webhook")
    endpoint = cli.json("endpoints", "add", receiver.url, "--policy", "demo", "--timeout", "30s")["id"]
    cli("subscriptions", "add", "all", "*", "--endpoint", endpoint)
    with cli.running():
        yield cli


def record(cli: Cli, type: str = "invoice.paid", *args: object) -> str:
    return str(cli.json("events", "record", type, "--data", "{}", *args)["id"])


def test_one_that_fails_and_ends_is_shown_each_time(up: Cli, receiver: Receiver, watching: Watch):
    receiver.status = 500
    with watching("--json") as watcher:
        event = record(up)
        told = [watcher.json() for _ in range(4)]
        assert [faults_of("deliveries watch", each) for each in told] == [[]] * 4
        (delivery,) = up.json("deliveries", "list")
        story = up.json("deliveries", "show", delivery["id"])
        assert faults_of("deliveries show", story) == []
        assert [each["state"] for each in told] == ["retryable"] * 3 + ["discarded"]
        assert [each["attempt"] for each in told] == [1, 2, 3, 4]
        assert {(each["id"], each["event_id"], each["code"]) for each in told} == {(delivery["id"], event, "http_500")}
        assert [each["reason"] for each in told] == [None, None, None, "exhausted"]
        assert [each["next_at"] is None for each in told] == [False, False, False, True]
        assert [each["at"] for each in told] == sorted(each["at"] for each in told)
        assert watcher.stop() == (130, "")


def test_people_read_a_line_each(up: Cli, receiver: Receiver, watching: Watch):
    with watching() as watcher:
        record(up)
        (delivery,) = eventually(lambda: up.json("deliveries", "list", "--state", "completed"))
        line = watcher.line()
        assert re.fullmatch(r"\d\d:\d\d:\d\dZ  completed +(\d+)  #1 +http_200 +invoice\.paid +endpoint (\S+)\n", line)
        assert f" {delivery['id']} " in line
        receiver.status = 500
        record(up)
        line = watcher.line()
        assert "  retryable  " in line
        assert re.search(r"  http_500 .*  again in 0\.\d s\n$", line)


def test_what_ended_before_is_not_shown(up: Cli, watching: Watch):
    record(up)
    eventually(lambda: up.json("deliveries", "list", "--state", "completed"))
    with watching("--json") as watcher:
        event = record(up)
        assert watcher.json()["event_id"] == event
        assert watcher.stop() == (130, "")


def test_filters_are_those_of_the_list(up: Cli, receiver: Receiver, watching: Watch):
    (endpoint,) = up.json("endpoints", "list")
    chosen = ("--type", "invoice.lost", "--state", "completed", "--endpoint", endpoint["id"][:13], "--since", "1h")
    with watching("--json", *chosen, "--error", "http_200") as watcher:
        record(up)
        event = record(up, "invoice.lost")
        assert watcher.json()["event_id"] == event
        assert watcher.stop() == (130, "")


def test_only_an_operator_sees_those_of_others(up: Cli, watching: Watch):
    with watching("--json", "--owner", "globex") as theirs, watching("--any-owner") as everybodys:
        record(up)
        assert re.search(r"  http_200 +default +invoice\.paid", everybodys.line())
        assert theirs.stop() == (130, "")


def test_sigterm_ends_it_too(standing: Cli):
    process = standing.start("deliveries", "watch")
    assert Watcher(process).stop(signal.SIGTERM) == (143, "")


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        (("--state", "pending"), 2, "'pending' is not one of 'retryable', 'completed', 'discarded', 'cancelled'"),
        (("--type", "invoice.payd"), 1, "event type 'invoice.payd' was never declared"),
        (("--endpoint", "01890000-0000-7000-8000-000000000001"), 1, "has no endpoint"),
        (("--since", "1h", "--until", "2h"), 1, "nothing can be between them"),
    ],
)
def test_a_filter_that_nothing_can_pass_is_refused(standing: Cli, refused, args: tuple[str, ...], code: int, says: str):
    assert says in refused(standing, "deliveries", "watch", *args, code=code)


def test_a_database_that_is_away_for_a_while_is_waited_for_and_nothing_is_missed(
    declared: Cli, server: str, dsn: str, receiver: Receiver, watching: Watch
):
    endpoint = declared.json("endpoints", "add", receiver.url)["id"]
    declared("subscriptions", "add", "all", "*", "--endpoint", endpoint)
    record(declared)
    with declared.running("relay", "--quiet"):
        (delivery,) = eventually(lambda: declared.json("deliveries", "list"))
    name = sql.Identifier(psycopg.conninfo.conninfo_to_dict(dsn)["dbname"])
    with watching("--json") as watcher, psycopg.connect(server, autocommit=True) as beside:
        beside.execute(sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS false").format(name))
        cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s"
        beside.execute(cut, (name.as_string(None).strip('"'),))
        watcher.noted("looking again from where it stood")
        beside.execute(sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS true").format(name))
        declared("deliveries", "cancel", delivery["id"], "--by", "ann")
        assert watcher.json()["reason"] == "ann"
        assert watcher.stop() == (130, "")


def test_one_that_was_committed_late_is_shown(declared: Cli, dsn: str, receiver: Receiver, watching: Watch):
    """Its time is that of its transaction's begin, and others were shown since."""
    endpoint = declared.json("endpoints", "add", receiver.url)["id"]
    declared("subscriptions", "add", "all", "*", "--endpoint", endpoint)
    for _ in range(2):
        record(declared)
    with declared.running("relay", "--quiet"):
        eventually(lambda: len(declared.json("deliveries", "list")) == 2)
    late, soon = (each["id"] for each in declared.json("deliveries", "list"))
    gone = sql.SQL(
        "WITH gone AS (DELETE FROM tidings.job WHERE id = {} RETURNING *)"
        " INSERT INTO tidings.job_done (id, kind, lane, args, state, priority, run_at, attempt, spent, max_attempts,"
        " reason, queued_at, created_at) SELECT id, kind, lane, args, 'cancelled', priority, run_at, attempt, spent,"
        " max_attempts, 'late', queued_at, created_at FROM gone"
    )
    with watching("--json") as watcher, psycopg.connect(dsn) as holder:
        holder.execute(gone.format(late))
        declared("deliveries", "cancel", soon)
        assert watcher.json()["id"] == soon
        holder.commit()
        assert watcher.json()["reason"] == "late"


async def test_a_look_reads_the_end_of_a_history_however_long_that_is(dsn: str, connection: Any):
    end = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(minutes=30)
    database = Database(dsn)
    await database.open()
    for day in (end, end + timedelta(days=1)):
        await make_partitions(database, None, now=day)
    await database.close()
    connection.execute("INSERT INTO tidings.lane (key) VALUES ('a')")
    connection.execute(
        "WITH ended AS (SELECT n, %(end)s - n * interval '0.4 s' AS at FROM generate_series(200000, 1, -1) AS n),"
        " done AS (INSERT INTO tidings.job_done (id, kind, lane, args, state, priority, run_at, attempt, spent,"
        " max_attempts, queued_at, created_at, finished_at) SELECT 1000000 - n, 'webhook.deliver', 12, '{}',"
        " 'completed', 0, at, 2, 1, 18, at, at, at FROM ended)"
        " INSERT INTO tidings.attempt (job_id, n, started_at, took_ms, outcome, code, next_at)"
        " SELECT 1000000 - n, 1, at - interval '10 ms', 1, 'retryable', 'http_503', at FROM ended",
        {"end": end},
    )
    connection.execute("VACUUM ANALYZE")  # which makes the summaries, too
    asked = dict.fromkeys(("owner_id", "kind", "states", "lane", "args", "created_since", "created_until", "reason"))
    since = end - timedelta(seconds=8)
    asked |= {"since": since, "started_since": since - timedelta(seconds=90), "limit": 5000}
    asked |= {"after_at": since, "after_id": 0, "after_n": 0}
    found = connection.execute(statement("list_outcomes"), asked).fetchall()
    assert len(found) in range(38, 42)
    whole = connection.execute("SELECT sum(pg_relation_size(oid)) / 8192 FROM pg_class WHERE relname ~ '^job_done_2'")
    assert pages_read(connection, "list_outcomes", asked) < whole.fetchone()[0] / 4
