"""Send over HTTP, to vetted addresses only. The only home of httpx and httptools."""

from .channel import HttpChannel
from .egress import Egress
from .guard import LOCAL, Allowance, Allowed, Blocked, Guard, Rules, Verdict
from .pool import Limits
from .proxy import Proxy
from .registration import blocked_url
from .resolver import Resolver, SystemResolver
from .tls import check_identity

__all__ = [
    "LOCAL",
    "Allowance",
    "Allowed",
    "Blocked",
    "Egress",
    "Guard",
    "HttpChannel",
    "Limits",
    "Proxy",
    "Resolver",
    "Rules",
    "SystemResolver",
    "Verdict",
    "blocked_url",
    "check_identity",
]
