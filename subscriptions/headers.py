"""Which headers an owner may add to deliveries.

They are checked when they are registered, because a header that the wire refuses would otherwise fail every
delivery. Reserved names are refused here and dropped once more at each send, where the signed headers go
last: no custom header can ever stand in for one of ours.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable

from subscriptions.errors import InvalidEndpoint

#: How many headers an endpoint may add.
MAX_HEADERS = 50
#: Bytes of one header, name and value together.
MAX_HEADER_BYTES = 4096

#: Ours, or the transport's: lower case.
RESERVED = frozenset(
    {
        "accept-encoding",
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "cookie",
        "expect",
        "forwarded",
        "host",
        "keep-alive",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "user-agent",
    }
)
#: Families that are ours, or that proxies and clouds believe: lower case.
RESERVED_PREFIXES = (
    "proxy-",
    "svix-",
    "webhook-",
    "x-amz-",
    "x-amzn-",
    "x-azure-",
    "x-forwarded-",
    "x-goog",
)

#: Source: RFC 9110, section 5.6.2.
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
#: Narrower than RFC 9110, section 5.5, which also lets bytes beyond ASCII pass.
_VALUE = re.compile(r"(?:[!-~](?:[ -~\t]*[!-~])?)?")


_BEARER = re.compile(r"[A-Za-z0-9._~+/-]+=*")


def is_reserved(name: str) -> bool:
    """Say whether a header of this name, in any case, is not the owner's to set.

    Many receivers (CGI, WSGI, PHP) read `_` as `-`.
    """
    lowered = name.lower().replace("_", "-")
    return lowered in RESERVED or lowered.startswith(RESERVED_PREFIXES)


def basic(user: str, password: str) -> tuple[str, str]:
    """Return the header that answers HTTP's Basic authentication. Source: RFC 7617.

    Raises:
        InvalidEndpoint: the user's name holds a colon, which would end it.
    """
    if ":" in user:
        raise InvalidEndpoint("a user's name with a colon in it cannot be sent: the password would begin there")
    return "authorization", "Basic " + b64encode(f"{user}:{password}".encode()).decode("ascii")


def bearer(token: str) -> tuple[str, str]:
    """Return the header that carries a bearer token. Source: RFC 6750.

    Raises:
        InvalidEndpoint: it is none; the message does not repeat it.
    """
    if not _BEARER.fullmatch(token):
        raise InvalidEndpoint("the bearer token is none: give letters, digits and -._~+/ only, = at its end")
    return "authorization", f"Bearer {token}"


def check_headers(custom: Iterable[tuple[str, str]]) -> None:
    """Refuse headers that could not be sent, or that are ours.

    Messages name the header and never its value, which may be a credential.

    Raises:
        InvalidEndpoint: too many, a bad or reserved name, a bad value, or a name that is there twice.
    """
    headers = tuple(custom)
    if len(headers) > MAX_HEADERS:
        raise InvalidEndpoint(f"{len(headers)} headers are too many: give at most {MAX_HEADERS}")
    seen: set[str] = set()
    for name, value in headers:
        _check(name, value)
        if name.lower() in seen:
            raise InvalidEndpoint(f"header {name!r} is given twice (case does not matter): give it once")
        seen.add(name.lower())


def _check(name: str, value: str) -> None:
    if not _TOKEN.fullmatch(name):
        raise InvalidEndpoint(f"header name {name[:60]!a} is not a name: use letters, digits and - only, at least one")
    shown = repr(name[:60])
    if is_reserved(name):
        raise InvalidEndpoint(f"header {shown} is reserved: leave it out, it is set for each delivery or never sent")
    if len(name) + len(value) > MAX_HEADER_BYTES:
        raise InvalidEndpoint(f"header {shown} is too long: at most {MAX_HEADER_BYTES} bytes, name included")
    if not _VALUE.fullmatch(value):
        raise InvalidEndpoint(
            f"the value of header {shown} cannot be sent: use printable ASCII, spaces and tabs only inside"
        )
