"""Redirects to itself, for ever."""

from __future__ import annotations

from tests.zoo.cage import Receiver, answering

ANSWER = b"HTTP/1.1 302 Go\r\nLocation: /\r\nContent-Length: 0\r\n\r\n"

RECEIVER = Receiver("formbricks/formbricks#7877", answering(ANSWER), "http_302", connections=1)
