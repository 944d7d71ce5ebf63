"""Says 'later' and means in thirty years."""

from __future__ import annotations

from tests.zoo.cage import Receiver, answering

ANSWER = b"HTTP/1.1 429 Slow Down\r\nRetry-After: 999999999\r\nContent-Length: 0\r\n\r\n"

RECEIVER = Receiver("RFC 9110 section 10.2.3", answering(ANSWER), "http_429", connections=1)
