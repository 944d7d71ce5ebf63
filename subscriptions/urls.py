"""The one spelling of an endpoint's URL: what is stored, compared, shown and sent to."""

from __future__ import annotations

import re
import unicodedata
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from urllib.parse import quote

import idna

from .errors import InvalidEndpoint

MAX_URL_LENGTH = 2_048

_URL = re.compile(r"(?P<scheme>https?)://(?P<authority>[^/?]*)(?P<path>[^?]*)(?P<query>\?.*)?", re.IGNORECASE)
_AUTHORITY = re.compile(r"(?P<host>\[[^\]]*\]|[^:\[\]]*)(?::(?P<port>[0-9]{1,5}))?")
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_DEFAULT_PORTS = {"http": 80, "https": 443}

# What may stand unescaped; the rest is percent-encoded, as an HTTP client would when sending.
_QUERY_SAFE = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) not in '"#<>%')
_PATH_SAFE = "".join(char for char in _QUERY_SAFE if char not in "?`{}")


def canonical_url(text: str) -> str:
    """Return the canonical form: ASCII, lower-case scheme and host, no default port, the query as given.

    The canonical form of a canonical form is itself. Says nothing about where the host leads.

    Raises:
        InvalidEndpoint: the text is no http or https URL that can safely be sent to; says what to change.
    """
    _check_characters(text)
    match = _URL.fullmatch(text)
    if match is None:
        raise InvalidEndpoint("the URL must start with https:// or http:// and a host")
    scheme = match["scheme"].lower()
    host, port = _split_authority(match["authority"])
    shown_port = "" if port in (None, _DEFAULT_PORTS[scheme]) else f":{port}"
    path = _escaped(_without_dots(match["path"]) or "/", _PATH_SAFE)
    url = f"{scheme}://{_canonical_host(host)}{shown_port}{path}{_escaped(match['query'] or '', _QUERY_SAFE)}"
    if len(url) > MAX_URL_LENGTH:
        raise InvalidEndpoint(f"the URL is longer than {MAX_URL_LENGTH} characters: shorten it")
    return url


def _check_characters(text: str) -> None:
    if len(text) > MAX_URL_LENGTH:
        raise InvalidEndpoint(f"the URL is longer than {MAX_URL_LENGTH} characters: shorten it")
    if any(char.isspace() or unicodedata.category(char) in ("Cc", "Cf", "Cs") for char in text):
        raise InvalidEndpoint("the URL holds a space or an invisible character: remove it")
    if "\\" in text:
        raise InvalidEndpoint("the URL holds a backslash: use / or %5C")
    if "#" in text:
        raise InvalidEndpoint("the URL has a fragment (#...), which is never sent: remove it")


def _split_authority(authority: str) -> tuple[str, int | None]:
    if "@" in authority:
        raise InvalidEndpoint("the URL holds a user name or password: send credentials in a header instead")
    if "%" in authority:
        raise InvalidEndpoint("the host holds a percent sign: write the host itself, without zone or escapes")
    match = _AUTHORITY.fullmatch(authority)
    if match is None:
        raise InvalidEndpoint("the URL's host or port cannot be read: write it like https://example.com:8443/path")
    port = None if match["port"] is None else int(match["port"])
    if port is not None and not 1 <= port <= 65_535:
        raise InvalidEndpoint(f"port {port} does not exist: use 1 to 65535")
    return match["host"], port


def _canonical_host(host: str) -> str:
    if host.startswith("["):
        return _canonical_ipv6(host[1:-1])
    name = _ascii(host).lower().removesuffix(".")
    labels = name.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        return _canonical_ipv4(name)
    if len(labels) == 1 and name and name != "localhost":
        raise InvalidEndpoint(f"host {name!r} has no dot: use its full name, such as {name}.example.com")
    if len(name) > 253 or not all(_is_label(label) for label in labels):
        raise InvalidEndpoint("the URL's host is not a valid host name: write it like https://example.com/path")
    return name


def _canonical_ipv6(text: str) -> str:
    try:
        address = IPv6Address(text)
    except AddressValueError:
        raise InvalidEndpoint("the URL's IPv6 address cannot be read: write it like https://[2001:db8::1]/") from None
    if address.ipv4_mapped is not None:
        raise InvalidEndpoint(f"write the IPv4 address itself: {address.ipv4_mapped}")
    return f"[{address.compressed}]"


def _canonical_ipv4(text: str) -> str:
    try:
        return str(IPv4Address(text))
    except AddressValueError:
        raise InvalidEndpoint("an IPv4 address must be written as four decimal numbers, like 192.0.2.1") from None


def _ascii(host: str) -> str:
    if host.isascii():
        return host
    try:
        return idna.encode(host, uts46=True, std3_rules=True).decode("ascii")
    except (idna.IDNAError, UnicodeError):
        raise InvalidEndpoint("the URL's host is not a valid international name: check its spelling") from None


def _is_label(label: str) -> bool:
    if _LABEL.fullmatch(label) is None:
        return False
    if not label.startswith("xn--"):
        return True
    try:
        idna.ulabel(label)
    except (idna.IDNAError, UnicodeError):
        return False
    return True


def _without_dots(path: str) -> str:
    """Resolve `.` and `..` as every HTTP client does. Source: RFC 3986 section 5.2.4."""
    kept: list[str] = []
    segments = path.split("/")
    for segment in segments:
        if segment == "..":
            kept = kept[:-1] if len(kept) > 1 else kept
        elif segment != ".":
            kept.append(segment)
    if segments[-1] in (".", ".."):
        kept.append("")
    return "/".join(kept)


def _escaped(text: str, safe: str) -> str:
    """Percent-encode what may not stand; escapes that are there already stay."""
    parts = re.split(r"(%[0-9A-Fa-f]{2})", text)
    return "".join(part if index % 2 else quote(part, safe=safe) for index, part in enumerate(parts))
