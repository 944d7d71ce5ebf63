"""What a receiver of the zoo is: where it was met, what it does, and what must come of a delivery to it."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from tests.delivery.adapters.http.receivers import NO_CONTENT, OK, Connection, answering, answering_once

__all__ = ["NO_CONTENT", "OK", "Receiver", "Visit", "answering", "answering_once", "receivers"]

Visit = Connection
Script = Callable[[Visit], Awaitable[None]]


async def nobody(visit: Visit) -> None:
    """Never called: nothing gets there."""


@dataclass(frozen=True)
class Receiver:
    """One hostile, broken or merely odd receiver."""

    source: str  #: the public report, `owner/repo#number`, or the standard whose trap it is
    receive: Script
    expect: str | tuple[str, ...]  #: the outcome's code, or those that a race may give
    then: tuple[str | tuple[str, ...], ...] = ()  #: the same of further deliveries in a row
    note: str | None = None  #: what is kept about the body of the last
    #: `answer`: at once, however long the deadline. `deadline`: it would go on for ever. `grace`: after two seconds,
    #: as its status has decided.
    ends: Literal["answer", "deadline", "grace"] = "answer"
    body_bytes: int = 600
    tls: str | None = None  #: the certificate that it shows where https is expected; "" = none at all
    listen: Callable[[], Awaitable[int]] | None = None  #: opens a port in a way of its own
    addresses: tuple[str, ...] | None = None  #: of the name that the delivery goes to; None = straight to the port
    door: bool = False  #: it is a listener of the platform itself
    connections: int | None = None  #: how many it may see; None = not looked at
    kept: str = ""  #: part of what is kept of the last answer, as text


def receivers() -> dict[str, Receiver]:
    """Find them all, by the names of their files."""
    package = importlib.import_module("tests.zoo.receivers")
    names = sorted(found.name for found in pkgutil.iter_modules(package.__path__))
    return {name: importlib.import_module(f"tests.zoo.receivers.{name}").RECEIVER for name in names}
