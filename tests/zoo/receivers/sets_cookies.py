"""Sets a cookie and asks for a password: neither ever comes."""

from __future__ import annotations

from tests.zoo.cage import Receiver, answering

ANSWER = (
    b"HTTP/1.1 401 Unauthorized\r\nSet-Cookie: a=b; Path=/\r\n"
    b'WWW-Authenticate: Basic realm="x"\r\nContent-Length: 0\r\n\r\n'
)

RECEIVER = Receiver("RFC 6265 section 8.2", answering(ANSWER), "http_401", then=("http_401",), connections=1)
