"""Settings: the only reader of the environment.

Each field is read from `TIDINGS_<NAME>`; a value handed in wins. A duration is written as `90s`, `5m`, `2h`,
`7d`, `250ms`, or a bare number of seconds.
"""

from __future__ import annotations

import os
import re
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, ValidationError, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from delivery.errors import ConfigurationError, InvalidInput
from delivery.jobs import FINAL_STATES, JobState

_DURATION = re.compile(r"(?P<number>[0-9]+(?:\.[0-9]+)?)\s*(?P<unit>ms|s|m|h|d)?", re.ASCII)
_ADDRESS = re.compile(r"(?:\[(?P<v6>[0-9a-fA-F:.]+)\]|(?P<host>[A-Za-z0-9._-]+)):(?P<port>[0-9]{1,5})", re.ASCII)
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, None: 1.0}
#: The longest duration that is taken.
LONGEST = timedelta(days=3650)
#: The shortest that a lease, a poll or an age may be.
SHORTEST = timedelta(milliseconds=10)
#: The longest that lanes may be kept from others. What is held for twice as long was taken while the database's clock
#: was ahead, and has lapsed (`grab_shards.sql` and others).
LONGEST_LEASE = timedelta(hours=1)


def duration(text: str) -> timedelta:
    """Read a duration such as `90s`, `5m`, `2h`, `7d`, `250ms` or `30` (seconds).

    Raises:
        InvalidInput: it is none, or longer than ten years.
    """
    found = _DURATION.fullmatch(text.strip())
    if found is None or len(text) > 24:
        raise InvalidInput(f"{text[:40]!r} is no duration: write 90s, 5m, 2h, 7d or 250ms")
    seconds = float(found["number"]) * _UNITS[found["unit"]]
    if seconds > LONGEST.total_seconds():
        raise InvalidInput(f"{text!r} is too long: ten years is the most")
    return timedelta(seconds=seconds)


def address(text: str) -> tuple[str, int]:
    """Read where to listen: `127.0.0.1:9464`, `[::1]:9464`, `name:9464`; port 0 is any that is free.

    Raises:
        InvalidInput: it is none.
    """
    found = _ADDRESS.fullmatch(text.strip())
    if found is None or int(found["port"]) > 65_535:
        raise InvalidInput(
            f"{text[:60]!r} is no place to listen: write HOST:PORT, such as 127.0.0.1:9464 (0.0.0.0:9464 is every one)"
        )
    return found["v6"] or found["host"], int(found["port"])


def _address_in(value: Any) -> Any:
    return address(value) if isinstance(value, str) else value


def _duration_in(value: Any) -> Any:
    return duration(value) if isinstance(value, str) else value


def _lasting(value: timedelta) -> timedelta:
    if value < SHORTEST:
        raise InvalidInput("too short: 10ms is the least")
    return value


Duration = Annotated[timedelta, BeforeValidator(_duration_in), Field(ge=timedelta(0), le=LONGEST)]
#: None at all would be a busy loop, or a lease that is lost as it is taken.
Span = Annotated[Duration, AfterValidator(_lasting)]


def _owner_in(value: str) -> str:
    if not re.fullmatch(r"[!-~]{1,128}", value):
        raise InvalidInput("an owner's id (--owner) is 1 to 128 printable ASCII characters without spaces")
    return value


Owner = Annotated[str, AfterValidator(_owner_in)]


def _kept_for(value: Any) -> Any:
    return None if isinstance(value, str) and value.strip().lower() == "never" else value


#: `never` is read as None: kept for good.
Retention = Annotated[Span | None, BeforeValidator(_kept_for)]


def default_home() -> Path:
    """Return the state folder of this account: below /var/lib for root, else in the user's data folder.

    Raises:
        ConfigurationError: this account has no home.
    """
    if os.geteuid() == 0:
        return Path("/var/lib/tidings")
    data = os.environ.get("XDG_DATA_HOME", "")
    try:
        return (Path(data) if data.startswith("/") else Path.home() / ".local" / "share") / "tidings"
    except RuntimeError:
        raise ConfigurationError("TIDINGS_HOME: this account has no home: name a folder for the state") from None


class Settings(BaseSettings):
    """How this process runs."""

    model_config = SettingsConfigDict(env_prefix="TIDINGS_", extra="forbid", frozen=True, env_ignore_empty=True)

    #: libpq connection string or URL; None = the embedded PostgreSQL. May hold a password: never printed.
    database_url: SecretStr | None = None
    #: State folder: the embedded database and, with it, the key that seals secrets.
    home: Path = Field(default_factory=default_home)
    #: Key-encryption keys, `tdk_...`, separated by commas: the first seals, all open.
    keys: SecretStr | None = None
    #: Whose endpoints and events a command speaks of.
    owner: Owner = "default"
    #: Networks that may be sent to although they are not public, as CIDR or CIDR:port, separated by commas.
    allow: str = ""
    #: Networks that are never sent to, public ones too, whatever is allowed; written as in `allow`.
    deny: str = ""
    #: The only ports that are sent to, such as `443,8000-8999`; empty = every port. `allow` may name others.
    ports: str = ""
    https_only: bool = False  #: send to https URLs alone
    #: `http://user:password@proxy.example.com:3128`: send through this proxy. May hold a password: never printed.
    egress_proxy: SecretStr | None = None
    #: The proxy looks names up and judges addresses; otherwise we do, and tell it which address to dial.
    egress_proxy_judges: bool = False

    slots: int = Field(default=200, ge=1, le=10_000)  #: deliveries in flight in one process
    pool_size: int = Field(default=10, ge=4, le=500)  #: database connections of one process, besides two listeners
    #: How long the database may take to answer one statement before the connection is given up; the same for claims,
    #: settles and renewals of leases; and for a relay's whole transaction.
    statement_deadline: Span = timedelta(minutes=2)
    claim_deadline: Span = timedelta(seconds=25)
    relay_deadline: Span = timedelta(seconds=30)
    lease: Span = timedelta(seconds=30)  #: how long a claimed job is kept from others when its process dies
    #: How long lanes are kept from others when their process dies.
    shard_lease: Annotated[Span, Field(le=LONGEST_LEASE)] = timedelta(seconds=10)
    poll: Span = timedelta(seconds=2)  #: how often a worker looks for work that no ring told of
    relay_poll: Span = timedelta(milliseconds=200)  #: how often a relay looks for events that no ring told of
    grace: Duration = timedelta(seconds=20)  #: for what runs to end, when the process stops
    #: An endpoint whose every try failed for so long is disabled, after warnings; `never` (None) = it is not.
    disable_after: Annotated[Span | None, BeforeValidator(_kept_for)] = timedelta(days=7)
    cooldown: Duration = timedelta(minutes=5)  #: new deliveries to an endpoint that only fails start this late
    max_age: Span = timedelta(days=14)  #: a delivery or a handler's job that has not settled by then is discarded
    #: How long settled deliveries, their attempts and events are kept; `never` (None) = they are never removed.
    retention: Retention = timedelta(days=30)
    retention_completed: Retention = timedelta(days=30)  #: of completed deliveries; as `retention` unless it is given
    retention_discarded: Retention = timedelta(days=30)  #: of what was discarded; as `retention` unless it is given
    retention_cancelled: Retention = timedelta(days=30)  #: of what was cancelled; as `retention` unless it is given
    retention_jobs: Retention = timedelta(hours=24)  #: of completed jobs of other kinds than deliveries

    @model_validator(mode="before")
    @classmethod
    def _as_retention(cls, values: dict[str, Any]) -> dict[str, Any]:
        if "retention" not in values:
            return values
        return {f"retention_{state}": values["retention"] for state in FINAL_STATES} | values

    @property
    def retention_by_state(self) -> dict[JobState, timedelta | None]:
        """Return how long what ended in each final state is kept; None = for good."""
        return {
            JobState.COMPLETED: self.retention_completed,
            JobState.DISCARDED: self.retention_discarded,
            JobState.CANCELLED: self.retention_cancelled,
        }

    log_format: Literal["console", "json"] = "console"  #: of what processes that run write on standard error
    #: Make spans of what happens to events that were recorded with a `traceparent`; needs `tidings[otel]`.
    traces: bool = False
    #: Where metrics and health are served over HTTP, as `HOST:PORT`; None = nowhere.
    serve: Annotated[tuple[str, int] | None, NoDecode, BeforeValidator(_address_in)] = None

    #: How long others may keep vacuum from removing dead rows before `tidings status` has an alert.
    xmin_alert: Span = timedelta(minutes=5)

    @property
    def egress(self) -> dict[str, Any]:
        """Return what says where may be sent to; the proxy's URL may hold a password."""
        return {
            "allow": self.allow,
            "deny": self.deny,
            "ports": self.ports,
            "https_only": self.https_only,
            "proxy": self.egress_proxy.get_secret_value() if self.egress_proxy is not None else None,
            "proxy_judges": self.egress_proxy_judges,
        }

    @property
    def runtime(self) -> dict[str, Any]:
        """Return how a worker works."""
        return {name: getattr(self, name) for name in ("slots", "lease", "shard_lease", "poll", "grace")}

    @property
    def deadlines(self) -> dict[str, timedelta]:
        """Return how long the database may take."""
        return {"statement": self.statement_deadline, "quick": self.claim_deadline, "relay": self.relay_deadline}

    @property
    def kept(self) -> dict[str, Any]:
        """Return what is kept, and for how long."""
        return {
            "retention": self.retention,
            "states": self.retention_by_state,
            "jobs": self.retention_jobs,
            "max_age": self.max_age,
            "lease": self.lease,
        }

    @property
    def dsn(self) -> str | None:
        """Return the connection string, for connecting only."""
        return self.database_url.get_secret_value() if self.database_url is not None else None

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment of another process that is to have the same database and state folder."""
        database = {} if self.dsn is None else {"TIDINGS_DATABASE_URL": self.dsn}
        return {**os.environ, "TIDINGS_HOME": str(self.home), **database}


def read_settings(**given: Any) -> Settings:
    """Read settings from the environment; what is given wins, None is as if it were not given.

    Raises:
        ConfigurationError: a value is refused; the message names the setting, never the value of a secret.
    """
    try:
        return Settings(**{name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        _refuse(error)


_IN_OUR_WORDS = {"bool_parsing": "it is neither true nor false: write one of them"}


def _refuse(error: ValidationError) -> NoReturn:
    first = error.errors(include_input=False, include_url=False)[0]
    name = ".".join(str(part) for part in first["loc"]).upper()
    what = _IN_OUR_WORDS.get(first["type"], first["msg"].removeprefix("Value error, "))
    raise ConfigurationError(f"TIDINGS_{name}: {what}") from None
