"""The composition root and the public Python API. The only module that names adapters."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from importlib.metadata import version
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from delivery import handlers as handler_kinds
from delivery.adapters import keyfile
from delivery.adapters.embedded import EmbeddedPostgres
from delivery.adapters.http import LOCAL, Egress, Guard, HttpChannel, SystemResolver, blocked_url, check_identity
from delivery.adapters.postgres.database import Database, Deadlines, migrate
from delivery.adapters.postgres.event_log import PostgresEventLog
from delivery.adapters.postgres.listener import Listener
from delivery.adapters.postgres.outbox import PostgresOutbox
from delivery.adapters.postgres.parcels import PostgresDeliveries
from delivery.adapters.postgres.recorder import PostgresRecorder
from delivery.adapters.postgres.runtime import PostgresRuntime, RuntimeSettings
from delivery.adapters.postgres.sealed import PostgresSealed
from delivery.adapters.postgres.status import PostgresStatus
from delivery.adapters.postgres.store import PostgresStore
from delivery.adapters.postgres.switches import SETTINGS_CHANNEL, PostgresSwitches
from delivery.adapters.postgres.upkeep import UpkeepSettings, upkeep
from delivery.alerts import Alert, Limits, alerts
from delivery.api.deliveries import DeliveryDesk
from delivery.api.endpoints import Endpoints
from delivery.api.events import Events
from delivery.api.keys import Keys
from delivery.api.subscriptions import EventTypes, Subscriptions
from delivery.compiler import deliver_kind, endpoint_lane
from delivery.errors import ConfigurationError, TidingsError
from delivery.events import Recorder
from delivery.handlers import EventHandler
from delivery.jobs import JobKind, Runtime
from delivery.relay import Relay, RelaySettings
from delivery.sealing import KeyRing
from delivery.settings import Settings, read_settings
from delivery.status import Status
from delivery.vault import Vault
from delivery.worker import DeliverWorker
from subscriptions.errors import SubscriptionError
from subscriptions.model import Endpoint
from subscriptions.store import Store

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
    endpoints: Endpoints
    subscriptions: Subscriptions
    events: Events
    deliveries: DeliveryDesk
    jobs: Runtime
    keys: Keys
    recorder: Recorder
    _parts: _Parts

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


class _Parts:
    """What an app is made of."""

    def __init__(self, settings: Settings, database: Database, handlers: Sequence[EventHandler]) -> None:
        self.settings, self.database, self.vault = settings, database, Vault(self._open_ring)
        self.handlers = handlers
        self.embedded: EmbeddedPostgres | None = None
        self.switches = PostgresSwitches(database)
        self.egress = Egress.parse(**settings.egress)
        self.guard = Guard(allowed=self.egress.allowed, rules=self.egress.rules)
        self.resolver = SystemResolver()
        self.channel = HttpChannel(self.guard, resolver=self.resolver, proxy=self.egress.proxy)
        self.log = PostgresEventLog(database)
        self.outbox = PostgresOutbox(database)
        self.sealed = PostgresSealed(database)
        self.parcels = PostgresDeliveries(database, self.vault.open_credentials)
        self.deliver = DeliverWorker(
            self.parcels,
            self.channel,
            self.vault.open_key,
            disable=self._disable,
            pause=self._pause,
            user_agent=f"Tidings/{version('tidings')}",
        )
        kinds: list[JobKind] = [deliver_kind(self.deliver, max_age=settings.max_age)]
        kinds += [handler_kinds.kind_of(each, self.log, max_age=settings.max_age) for each in handlers]
        keep = UpkeepSettings(
            retention=settings.retention,
            states=settings.retention_by_state,
            jobs=settings.retention_jobs,
            max_age=settings.max_age,
            lease=settings.lease,
        )
        upkeep_kinds, periodics = upkeep(database, keep, kinds)
        self.runtime = PostgresRuntime(
            database, [*kinds, *upkeep_kinds], periodics, _runtime_settings(settings), adopts=handler_kinds.adopted
        )
        names = [kind.name for kind in (*kinds, *upkeep_kinds)]
        self.status = PostgresStatus(database, names, [each.name for each in periodics], settings.retention)
        self.relay = self._new_relay()
        self.endpoints = Endpoints(
            self.unit,
            seal=self.vault.seal_key,
            open_key=self.vault.open_key,
            check_tls=check_identity,
            check_keys=self.check_keys,
            gate=self._gate,
            jobs=self.runtime,
            attempt=self.deliver.attempt,
        )
        self.subscriptions = Subscriptions(self.unit)

    def app(self) -> App:
        """Put the nouns together."""
        return App(
            settings=self.settings,
            event_types=EventTypes(self.unit),
            endpoints=self.endpoints,
            subscriptions=self.subscriptions,
            events=Events(self._record, self.log, self.outbox, self.runtime),
            deliveries=DeliveryDesk(self.unit, self.log, self.runtime),
            jobs=self.runtime,
            keys=Keys(self.vault, self.sealed, self._new_key),
            recorder=recorder(),
            _parts=self,
        )

    @asynccontextmanager
    async def unit(self) -> AsyncIterator[Store]:
        """Open a transaction and hand out the store on it."""
        async with self.database.transaction() as tx:
            yield self._store_on(tx)

    def _new_relay(self) -> Relay:
        return Relay(self.outbox, self.runtime, self._store_on, RelaySettings(poll=self.settings.relay_poll))

    # Work -------------------------------------------------------------------------------------------------------

    async def work(self, *, relay: bool, worker: bool, started: Callable[[], None]) -> None:
        """Run the loops until cancelled."""
        if worker:
            await self._tell_missing_keys()
        for handler in self.handlers:
            await self.subscriptions.keep_handler(
                handler.name, handler.patterns, owner_id=handler.owner_id, coalesce=handler.coalesce, by="code"
            )
        async with asyncio.TaskGroup() as tasks:
            loops = [tasks.create_task(self._watch_switches()), tasks.create_task(self._watch_embedded())]
            listener = Listener(self.database, (OUTBOX_CHANNEL, SETTINGS_CHANNEL), self._hear, self._caught_up)
            loops.append(tasks.create_task(listener.run()))
            self.relay = self._new_relay()  # one that was stopped stays so
            relaying = tasks.create_task(self.relay.run()) if relay else None
            try:
                if worker:
                    await self.runtime.start()
                started()
                if worker:
                    await self.runtime.watch()
                await asyncio.get_running_loop().create_future()  # until cancelled
            finally:
                self.relay.stop()
                if relaying is not None:
                    await asyncio.gather(relaying, return_exceptions=True)
                await self.runtime.stop()
                for loop in loops:
                    loop.cancel()

    def _open_ring(self) -> KeyRing:
        given, state = self.settings.keys, None if self.settings.dsn is not None else self.settings.home
        return KeyRing(keyfile.keys_of(given.get_secret_value() if given is not None else None, state))

    def _new_key(self) -> str:
        _ = self.vault.ring  # where there is none, that is said first
        given = self.settings.keys is not None or self.settings.dsn is not None
        return keyfile.add(None if given else self.settings.home).id

    async def check_keys(self) -> None:
        """See that the keys open everything that is sealed here."""
        await self.vault.check(self.sealed)

    async def _tell_missing_keys(self) -> None:
        """A missing key holds up the deliveries that need it, and no others."""
        _ = self.vault.ring  # none at all is found before anything is claimed
        try:
            await self.check_keys()
        except ConfigurationError as error:
            log.error("%s; their deliveries wait for it", error)

    async def _hear(self, channel: str, _payload: str) -> None:
        if channel == OUTBOX_CHANNEL:
            self.relay.ring()
        else:
            with suppress(TidingsError):
                await self.read_switches()

    async def _caught_up(self) -> None:
        self.relay.ring()

    async def _watch_switches(self) -> None:
        """Read the switches now and then, for a change that was not heard."""
        while True:
            with suppress(TidingsError):  # said by the loops that need the database more
                await self.read_switches()
            await asyncio.sleep(_SWITCHES_EVERY_S)

    async def _watch_embedded(self) -> None:
        """Bring the embedded server back when it dies, or when the process that owned it goes."""
        while self.embedded is not None:
            await asyncio.sleep(_WATCH_EVERY_S)
            try:
                if await asyncio.to_thread(self.embedded.ensure):
                    log.warning("the embedded database was started again")
            except TidingsError as error:
                log.warning("%s", error)

    # Addresses ----------------------------------------------------------------------------------------------------

    async def read_switches(self) -> bool:
        """Read `allow_local` and let the guard go by it."""
        local = bool(await self.switches.get("allow_local"))
        self.guard.replace(allowed=(*self.egress.allowed, *LOCAL) if local else self.egress.allowed)
        return local

    async def _gate(self, url: str, owner_id: str) -> str | None:
        await self.read_switches()
        blocked = await blocked_url(url, owner_id, guard=self.guard, resolver=self.resolver, proxy=self.egress.proxy)
        return None if blocked is None else f"{urlsplit(url).hostname} is not allowed: {blocked.reason}"

    def _store_on(self, tx: Any) -> Store:
        return PostgresStore(tx, self.vault.seal_credentials, self.vault.open_credentials)

    # What the worker asks for ----------------------------------------------------------------------------------------

    async def _disable(self, endpoint: Endpoint, code: str) -> None:
        reason = f"the receiver said so ({code})"
        with suppress(SubscriptionError):  # removed meanwhile: there is nothing to disable
            await self.endpoints.disable(endpoint.owner_id, endpoint.id, by=code, reason=reason, keep_standing=True)
        await self.runtime.pause_lane(endpoint_lane(endpoint.id), _UNTIL_HEARD)

    async def _pause(self, lane: str, pause: timedelta) -> None:
        await self.runtime.pause_lane(lane, pause)

    async def _record(self, *args: Any, **options: Any) -> UUID:
        async with self.database.transaction() as tx:
            recorded: UUID = await recorder().with_(tx).record(*args, **options)
            return recorded


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
        parts = _Parts(settings, database, handlers)
        parts.embedded = embedded
        if embedded is None:  # that one listens on its socket alone
            parts.guard.replace(denied=await asyncio.to_thread(Database.doors, database.dsn))
        stack.push_async_callback(parts.channel.aclose)
        stack.push_async_callback(parts.runtime.stop)
        if embedded is None:
            await database.open()
        await parts.read_switches()
        yield parts.app()


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
    deadlines = Deadlines(
        statement=settings.statement_deadline, quick=settings.claim_deadline, relay=settings.relay_deadline
    )
    return Database(dsn, size=settings.pool_size, deadlines=deadlines)


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


def _runtime_settings(settings: Settings) -> RuntimeSettings:
    return RuntimeSettings(
        slots=settings.slots,
        lease=settings.lease,
        shard_lease=settings.shard_lease,
        poll=settings.poll,
        grace=settings.grace,
    )
