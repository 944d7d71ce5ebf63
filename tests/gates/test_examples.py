"""Examples: every command of their page is run, and what it promises comes true."""

from __future__ import annotations

import json
import re
import shlex
import time
from collections.abc import Iterator
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql

from delivery.sealing import KeyEncryptionKey
from signing import SigningSecret
from tests.databases import drop
from tests.places import free_port

from .pages import Shell, blocks, eventually, filled
from .source import paths, read

PAGE = "examples/README.md"
SET_UP, STDLIB, FASTAPI, IN_FLASK, IN_FASTAPI, ORDERS, REPLAY = (
    block for heading in ("Before", "Receive", "Record", "Replay") for block in blocks(PAGE, heading, "sh")
)
READY = {STDLIB: "listening on", FASTAPI: "running on", IN_FLASK: "Running on", IN_FASTAPI: "running on"}


@dataclass(frozen=True)
class Place:
    """A platform at work, with one endpoint that nobody listens on yet."""

    shell: Shell
    connection: psycopg.Connection[tuple[Any, ...]]
    port: int
    endpoint: str
    secret: str

    def deliveries(self, event_id: str) -> list[tuple[int, str]]:
        """List the ids and states of an event's finished deliveries."""
        found = "SELECT id, state FROM tidings.job_done WHERE args->>'event_id' = %s"
        return self.connection.execute(found, (event_id,)).fetchall()  # type: ignore[return-value]


@pytest.fixture(scope="module")
def database(server: str, template: str) -> Iterator[str]:
    """DSN of a migrated database for the whole file: a platform and an endpoint take seconds to set up."""
    name = f"tidings_{uuid4().hex[:12]}"
    copied = "CREATE DATABASE {} TEMPLATE {} STRATEGY FILE_COPY"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(sql.SQL(copied).format(sql.Identifier(name), sql.Identifier(template)))
    yield psycopg.conninfo.make_conninfo(server, dbname=name)
    drop(server, name)


@pytest.fixture(scope="module")
def place(database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    port = free_port()
    shell = Shell(
        TIDINGS_DATABASE_URL=database,
        TIDINGS_KEYS=KeyEncryptionKey.generate().reveal(),
        RECEIVED_DATABASE=str(tmp_path_factory.mktemp("received") / "received.sqlite"),
        PORT=str(port),
    )
    with shell.running("tidings up --allow-local", ready="ready"), psycopg.connect(database, autocommit=True) as beside:
        declare, add, subscribe = filled(SET_UP, receiver=port).splitlines()
        shown = shell.run(f"{declare}\n{add}")
        endpoint, secret = re.findall(r"^(?:endpoint|secret) +(\S+)$", shown, re.MULTILINE)
        shell.run(filled(subscribe, endpoint=endpoint))
        yield Place(shell, beside, port, endpoint, secret)


@pytest.mark.parametrize(
    ("application", "receiver"), [(IN_FLASK, STDLIB), (IN_FASTAPI, FASTAPI)], ids=["Flask to stdlib", "FastAPI"]
)
def test_an_order_reaches_the_receiver_once_and_a_refused_one_leaves_no_event(
    place: Place, application: str, receiver: str
):
    shop = free_port()
    placing, refusing = filled(ORDERS, shop=shop).splitlines()
    events = place.connection.execute("SELECT count(*) FROM tidings.event").fetchone()[0]  # type: ignore[index]
    with (
        place.shell.running(received_by(place, receiver), ready=READY[receiver]) as receiving,
        place.shell.running(filled(application, shop=shop), ready=READY[application]),
    ):
        status, order = curl(placing)
        assert status == 201
        receiving.says("pack 2 x lamp for", f"order/{order['order']}")
        receiving.says("received", order["event"])
        assert curl(refusing)[0] == 409
        [(delivery, _)] = eventually(lambda: place.deliveries(order["event"]))
        place.shell.run(f"tidings deliveries retry {delivery}")
        receiving.says("came again", order["event"])
        assert receiving.said.count("pack 2 x lamp") == 1
    found = place.connection.execute("SELECT id::text, subject FROM tidings.event ORDER BY id").fetchall()
    assert found[events:] == [(order["event"], f"order/{order['order']}")]


def test_replay_sends_what_was_discarded(place: Place):
    data = json.dumps({"item": "lamp", "number": 1})
    recorded = "SELECT tidings.record('default', 'order.placed', 'order/0', %s)::text"
    [event] = place.connection.execute(recorded, (data,)).fetchone()  # type: ignore[misc]
    eventually(lambda: [state for _, state in place.deliveries(event)] == ["discarded"])
    with place.shell.running(received_by(place, STDLIB), ready=READY[STDLIB]) as receiving:
        told = place.shell.run(filled(REPLAY, endpoint=place.endpoint))
        assert "1 delivery put back" in told
        receiving.says("received", event)
    eventually(lambda: [state for _, state in place.deliveries(event)] == ["completed"])  # it is settled afterwards


@pytest.mark.parametrize("receiver", [STDLIB, FASTAPI], ids=["stdlib", "FastAPI"])
def test_a_request_that_proves_nothing_is_answered_by_what_its_error_says(tmp_path: Path, receiver: str):
    port = free_port()
    shell = Shell(RECEIVED_DATABASE=str(tmp_path / "received.sqlite"), PORT=str(port))
    code = receiver.replace("8400", str(port)).replace("whsec_...", SigningSecret.generate().reveal())
    forged = {"webhook-id": "a", "webhook-timestamp": str(int(time.time())), "webhook-signature": "v1,c2VjcmV0"}
    with shell.running(code, ready=READY[receiver]) as receiving:
        assert post(f"http://127.0.0.1:{port}/", b"{}", {})[0] == 400
        receiving.says("refused: missing_header")
        assert post(f"http://127.0.0.1:{port}/", b"{}", forged)[0] == 401
        receiving.says("refused: no_match")


def test_the_page_names_every_example():
    files = {path.removeprefix("examples/") for path in paths() if path.startswith("examples/")}
    unnamed = {name for name in files - {"README.md", ".gitignore"} if f"]({name})" not in read(PAGE).text}
    assert not unnamed, f"give {sorted(unnamed)} a line and a command in {PAGE}, and run it in {__name__}"


def received_by(place: Place, receiver: str) -> str:
    """Fill in the command that starts a receiver; one of them takes its port from the environment."""
    ports = {"receiver": place.port} if "8400" in receiver else {}
    return filled(receiver, secret=place.secret, **ports)


def curl(command: str) -> tuple[int, Any]:
    """Do what a curl command of the page says, where there may be no curl."""
    _, url, *options = shlex.split(command)
    given = dict(zip(options[::2], options[1::2], strict=True))
    status, body = post(url, given["-d"].encode(), dict([given["-H"].split(": ")]))
    return status, json.loads(body)


def post(url: str, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
    """Post a body and return the status and the body of the answer."""
    to = urlsplit(url)
    connection = HTTPConnection(to.hostname or "", to.port, timeout=60)
    try:
        connection.request("POST", to.path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()
