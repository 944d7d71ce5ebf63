"""Says 'later' in no way that the standard knows."""

from __future__ import annotations

from tests.zoo.cage import Receiver, answering

ANSWER = b"HTTP/1.1 503 Busy\r\nRetry-After: \xd9\xa1 soon, -1, 1.5e9\r\nContent-Length: 0\r\n\r\n"

RECEIVER = Receiver("RFC 9110 section 10.2.3", answering(ANSWER), "http_503", connections=1)
