"""The parts of the platform, each handed what it needs of the others."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from enum import Enum, auto
from importlib.metadata import version
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from delivery import handlers as handler_kinds
from delivery.adapters import keyfile
from delivery.adapters.embedded import EmbeddedPostgres
from delivery.adapters.http import LOCAL, Egress, Guard, HttpChannel, SystemResolver, blocked_url, check_identity
from delivery.adapters.http.faults import SendError
from delivery.adapters.otel import OtelTraces
from delivery.adapters.postgres.buckets import PostgresBuckets
from delivery.adapters.postgres.database import Database
from delivery.adapters.postgres.ending import end
from delivery.adapters.postgres.event_log import PostgresEventLog
from delivery.adapters.postgres.health import Healers, PostgresHealth
from delivery.adapters.postgres.listener import Listener
from delivery.adapters.postgres.outbox import PostgresOutbox
from delivery.adapters.postgres.parcels import PostgresDeliveries
from delivery.adapters.postgres.pauses import PostgresPauses
from delivery.adapters.postgres.replays import PostgresReplays
from delivery.adapters.postgres.runtime import PostgresRuntime, RuntimeSettings
from delivery.adapters.postgres.sealed import PostgresSealed
from delivery.adapters.postgres.status import PostgresStatus
from delivery.adapters.postgres.store import PostgresStore
from delivery.adapters.postgres.surroundings import PostgresExaminer
from delivery.adapters.postgres.switches import SETTINGS_CHANNEL, PostgresSwitches
from delivery.adapters.postgres.upkeep import UpkeepSettings, upkeep
from delivery.api.endpoints import Endpoints
from delivery.api.policies import Policies
from delivery.api.subscriptions import Subscriptions
from delivery.classifier import Delivered
from delivery.compiler import deliver_kind, endpoint_lane
from delivery.errors import ConfigurationError, TidingsError
from delivery.handlers import EventHandler
from delivery.health import BY, HealthRules
from delivery.jobs import JobKind
from delivery.metrics import Metrics
from delivery.relay import Relay, RelaySettings
from delivery.replay import ReplayWorker, replay_kind
from delivery.sealing import KeyRing, SealError
from delivery.settings import Settings
from delivery.vault import Vault
from delivery.worker import DeliverWorker
from subscriptions.errors import SubscriptionError
from subscriptions.model import Endpoint, EndpointState
from subscriptions.policies import PolicyBounds
from subscriptions.store import Store

log = logging.getLogger("tidings")

#: A lane that was switched off is held here until every process has heard of it.
_UNTIL_HEARD = timedelta(seconds=5)
OUTBOX_CHANNEL = "tidings_outbox"
_WATCH_EVERY_S = 1.0
_SWITCHES_EVERY_S = 10.0
#: A name server that takes longer is as good as none.
_NAME_WITHIN_S = 10.0


def _literal(place: tuple[str, int] | None) -> Sequence[tuple[str, int]]:
    """Return where a process with these settings listens, unless it is a name, which only that one looks up."""
    with suppress(ValueError):
        return [] if place is None else [(str(ip_address(place[0])), place[1])]
    return []


class Phase(Enum):
    """How far a process is."""

    STARTING = auto()
    RUNNING = auto()
    STOPPING = auto()


class Parts:
    """What an app is made of, put together once."""

    def __init__(self, settings: Settings, database: Database, handlers: Sequence[EventHandler]) -> None:
        self.settings, self.database, self.vault = settings, database, Vault(self._open_ring)
        self.handlers = handlers
        self.embedded: EmbeddedPostgres | None = None
        self.switches = PostgresSwitches(database)
        self.egress = Egress.parse(**settings.egress)
        self.guard = Guard(allowed=self.egress.allowed, rules=self.egress.rules)
        self.doors: tuple[tuple[str, int], ...] = ()
        self.keep_out(_literal(settings.serve))
        self.resolver = SystemResolver()
        self.channel = HttpChannel(self.guard, resolver=self.resolver, proxy=self.egress.proxy)
        self.log = PostgresEventLog(database)
        self.outbox = PostgresOutbox(database)
        self.sealed = PostgresSealed(database)
        self.parcels = PostgresDeliveries(database, self.vault.open_credentials)
        self.health = PostgresHealth(database, cooldown=settings.cooldown)
        self.metrics, self.traces = Metrics(), OtelTraces() if settings.traces else None
        self.phase, self.loops = Phase.STARTING, frozenset[str]()
        self.begun = asyncio.Event()  #: the loops run, or did
        self.deliver = DeliverWorker(
            self.parcels,
            self.channel,
            self.vault.open_key,
            disable=self._disable,
            pause=self._pause,
            health=self.health,
            user_agent=f"Tidings/{version('tidings')}",
            metrics=self.metrics,
            traces=self.traces,
        )
        kinds: list[JobKind] = [deliver_kind(self.deliver, max_age=settings.max_age)]
        kinds += [handler_kinds.kind_of(each, self.log, max_age=settings.max_age) for each in handlers]
        self.replays = PostgresReplays(database, lambda tx: self.runtime.with_(tx))
        self.replaying = ReplayWorker(self.replays)
        kinds.append(replay_kind(self.replaying))
        rules = HealthRules(limit=settings.disable_after)
        upkeep_kinds, periodics = upkeep(
            database,
            UpkeepSettings(**settings.kept),
            kinds,
            rules=rules,
            healers=Healers(give_up=self._give_up, probe=self._probe),
        )
        self.runtime = PostgresRuntime(
            database,
            [*kinds, *upkeep_kinds],
            periodics,
            RuntimeSettings(**settings.runtime),
            adopts=handler_kinds.adopted,
            metrics=self.metrics,
        )
        self.kinds = [kind.name for kind in (*kinds, *upkeep_kinds)]
        self.pauses = PostgresPauses(database)
        self.status = PostgresStatus(database, self.kinds, [each.name for each in periodics], settings.retention)
        ours = self.egress.proxy is None or not self.egress.proxy.judges  # else the proxy looks names up
        self.examiner = PostgresExaminer(
            database,
            self.status,
            count_keys=self._count_missing_keys,
            resolve=self._no_address if ours else None,
        )
        self.relay = self._new_relay()
        self.endpoints = Endpoints(
            self.unit,
            seal=self.vault.seal_key,
            open_key=self.vault.open_key,
            check_tls=check_identity,
            check_keys=self.check_keys,
            gate=self._gate,
            jobs=self.runtime,
            health=self.health,
            attempt=self.deliver.attempt,
            take=PostgresBuckets(database).take,
        )
        self.subscriptions = Subscriptions(self.unit)
        self.policies = Policies(self.unit, PolicyBounds(max_age=settings.max_age, lease=settings.lease))

    @asynccontextmanager
    async def unit(self) -> AsyncIterator[Store]:
        """Open a transaction and hand out the store on it."""
        async with self.database.transaction() as tx:
            yield self._store_on(tx)

    def knows_kind(self, name: str) -> bool:
        """Say whether jobs can be of this kind: this process runs it, or it is a handler's, which may run elsewhere."""
        return name in self.kinds or handler_kinds.adopted(name) is not None

    def _new_relay(self) -> Relay:
        cooldown = min(self.settings.cooldown, self.settings.max_age / 2)  # what waits is tried before it expires
        settings = RelaySettings(poll=self.settings.relay_poll, cooldown=cooldown)
        return Relay(self.outbox, self.runtime, self._store_on, settings, self.metrics, self.traces)

    # Work -------------------------------------------------------------------------------------------------------

    async def work(self, *, relay: bool, worker: bool, started: Callable[[], None]) -> None:
        """Run the loops until cancelled."""
        self.phase = Phase.STARTING
        self.loops = frozenset(name for name, runs in (("relay", relay), ("worker", worker)) if runs)
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
                    self.replaying.begin()
                    await self.runtime.start()
                self.phase = Phase.RUNNING
                self.begun.set()
                started()
                if worker:
                    await self.runtime.watch()
                await asyncio.get_running_loop().create_future()  # until cancelled
            finally:
                self.phase = Phase.STOPPING
                self.relay.stop()
                if relaying is not None:
                    await asyncio.gather(relaying, return_exceptions=True)
                self.replaying.stop()
                await self.runtime.stop()
                await end(loops)

    def _open_ring(self) -> KeyRing:
        given, state = self.settings.keys, None if self.settings.dsn is not None else self.settings.home
        return KeyRing(keyfile.keys_of(given.get_secret_value() if given is not None else None, state))

    def new_key(self) -> str:
        _ = self.vault.ring  # where there is none, that is said first
        given = self.settings.keys is not None or self.settings.dsn is not None
        return keyfile.add(None if given else self.settings.home).id

    async def check_keys(self) -> None:
        """See that the keys open everything that is sealed here."""
        await self.vault.check(self.sealed)

    async def _count_missing_keys(self) -> Mapping[str, int]:
        known = self.vault.ring.key_ids
        return {key_id: number for key_id, number in (await self.sealed.count()).items() if key_id not in known}

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

    def keep_out(self, doors: Sequence[tuple[str, int]]) -> None:
        """Send nothing to these addresses and ports of ours, nor to those that were named before."""
        self.doors = (*self.doors, *doors)
        self.guard.replace(denied=self.doors)

    async def read_switches(self) -> bool:
        """Read `allow_local` and let the guard go by it."""
        local = bool(await self.switches.get("allow_local"))
        self.guard.replace(allowed=(*self.egress.allowed, *LOCAL) if local else self.egress.allowed)
        return local

    async def _no_address(self, host: str, owner_id: str) -> str | None:
        try:
            async with asyncio.timeout(_NAME_WITHIN_S):
                await self.resolver.resolve(host, owner_id)
        except (SendError, TimeoutError) as error:
            return str(error) or f"no answer within {_NAME_WITHIN_S:.0f} s"
        return None

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

    async def _give_up(self, owner_id: str, endpoint_id: UUID, since: datetime, reason: str) -> bool:
        return await self.endpoints.give_up(owner_id, endpoint_id, since, by=BY, reason=reason)

    async def _probe(self, owner_id: str, endpoint_id: UUID) -> bool:
        try:
            tested = await self.endpoints.test(owner_id, endpoint_id)
            if isinstance(tested.verdict, Delivered):
                endpoint = await self.endpoints.enable(owner_id, endpoint_id, by=BY, only_if_disabled_by=BY)
                return endpoint.state is EndpointState.ENABLED  # else somebody disabled it meanwhile
        except (TidingsError, SubscriptionError, SealError) as error:  # removed meanwhile, or its keys are not here
            log.warning("endpoint %s cannot be probed: %s", endpoint_id, error)
        return False

    async def _pause(self, lane: str, pause: timedelta) -> None:
        await self.runtime.pause_lane(lane, pause)
