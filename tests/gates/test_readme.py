"""README and docs are true: their commands and code run as they stand, their tables are what the code says."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest

from delivery.adapters.embedded import EmbeddedPostgres
from delivery.channels import Reply
from delivery.classifier import (
    Delivered,
    Ladder,
    Permanent,
    Retryable,
    Snoozed,
    Verdict,
    classify,
)
from delivery.envelope import body as body_of
from delivery.events import Event
from delivery.settings import Settings, duration
from signing import SigningSecret, WebhookSigner
from subscriptions.policies import STANDARD
from tests.places import free_port

from .pages import Running, Shell, blocks, eventually, filled, rows

README, OPERATING, RECEIVERS = "README.md", "docs/operating.md", "docs/receivers.md"
UP, SET_UP, LISTEN, RECORD = blocks(README, "First journey", "sh")
[IN_PYTHON], [IN_SQL] = (blocks(README, "Second journey", language) for language in ("python", "sql"))
REFUSE, TWICE, LOOK, REPAIR = blocks(README, "Third journey", "sh")
[FOR_REAL] = blocks(README, "Run it for real", "sh")
VERIFY, OTHER_LIBRARY = blocks(RECEIVERS, "Verify", "python")


# Journeys -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reader:
    """Somebody who has typed what the first journey says, up to the listener."""

    shell: Shell
    home: Path
    port: int
    endpoint: str
    secret: str

    @contextmanager
    def listening(self) -> Iterator[Running]:
        with self.shell.running(filled(LISTEN, receiver=self.port, secret=self.secret), ready="Listening") as listener:
            yield listener

    @contextmanager
    def connected(self) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
        """Attach to the private PostgreSQL, as its commands do."""
        postgres = EmbeddedPostgres(self.home)
        try:
            with psycopg.connect(postgres.start()) as connection:
                yield connection
        finally:
            postgres.stop()


@pytest.fixture(scope="module")
def reader() -> Iterator[Reader]:
    home = Path(tempfile.mkdtemp(prefix="tidings-readme-"))
    home.chmod(0o711)  # root's server runs as another account
    shell, port = Shell(TIDINGS_HOME=str(home)), free_port()
    try:
        with shell.running(UP, ready="ready"):
            declare, add, subscribe = filled(SET_UP, receiver=port).splitlines()
            shown = shell.run(f"{declare}\n{add}")
            endpoint, secret = re.findall(r"^(?:endpoint|secret) +(\S+)$", shown, re.MULTILINE)
            shell.run(filled(subscribe, endpoint=endpoint))
            yield Reader(shell, home, port, endpoint, secret)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def test_the_first_journey_ends_in_a_verified_delivery(reader: Reader):
    with reader.listening() as listener:
        recorded = reader.shell.run(RECORD).split()[1]
        listener.says("verified", recorded, "invoice.paid", "invoice/42")


def test_the_second_journey_records_in_python_and_in_sql(reader: Reader):
    with reader.listening() as listener, reader.connected() as connection:
        dsn = json.loads(reader.shell.run("tidings status --json"))["dsn"]
        exec(compile(filled(IN_PYTHON, dsn=dsn), README, "exec"), {})
        assert connection.execute("SELECT paid FROM invoice").fetchall() == [(True,)]
        listener.says("verified", "invoice/42")
        connection.execute(IN_SQL)
        connection.commit()
        listener.says("verified", "invoice/42", times=2)


def test_the_third_journey_sends_again_what_was_refused(reader: Reader):
    with reader.shell.running(filled(REFUSE, receiver=reader.port), ready="Listening") as refusing:
        first, second = re.findall(r"^event +(\S+)$", reader.shell.run(TWICE), re.MULTILINE)
        refusing.says("400", first)
        refusing.says("400", second)
    with reader.connected() as connection:
        connection.autocommit = True
        discarded = "SELECT id FROM tidings.job_done WHERE state = 'discarded' ORDER BY id"
        [delivery, _] = eventually(lambda: (found := connection.execute(discarded).fetchall())[1:] and found)
    told = reader.shell.run(filled(LOOK, delivery=delivery[0]))
    assert "http_400" in told
    with reader.listening() as listener:
        told = reader.shell.run(filled(REPAIR, delivery=delivery[0], endpoint=reader.endpoint))
        assert "1 delivery put back" in told  # the other one; nothing is left for a reader to wonder at
        listener.says("verified", first)
        listener.says("verified", second)


def test_it_runs_for_real_on_a_database_of_ones_own(empty_dsn: str):
    role, place = "app_role", "postgresql://app_owner@db.internal/app"
    assert role in FOR_REAL
    assert place in FOR_REAL
    with psycopg.connect(empty_dsn, autocommit=True) as connection:
        mine = f"app_{connection.info.dbname[-12:]}"
        connection.execute(f"CREATE ROLE {mine}")
        try:
            code = FOR_REAL.replace(place, shlex.quote(empty_dsn)).replace(role, mine)
            with Shell().running(code, ready="ready"):
                allowed = "SELECT has_function_privilege(%s, 'tidings.record'::regproc, 'EXECUTE')"
                assert connection.execute(allowed, (mine,)).fetchone() == (True,)
        finally:
            connection.execute(f"DROP OWNED BY {mine}")
            connection.execute(f"DROP ROLE {mine}")


# Receivers ----------------------------------------------------------------------------------------


def test_the_receiver_in_the_docs_verifies():
    secret, body, handled = SigningSecret.generate(), b'{"amount": "12.50"}', list[tuple[str, Any]]()
    place: dict[str, Any] = {"handle": lambda *what: handled.append(what)}
    exec(compile(filled(VERIFY, secret=secret.reveal()), RECEIVERS, "exec"), place)
    headers = WebhookSigner([secret]).headers("msg_1", body)
    assert place["receive"](body, headers) == 204
    assert handled == [("msg_1", {"amount": "12.50"})]
    assert place["receive"](body + b" ", headers) == 401
    assert place["receive"](body, {}) == 400
    assert len(handled) == 1


def test_another_library_verifies_as_the_docs_say():
    secret, body = SigningSecret.generate(), b'{"amount": "12.50"}'
    headers = dict(WebhookSigner([secret]).headers("msg_1", body))
    exec(compile(filled(OTHER_LIBRARY, secret=secret.reveal()), RECEIVERS, "exec"), {"body": body, "headers": headers})


def test_the_body_in_the_docs_is_what_is_sent():
    [shown] = blocks(RECEIVERS, "", "json")
    said = json.loads(shown)
    event = Event(
        id=UUID(int=0),
        owner_id="default",
        type=said["type"],
        subject=said["subject"],
        occurred_at=datetime.fromisoformat(said["timestamp"]),
        data=json.dumps(said["data"], separators=(",", ":")),
    )
    assert body_of(event).decode().replace(str(event.id), said["id"]) == shown.strip()


# Tables -------------------------------------------------------------------------------------------


def judged(status: int, **headers: str) -> Verdict:
    named = tuple((name.replace("_", "-").encode(), value.encode()) for name, value in headers.items())
    return classify(Reply(status=status, headers=named))


def statuses(answer: str) -> list[int]:
    """List the statuses that a cell names, as 408, as a range with a dash (U+2013), or as 3xx."""
    found = [(int(low), int(high or low)) for low, high in re.findall(r"\b(\d{3})(?:\u2013(\d{3}))?\b", answer)]
    hundreds = [int(digit) * 100 for digit in re.findall(r"(?<!most )(?<!other )\b([2-5])xx", answer)]
    found += [(low, low + 99) for low in hundreds]
    return [status for low, high in found for status in range(low, high + 1)]


def test_the_answers_in_the_docs_are_judged_as_they_say():
    delivered, again, later, deploy, refused, abort, disable = rows(RECEIVERS, "Answer")
    assert all(isinstance(judged(status), Delivered) for status in statuses(delivered[0]))
    for status in (*statuses(again[0]), 500, 502, 503, 504, 599):
        assert isinstance(verdict := judged(status), Retryable), status
        assert verdict.ladder is Ladder.FULL, status
    assert statuses(later[0]) == [429, 503]
    assert all(isinstance(judged(status, retry_after="5"), Snoozed) for status in statuses(later[0]))
    assert f"at most {hours(STANDARD.retry_after_cap)} h" in later[1]
    for status in statuses(deploy[0]):
        assert isinstance(verdict := judged(status), Retryable), status
        assert verdict.ladder is Ladder.SHORT, status
    assert f"about {round(sum(STANDARD.short_ladder, timedelta()) / timedelta(minutes=1))} minutes" in deploy[1]
    for status in statuses(refused[0]):
        assert isinstance(verdict := judged(status), Permanent), status
        assert verdict.disable is (status == 410), status
    for answer, word in ((abort, "abort-message"), (disable, "disable")):
        assert f"`webhook-delivery: {word}`" in answer[0]
        assert isinstance(verdict := judged(500, webhook_delivery=word), Permanent)
        assert verdict.disable is (word == "disable")
        assert isinstance(verdict := judged(204, webhook_delivery=word), Delivered)
        assert verdict.disable is (word == "disable")


def hours(span: timedelta) -> int:
    return round(span / timedelta(hours=1))


#: What stands in the table where a default is no plain value.
IN_WORDS = {
    "database_url": "the embedded PostgreSQL",
    "home": "`/var/lib/tidings` for root, else the user's data folder",
    "keys": "made in the state folder with the embedded database",
    "allow": "none",
    "deny": "none",
    "ports": "all",
    "egress_proxy": "none",
    "serve": "none",
}


def test_the_table_of_settings_is_what_settings_read():
    table = {name.strip("`"): default.strip("`") for name, default, _ in rows(OPERATING, "Settings")}
    fields = {f"TIDINGS_{name.upper()}": field for name, field in Settings.model_fields.items()}
    assert list(table) == list(fields), f"{OPERATING} lists the fields of delivery.Settings, in their order"
    for name, field in fields.items():
        words = IN_WORDS.get(name.removeprefix("TIDINGS_").lower())
        if words is not None:
            assert table[name] == words.strip("`"), name
            assert not field.default or field.default_factory, f"{name} has a default by now: write it into {OPERATING}"
        else:
            assert read_as(field.default, table[name]) == field.default, name


def read_as(default: object, text: str) -> object:
    """Read a default as it is written in the table."""
    if isinstance(default, bool):
        return {"true": True, "false": False}[text]
    return duration(text) if isinstance(default, timedelta) else type(default)(text)
