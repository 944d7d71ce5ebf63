"""Where a URL leads, and how a request to it begins."""

from __future__ import annotations

from functools import lru_cache
from ipaddress import ip_address
from typing import NamedTuple
from urllib.parse import urlsplit

from subscriptions.model import TlsIdentity
from subscriptions.urls import canonical_url

_PORTS = {"http": 80, "https": 443}


class Origin(NamedTuple):
    """Where a connection leads, by name, and what it is made with: what may share connections."""

    scheme: str
    host: str  #: ASCII, without brackets
    port: int
    tls: TlsIdentity | None = None

    @property
    def authority(self) -> str:
        """What `Host` says: no default port."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"


class Target(NamedTuple):
    """A URL, taken apart once."""

    origin: Origin
    start: bytes  #: of a POST: from its request line into its Content-Length, whose number is next


@lru_cache(maxsize=8_192)
def target_of(url: str) -> Target:
    """Take a URL apart.

    Raises:
        InvalidEndpoint: it cannot be sent to.
    """
    parts = urlsplit(canonical_url(url))
    origin = Origin(parts.scheme, parts.hostname or "", parts.port or _PORTS[parts.scheme])
    path = f"{parts.path}?{parts.query}" if "?" in url else parts.path
    lines = f"POST {path} HTTP/1.1\r\nhost: {origin.authority}\r\naccept-encoding: identity\r\ncontent-length: "
    return Target(origin, lines.encode("ascii"))


@lru_cache(maxsize=8_192)
def is_literal(host: str) -> bool:
    """Whether the host is an address and not a name."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
