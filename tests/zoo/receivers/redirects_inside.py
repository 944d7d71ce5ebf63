"""Redirects to a metadata service."""

from __future__ import annotations

from tests.zoo.cage import Receiver, answering

ANSWER = b"HTTP/1.1 307 Go\r\nLocation: http://169.254.169.254/latest/\r\nContent-Length: 0\r\n\r\n"

RECEIVER = Receiver("formbricks/formbricks#7877", answering(ANSWER), "http_307", connections=1)
