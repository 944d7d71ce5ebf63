"""Send over HTTP, to vetted addresses only. The only home of httpx and httpcore."""

from .channel import HttpChannel
from .guard import LOCAL, Allowance, Allowed, Blocked, Guard, Verdict
from .pool import Limits
from .registration import blocked_url
from .resolver import Resolver, SystemResolver
from .transport import GuardedTransport

__all__ = [
    "LOCAL",
    "Allowance",
    "Allowed",
    "Blocked",
    "Guard",
    "GuardedTransport",
    "HttpChannel",
    "Limits",
    "Resolver",
    "SystemResolver",
    "Verdict",
    "blocked_url",
]
