"""A delivery as a line for a shell: what the shell makes of it is what was sent, and it does nothing to a terminal."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from delivery.cli.curl import LEFT_OUT, MOST_ARGUED, curl_line
from delivery.envelope import written
from delivery.events import Event
from subscriptions.model import Endpoint, PayloadFormat

from .conftest import Cli, Receiver
from .test_deliveries import record, settled, up  # noqa: F401 - a fixture

MOMENT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
#: Stands where a shell looks for curl: says what it was given.
STAND_IN = """#!{python}
import json, sys
words = [word.encode(errors="surrogateescape").decode() for word in sys.argv[1:]]
print(json.dumps([words, sys.stdin.buffer.read().decode() if "@-" in words else None]))
"""


def event(data: str, subject: str | None = None) -> Event:
    return Event(id=UUID(int=7), owner_id="acme", type="invoice.paid", subject=subject, occurred_at=MOMENT, data=data)


def endpoint(**given: Any) -> Endpoint:
    given = {"url": "https://example.com/hook?a=1&b='2'"} | given
    return Endpoint(id=UUID(int=8), owner_id="acme", created_at=MOMENT, updated_at=MOMENT, **given)


@pytest.fixture
def heard(tmp_path: Path):
    """Run a line in a shell; returns the words that curl got, and the body."""
    (tmp_path / "curl").write_text(STAND_IN.format(python=sys.executable))
    (tmp_path / "curl").chmod(0o755)

    def run(line: str) -> tuple[list[str], str]:
        path = f"{tmp_path}:{os.environ['PATH']}"
        done = subprocess.run(["sh"], input=line.encode(), capture_output=True, check=True, env={"PATH": path})
        words, piped = json.loads(done.stdout)
        body = words[words.index("--data-binary") + 1]
        return words, piped if body == "@-" else body

    return run


@pytest.mark.parametrize("format", PayloadFormat)
@pytest.mark.parametrize(
    "data",
    [
        '{"text":"it\'s $HOME `id` \\"\\\\ %s !! \\u0000"}',
        '{"text":"\x9b31m \u202e \u200b\u2019 \U0001f600 %d \\\\ it\'s"}',
        '{\n\t"a": 1.0\r\n}',
        "-5\n",
        json.dumps("x" * (MOST_ARGUED + 1)),
        json.dumps("y%\\" * 80_000),
    ],
)
def test_a_shell_hands_on_every_byte(heard: Any, data: str, format: PayloadFormat):
    given, to = event(data, subject="Zoë's"), endpoint(format=format, headers=(("x-key", "s3cret-value"),))
    line = curl_line(given, to)
    assert line.isprintable()
    words, body = heard(line)
    expected, of_body = written(given, format)
    assert body.encode() == expected
    assert (words[-1], "--globoff" in words) == (to.url, True)  # which takes brackets in the URL as they are
    headers = [word for before, word in pairwise(words) if before == "-H"]
    assert f"webhook-id: {given.id}" in headers
    assert {f"{name}: {value}" for name, value in of_body} <= set(headers)
    assert f"x-key: {LEFT_OUT}" in headers
    assert "s3cret" not in line


def test_it_is_printed_alone(up: Cli, receiver: Receiver, heard: Any):  # noqa: F811
    record(up)
    (delivery,) = settled(up)
    words, body = heard(up("deliveries", "show", delivery["id"], "--curl"))
    headers, sent = receiver.received[0]
    assert (words[-1], body.encode()) == (receiver.url, sent)
    assert f"webhook-id: {headers['webhook-id']}" in words
    assert "signature" not in " ".join(words)


def test_it_is_no_json(cli: Cli, refused: Any):
    assert "leave out one of them" in refused(cli, "deliveries", "show", 1, "--curl", "--json", code=2)


def test_what_is_gone_cannot_be_sent(up: Cli, receiver: Receiver, refused: Any, connection: Any):  # noqa: F811
    record(up)
    (delivery,) = settled(up)
    connection.execute("DELETE FROM tidings.event")
    said = refused(up, "deliveries", "show", delivery["id"], "--curl", code=1)
    assert "nothing to send by hand: the event of delivery" in said
