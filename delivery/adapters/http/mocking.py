"""Let respx answer instead of the network: for users' tests of what they send through this platform.

Importing this makes `respx.mock(using="tidings")` known. It answers for `HttpChannel`, and so for a whole
`delivery.App`, and for `GuardedTransport`. No name is looked up and no address judged for what is mocked.
"""

from __future__ import annotations

from typing import Any, ClassVar

import httpx
from respx.mocks import AbstractRequestMocker

from delivery.channels import Fault, FaultCode, Reply

from .targets import Origin
from .transport import ERRORS

_CODES: dict[type[BaseException], FaultCode] = {
    httpx.TimeoutException: FaultCode.TIMEOUT,
    httpx.NetworkError: FaultCode.CONNECTION_RESET,
    httpx.ProtocolError: FaultCode.PROTOCOL_ERROR,
    **{error: code for code, error in reversed(ERRORS.items())},
}


class TidingsMocker(AbstractRequestMocker):
    """respx's way in."""

    name: ClassVar[str] = "tidings"
    targets: ClassVar[list[str]] = ["delivery.adapters.http.sender.Sender"]
    target_methods: ClassVar[list[str]] = ["send"]

    @classmethod
    def to_httpx_request(cls, **given: Any) -> httpx.Request:
        """Read what would have gone over the wire."""
        origin: Origin = given["origin"]
        request: bytes = given["request"]
        head, _, body = request.partition(b"\r\n\r\n")
        line, *lines = head.decode("latin-1").split("\r\n")
        method, path, _ = line.split(" ")
        headers = [(name, value) for name, _, value in (each.partition(": ") for each in lines)]
        return httpx.Request(method, f"{origin.scheme}://{origin.authority}{path}", headers=headers, content=body)

    @classmethod
    async def from_async_httpx_response(cls, httpx_response: httpx.Response, target: Any, **rest: Any) -> Reply:
        """Hand the answer on."""
        body = await httpx_response.aread()
        return Reply(status=httpx_response.status_code, headers=tuple(httpx_response.headers.raw), body=body)

    @classmethod
    async def _send_async_request(cls, httpx_request: httpx.Request, **options: Any) -> Reply | Fault:
        try:
            sent = super()._send_async_request(httpx_request, **options)  # type: ignore[no-untyped-call]  # no types there
            answer: Reply | Fault = await sent
        except httpx.TransportError as error:  # a route's side effect
            code = next((_CODES[base] for base in type(error).__mro__ if base in _CODES), FaultCode.UNREACHABLE)
            return Fault(code=code, detail=str(error))
        return answer
