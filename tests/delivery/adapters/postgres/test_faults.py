"""What the database's errors become."""

from __future__ import annotations

from os import urandom

import psycopg
import pytest

from delivery.adapters.postgres.faults import mapped
from delivery.errors import InvalidEvent, InvalidInput


@pytest.mark.parametrize("refused", [InvalidInput, InvalidEvent])
async def test_a_value_too_long_for_an_index_is_refused_and_not_to_be_tried_again(
    dsn: str, refused: type[InvalidInput]
) -> None:
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        with pytest.raises(refused, match="cannot keep this value"), mapped(refused):
            await connection.execute("INSERT INTO tidings.lane (key) VALUES (%s)", [urandom(10_000).hex()])
