"""The whole platform by way of PgBouncer: every command and every process has the pooler's connection string."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.conformance.pooler import PGBOUNCER, WHY_NOT, pooling

from .conftest import Cli, Receiver, cli_on, eventually, lines

pytestmark = pytest.mark.skipif(PGBOUNCER is None, reason=WHY_NOT)

RECORD = "SELECT tidings.record('default', 'invoice.paid', NULL, json_build_object('n', %s::int))"


@pytest.fixture
def pooled(empty_dsn: str, tmp_path: Path) -> Iterator[Cli]:
    """The command line on an empty database behind a pooler."""
    with pooling(empty_dsn) as through:
        yield cli_on(through, tmp_path).having(TIDINGS_POLL="200ms")


def test_what_is_recorded_through_a_pooler_is_relayed_and_delivered_through_it(pooled: Cli, receiver: Receiver):
    pooled("migrate")
    assert pooled("migrate") == "nothing is pending: the schema is that of this release\n"
    pooled("event-types", "declare", "invoice.paid", "--exposure", "webhook")
    endpoint = pooled.json("endpoints", "add", receiver.url, "--timeout", "30s")["id"]
    pooled("subscriptions", "add", "all", "invoice.*", "--endpoint", endpoint)
    with pooled.running("worker"), pooled.running("relay"):
        with psycopg.connect(pooled.environment["TIDINGS_DATABASE_URL"], prepare_threshold=None) as application:
            for n in range(20):
                application.execute(RECORD, [n])
        pooled("events", "record", "invoice.paid", "--data", '{"n": 20}')

        def completed() -> int:
            return len(pooled.json("deliveries", "list", "--state", "completed"))

        eventually(completed, lambda number: number == 21)
        pooled("deliveries", "replay", "--state", "completed")
        eventually(lambda: len(receiver.received), lambda number: number >= 42)
        eventually(completed, lambda number: number == 21)
    assert len({headers["webhook-id"] for headers, _ in receiver.received}) == 21
    assert lines(pooled("status"))["database"].endswith("through a pooler: polls, as it cannot listen")
