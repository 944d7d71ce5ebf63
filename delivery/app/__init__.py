"""The composition root and the public Python API. The only package that names adapters."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID

from delivery.adapters.embedded import EmbeddedPostgres
from delivery.adapters.postgres.database import Database, Deadlines, migrate
from delivery.adapters.postgres.recorder import PostgresRecorder
from delivery.alerts import Alert, Limits, alerts
from delivery.api.deliveries import DeliveryDesk
from delivery.api.endpoints import Endpoints
from delivery.api.events import Events
from delivery.api.keys import Keys
from delivery.api.pauses import PauseDesk
from delivery.api.policies import Policies
from delivery.api.replays import ReplayDesk
from delivery.api.setup import SetupDesk
from delivery.api.subscriptions import EventTypes, Subscriptions
from delivery.app.parts import Parts
from delivery.app.watch import Watch
from delivery.doctor import Finding, diagnose
from delivery.events import Recorder
from delivery.handlers import EventHandler
from delivery.jobs import Runtime
from delivery.metrics import Numbers
from delivery.settings import Settings, read_settings
from delivery.status import Status

log = logging.getLogger("tidings")

#: A lane that was switched off is held here until every process has heard of it.
_UNTIL_HEARD = timedelta(seconds=5)
OUTBOX_CHANNEL = "tidings_outbox"
_WATCH_EVERY_S = 1.0
_SWITCHES_EVERY_S = 10.0


def recorder() -> Recorder:
    """Return the recorder: `recorder().with_(connection).record(...)` inside your own transaction."""
    return PostgresRecorder()


@dataclass(frozen=True, slots=True, kw_only=True)
class App:
    """The platform over one database: each noun's methods are what its commands call."""

    settings: Settings
    event_types: EventTypes
    policies: Policies
    endpoints: Endpoints
    subscriptions: Subscriptions
    events: Events
    deliveries: DeliveryDesk
    replays: ReplayDesk
    pauses: PauseDesk
    jobs: Runtime
    keys: Keys
    setup: SetupDesk
    recorder: Recorder
    _parts: Parts

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Any]:
        """Open a transaction of the platform's own pool (a psycopg AsyncConnection): commits on leaving."""
        async with self._parts.database.transaction() as tx:
            yield tx

    async def allow_local(self, allowed: bool | None = None, *, by: str = "somebody") -> bool:
        """Say whether deliveries may go to loopback and private addresses; kept in the database, heard everywhere."""
        if allowed is not None:
            await self._parts.switches.put("allow_local", allowed, by)
        return await self._parts.read_switches()

    async def status(self) -> tuple[Status, Sequence[Alert]]:
        """Look how the platform stands, and what of it needs attention; it costs little whatever waits."""
        status = await self._parts.status.read()
        return status, alerts(status, Limits(held=self.settings.xmin_alert))

    async def doctor(self) -> Sequence[Finding]:
        """Look at what the platform needs around it, and judge that; it rings once, and changes nothing."""
        return diagnose(await self._parts.examiner.look())

    async def database(self) -> str:
        """Say in a line which database this is: server version, name, place; never a password."""
        async with self.transaction() as tx:
            version, name, host = tx.info.server_version // 10_000, tx.info.dbname, tx.info.host
            place = f"{host}:{tx.info.port}" if host and not host.startswith(("/", "@")) else "a local socket"
        kind = "embedded PostgreSQL" if self.settings.dsn is None else "PostgreSQL"
        how = ", through a pooler: polls, as it cannot listen" if self._parts.database.is_pooled else ""
        return f"{kind} {version}, database {name} on {place}{how}"

    def check_keys(self) -> None:
        """See that there are keys to open secrets with, before anything is changed.

        Raises:
            ConfigurationError: there are none, or one of them is none.
        """
        _ = self._parts.vault.ring

    async def work(
        self, *, relay: bool = True, worker: bool = True, started: Callable[[], None] = lambda: None
    ) -> None:
        """Relay and deliver until cancelled; then stop in order: relay, claims, grace, cancel, flush.

        `started` is called once everything runs.

        Raises:
            ConfigurationError: a key is missing, or the pool is too small.
            Unavailable: the database did not answer at the start.
        """
        await self._parts.work(relay=relay, worker=worker, started=started)

    def numbers(self) -> Numbers:
        """Return what this process counted of its own work since it started."""
        return Watch(self._parts).numbers()

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[Watch]:
        """Look at the platform now and then, for whoever watches this process; yields what tells of both."""
        watch = Watch(self._parts)
        async with watch.looking():
            yield watch

    def keep_out(self, doors: Sequence[tuple[str, int]]) -> None:
        """Deliver nothing to these addresses and ports, where something of ours listens, whatever is allowed."""
        self._parts.keep_out(doors)


async def _record(database: Database, *args: Any, **options: Any) -> UUID:
    async with database.transaction() as tx:
        recorded: UUID = await recorder().with_(tx).record(*args, **options)
        return recorded


def _app_of(parts: Parts) -> App:
    """Put the nouns together."""
    return App(
        settings=parts.settings,
        event_types=EventTypes(parts.unit),
        policies=parts.policies,
        endpoints=parts.endpoints,
        subscriptions=parts.subscriptions,
        events=Events(partial(_record, parts.database), parts.log, parts.outbox, parts.runtime),
        deliveries=DeliveryDesk(parts.unit, parts.log, parts.runtime),
        replays=ReplayDesk(parts.unit, parts.replays),
        pauses=PauseDesk(parts.pauses, parts.knows_kind, parts.kinds),
        jobs=parts.runtime,
        keys=Keys(parts.vault, parts.sealed, parts.new_key),
        setup=SetupDesk(parts.unit, parts.endpoints, parts.policies),
        recorder=recorder(),
        _parts=parts,
    )


@asynccontextmanager
async def open_app(settings: Settings | None = None, *, handlers: Sequence[EventHandler] = ()) -> AsyncIterator[App]:
    """Open the platform: on the given database, or on the embedded one, which is migrated as it opens.

    Raises:
        ConfigurationError: settings, keys or state folder are not fit; the message says what to do.
        SchemaPending, SchemaTooNew: the schema and this release do not fit.
        Unavailable: the database does not answer.
    """
    settings = settings or read_settings()
    async with AsyncExitStack() as stack:
        embedded = None
        if settings.dsn is None:
            embedded = EmbeddedPostgres(settings.home)
            stack.push_async_callback(asyncio.to_thread, embedded.stop)
            stack.enter_context(embedded.explained())
            database = await embedded.reach(partial(_open_migrated, settings=settings))
        else:
            database = _database(settings.dsn, settings)
        stack.push_async_callback(database.close)
        parts = Parts(settings, database, handlers)
        parts.embedded = embedded
        if embedded is None:  # that one listens on its socket alone
            parts.keep_out(await asyncio.to_thread(Database.doors, database.dsn))
        stack.push_async_callback(parts.channel.aclose)
        stack.push_async_callback(parts.runtime.stop)
        if embedded is None:
            await database.open()
        await parts.read_switches()
        yield _app_of(parts)


async def _open_migrated(dsn: str, *, settings: Settings) -> Database:
    await asyncio.to_thread(migrate, dsn)
    database = _database(dsn, settings)
    try:
        await database.open()
    except BaseException:
        await database.close()
        raise
    return database


def _database(dsn: str, settings: Settings) -> Database:
    return Database(dsn, size=settings.pool_size, deadlines=Deadlines(**settings.deadlines))


async def migrate_database(
    settings: Settings, *, check: bool = False, grant_record: str | None = None
) -> Sequence[str]:
    """Apply what the database lacks and return its names in order; with `check`, only name it.

    `grant_record` names a role that may then record events.

    Raises:
        ConfigurationError: server, state folder or role are not fit; the message says what to do.
        SchemaTooNew: the schema is of a newer release.
        Unavailable: the database does not answer, or others held a lock for too long.
    """
    async with AsyncExitStack() as stack:
        act = partial(migrate, check=check, grant_record=grant_record)
        if settings.dsn is None:
            embedded = EmbeddedPostgres(settings.home)
            stack.push_async_callback(asyncio.to_thread, embedded.stop)
            found = await embedded.reach(partial(asyncio.to_thread, act))
        else:
            found = await asyncio.to_thread(act, settings.dsn)
    return [f"{each.number:04}_{each.name}" for each in found]
