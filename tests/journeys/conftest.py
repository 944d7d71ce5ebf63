"""A receiver and a platform for each journey."""

from __future__ import annotations

from collections.abc import AsyncIterator

import psycopg
import pytest

from .platform import Platform, platform_on
from .receivers import Receiver, receiving


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving() as receiver:
        yield receiver


#: The jobs that the journeys are about: all but the platform's upkeep, which comes and goes by the clock.
OURS = """
CREATE SCHEMA ours;
CREATE VIEW ours.job AS SELECT * FROM tidings.job WHERE kind NOT LIKE 'tidings.%';
CREATE VIEW ours.job_done AS SELECT * FROM tidings.job_done WHERE kind NOT LIKE 'tidings.%';
CREATE VIEW ours.attempt AS SELECT * FROM tidings.attempt
WHERE job_id IN (SELECT id FROM ours.job UNION ALL SELECT id FROM ours.job_done);
"""


@pytest.fixture
def dsn(dsn: str) -> str:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(OURS)
    return dsn


@pytest.fixture
async def platform(dsn: str, receiver: Receiver) -> AsyncIterator[Platform]:
    async with platform_on(dsn, receiver) as platform:
        yield platform
