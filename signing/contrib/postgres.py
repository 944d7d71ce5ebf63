"""Remember in PostgreSQL what was handled: across processes and restarts, or within the handler's own transaction.

The stores are handed an open connection and never commit. On one that is in autocommit, each step stands by itself.
In a transaction, the claim and its completion commit or vanish with what the handler did: exactly once in effect::

    with pool.connection() as connection:  # one transaction
        with ReplayGuard(PostgresReplayStore(connection, source="tidings")).once(webhook):
            handle(webhook, connection)

`CREATE_TABLE` makes the table, in a migration of yours. Nothing waits: a webhook that another transaction is
handling is `in_progress`. READ COMMITTED is meant; above it a repeat may end in a serialization error.
"""

from typing import Any

from signing.replay import ClaimState

CREATE_TABLE = """
CREATE TABLE IF NOT EXISTS webhook_replay (
  source text NOT NULL,
  id text NOT NULL,
  is_done boolean NOT NULL,
  expires_at timestamptz NOT NULL,  -- of the lease; once done, of the memory
  PRIMARY KEY (source, id)
);
CREATE INDEX IF NOT EXISTS webhook_replay_expires_at ON webhook_replay (expires_at);
"""

# A row where it is ours now. The lock ends with the transaction; while it is another's, the insert is not tried.
_CLAIM = """
INSERT INTO webhook_replay AS r (source, id, is_done, expires_at)
SELECT k.source, k.id, false, clock_timestamp() + make_interval(secs => %s)
FROM (SELECT %s::text AS source, %s::text AS id) k
WHERE pg_try_advisory_xact_lock(hashtextextended(k.id, hashtext(k.source)))
ON CONFLICT (source, id) DO UPDATE SET is_done = false, expires_at = excluded.expires_at
WHERE r.expires_at <= clock_timestamp()
RETURNING 1
"""

# A row where it is done.
_IS_DONE = """
SELECT 1 FROM webhook_replay WHERE source = %s AND id = %s AND is_done AND expires_at > clock_timestamp()
"""

# Forgets a few others that are over, so that the table stays as small as it may be.
_COMPLETE = """
WITH kept AS (
  INSERT INTO webhook_replay (source, id, is_done, expires_at)
  VALUES (%s, %s, true, clock_timestamp() + make_interval(secs => %s))
  ON CONFLICT (source, id) DO UPDATE SET is_done = true, expires_at = excluded.expires_at
  RETURNING source, id
)
DELETE FROM webhook_replay r USING (
  SELECT o.source, o.id FROM webhook_replay o
  WHERE o.expires_at <= clock_timestamp() AND (o.source, o.id) <> (%s, %s)
  ORDER BY o.expires_at LIMIT 10 FOR UPDATE SKIP LOCKED
) over WHERE r.source = over.source AND r.id = over.id
"""

_RELEASE = "DELETE FROM webhook_replay WHERE source = %s AND id = %s AND NOT is_done"


class PostgresReplayStore:
    """Remember over a connection of psycopg, psycopg2, Django or any other driver with `%s` in its statements.

    `source` names the sender: its ids are its own.
    """

    def __init__(self, connection: Any, *, source: str) -> None:
        self._connection, self._source = connection, source

    def claim(self, key: str, *, lease: float) -> ClaimState:
        """Claim a webhook for `lease` seconds."""
        if self._run(_CLAIM, lease, self._source, key):
            return "new"
        return "done" if self._run(_IS_DONE, self._source, key) else "in_progress"

    def complete(self, key: str, *, ttl: float) -> None:
        """Remember for `ttl` seconds that it is done."""
        self._run(_COMPLETE, self._source, key, ttl, self._source, key)

    def release(self, key: str) -> None:
        """Give a claim back at once."""
        self._run(_RELEASE, self._source, key)

    def _run(self, statement: str, *values: object) -> bool:
        with self._connection.cursor() as cursor:
            cursor.execute(statement, values)
            return cursor.description is not None and cursor.fetchone() is not None


class AsyncPostgresReplayStore:
    """The same over an asynchronous connection of psycopg."""

    def __init__(self, connection: Any, *, source: str) -> None:
        self._connection, self._source = connection, source

    async def claim(self, key: str, *, lease: float) -> ClaimState:
        """Claim a webhook for `lease` seconds."""
        if await self._run(_CLAIM, lease, self._source, key):
            return "new"
        return "done" if await self._run(_IS_DONE, self._source, key) else "in_progress"

    async def complete(self, key: str, *, ttl: float) -> None:
        """Remember for `ttl` seconds that it is done."""
        await self._run(_COMPLETE, self._source, key, ttl, self._source, key)

    async def release(self, key: str) -> None:
        """Give a claim back at once."""
        await self._run(_RELEASE, self._source, key)

    async def _run(self, statement: str, *values: object) -> bool:
        async with self._connection.cursor() as cursor:
            await cursor.execute(statement, values)
            return cursor.description is not None and await cursor.fetchone() is not None
