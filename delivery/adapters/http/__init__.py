"""Send over HTTP, to vetted addresses only. The only home of httpx and httptools."""

from .channel import HttpChannel
from .guard import LOCAL, Allowance, Allowed, Blocked, Guard, Verdict
from .pool import Limits
from .registration import blocked_url
from .resolver import Resolver, SystemResolver

__all__ = [
    "LOCAL",
    "Allowance",
    "Allowed",
    "Blocked",
    "Guard",
    "HttpChannel",
    "Limits",
    "Resolver",
    "SystemResolver",
    "Verdict",
    "blocked_url",
]
