"""Read what the operator allows and forbids."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from delivery.errors import InvalidInput

from .guard import Allowance, Rules
from .proxy import Proxy

T = TypeVar("T")

_PORTS = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Egress:
    """The settings about where may be sent to, read once."""

    allowed: tuple[Allowance, ...] = ()
    rules: Rules = field(default_factory=Rules)
    proxy: Proxy | None = None

    @classmethod
    def parse(
        cls,
        *,
        allow: str = "",
        deny: str = "",
        ports: str = "",
        https_only: bool = False,
        proxy: str | None = None,
        proxy_judges: bool = False,
    ) -> Egress:
        """Read lists that are separated by commas.

        Raises:
            InvalidInput: one of them cannot be read; says which and how to write it.
        """
        return cls(
            allowed=_read("TIDINGS_ALLOW", allow, Allowance.parse),
            rules=Rules(
                refused=_read("TIDINGS_DENY", deny, Allowance.parse),
                ports=_read("TIDINGS_PORTS", ports, _ports),
                https_only=https_only,
            ),
            proxy=None if proxy is None else Proxy.parse(proxy, judges=proxy_judges),
        )


def _read(setting: str, text: str, parse: Callable[[str], T]) -> tuple[T, ...]:
    try:
        return tuple(parse(item.strip()) for item in text.split(",") if item.strip())
    except InvalidInput as error:
        raise InvalidInput(f"{setting}: {error}") from None


def _ports(text: str) -> range:
    found = _PORTS.fullmatch(text)
    first, last = (int(found[1]), int(found[2] or found[1])) if found else (0, 0)
    if not 1 <= first <= last <= 65_535:
        raise InvalidInput(f"ports {text!r} cannot be read: write them like 443 or 8000-8999")
    return range(first, last + 1)
