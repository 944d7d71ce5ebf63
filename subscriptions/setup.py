"""What owners want, as one document: what is exported, kept in version control, and imported. Holds no secret of ours.

An endpoint is the one of its id. Where an entry has no id, it is the owner's one endpoint of that URL, for who writes
a document by hand knows no id; so a URL changes only where the id is given. Why not a name of its own: ids are there,
unique and never change, also in another database, into which an endpoint is imported with its id.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

from subscriptions.model import Checks, EndpointChanges, Exposure, PolicyChanges


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedType:
    """A type of event; None leaves a field as it stands, or as it is by default."""

    place: str = ""  #: where in the document
    type: str
    exposure: Exposure | None = None
    description: str | None = None
    schema: str | None = None  #: empty = none
    checks: Checks | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedPolicy:
    """A retry policy that operators make."""

    place: str = ""
    name: str
    #: None leaves a field as it stands, or as it is by default.
    fields: PolicyChanges = field(default_factory=PolicyChanges)


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedSubscription:
    """A subscription to the endpoint that it stands under."""

    place: str = ""
    name: str
    patterns: tuple[str, ...]
    filter: str | None = None  #: None = as it stands, or none; empty = none
    future: bool = False  #: also patterns that no declared type matches


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedEndpoint:
    """An endpoint."""

    place: str = ""
    id: UUID | None = None
    url: str
    #: All but its URL, headers and TLS identity; None leaves a field as it stands, or as it is by default.
    fields: EndpointChanges = field(default_factory=EndpointChanges)
    #: Names and values; a value that is None stays what it is, for it is secret. None = as they stand.
    headers: tuple[tuple[str, str | None], ...] | None = field(default=None, repr=False)
    tls: tuple[str, ...] = ()  #: what there is of a TLS identity, which is secret and stays what it is
    scheme: str | None = None  #: that a new one signs with
    subscriptions: tuple[WantedSubscription, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedOwner:
    """What one owner wants."""

    owner_id: str
    endpoints: tuple[WantedEndpoint, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """The whole document. What it does not name is not there to be removed."""

    event_types: tuple[WantedType, ...] = ()
    policies: tuple[WantedPolicy, ...] = ()
    owners: tuple[WantedOwner, ...] = ()
