from __future__ import annotations

import pytest
from psycopg.conninfo import make_conninfo

from delivery.adapters.postgres.replays import PostgresReplays
from tests.delivery.adapters.postgres.batches import Batches
from tests.delivery.past import Past


@pytest.fixture
def dsn(dsn: str) -> str:
    """Let a connection, or a free one, be waited for a little longer than is shipped."""
    return make_conninfo(dsn, connect_timeout=30)


@pytest.fixture
def batches(past: Past) -> Batches:
    """Replays whose batches are of ten, with types that may leave and one that may not."""
    past.sql.execute(
        "INSERT INTO tidings.event_type (type, exposure) VALUES ('order.paid', 'webhook'), ('order.sent', 'webhook'),"
        " ('invoice.paid', 'webhook'), ('staff.hired', 'internal')"
    )
    return Batches(past, PostgresReplays(past.database, past.jobs.with_, batch=10, look=25))
