"""Every error of the libraries below becomes a fault, by its class and never by its text."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections.abc import Iterator

import httpcore
import httpx
import pytest
import respx

from delivery.adapters.http import LOCAL, Guard, GuardedTransport, HttpChannel
from delivery.adapters.http.faults import DialError, WireError, WireTimeout, fault_of, os_code
from delivery.channels import Fault, FaultCode, Reply
from tests.delivery.adapters.http.receivers import OK, answering, message, receiver

OURS = {WireError, DialError, WireTimeout}
HTTPCORE_ROOTS = [
    httpcore.TimeoutException,
    httpcore.NetworkError,
    httpcore.ProtocolError,
    httpcore.UnsupportedProtocol,
]


def leaves(root: type[Exception]) -> Iterator[type[Exception]]:
    children = [child for child in root.__subclasses__() if child not in OURS]
    if not children:
        yield root
    for child in children:
        yield from leaves(child)


@pytest.mark.parametrize("error", sorted(set(leaves(httpx.TransportError)), key=lambda cls: cls.__name__))
async def test_every_transport_error_becomes_a_fault(error):
    router = respx.Router(assert_all_called=False)
    router.post("https://hooks.example.com/in").mock(side_effect=error)
    channel = HttpChannel(Guard(), transport=httpx.MockTransport(router.async_handler))
    answer = await channel.send(message("https://hooks.example.com/in"))
    await channel.aclose()
    assert isinstance(answer, Fault)
    # There are no proxies here: that one would be a bug of ours.
    assert (answer.code is FaultCode.INTERNAL_ERROR) is (error is httpx.ProxyError)


@pytest.mark.parametrize(
    "error", [leaf for root in HTTPCORE_ROOTS for leaf in leaves(root)], ids=lambda error: error.__name__
)
def test_every_httpcore_error_becomes_a_fault(error):
    assert fault_of(error()).code is not FaultCode.INTERNAL_ERROR


async def test_a_mocked_answer_becomes_a_reply():
    router = respx.Router()
    route = router.post("https://hooks.example.com/in").respond(202, headers={"Retry-After": "1"}, text="ok")
    channel = HttpChannel(Guard(), transport=httpx.MockTransport(router.async_handler))
    answer = await channel.send(message("https://hooks.example.com/in", body=b"{}"))
    await channel.aclose()
    assert isinstance(answer, Reply)
    assert (answer.status, answer.body, answer.header("retry-after")) == (202, b"ok", "1")
    assert route.calls.last.request.content == b"{}"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (socket.gaierror(socket.EAI_NONAME, "x"), FaultCode.DNS_NOT_FOUND),
        (socket.gaierror(socket.EAI_AGAIN, "x"), FaultCode.DNS_TEMPORARY),
        (ConnectionRefusedError(errno.ECONNREFUSED, "x"), FaultCode.CONNECTION_REFUSED),
        (ConnectionResetError(errno.ECONNRESET, "x"), FaultCode.CONNECTION_RESET),
        (TimeoutError(errno.ETIMEDOUT, "x"), FaultCode.CONNECT_TIMEOUT),
        (OSError(errno.ENETUNREACH, "x"), FaultCode.UNREACHABLE),
        (OSError(errno.EHOSTUNREACH, "x"), FaultCode.UNREACHABLE),
        (OSError(errno.EMFILE, "x"), FaultCode.CHANNEL_BUSY),
        (ssl.SSLError(1, "x"), FaultCode.TLS_ERROR),
        (ssl.SSLEOFError(8, "x"), FaultCode.TLS_ERROR),
        (ssl.SSLCertVerificationError(1, "x"), FaultCode.TLS_UNTRUSTED),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else value,
)
def test_what_the_system_reports_is_named_also_below_a_librarys_error(error, code):
    assert os_code(error) is code
    outer = httpx.ConnectError("all attempts failed")
    outer.__cause__ = OSError("no errno")
    outer.__cause__.__cause__ = error
    assert fault_of(outer).code is code


@pytest.mark.parametrize("error", [OSError(errno.ENOENT, "x"), KeyError("x"), ExceptionGroup("g", [ValueError()])])
def test_what_nobody_expected_is_ours(error):
    assert fault_of(error).code is FaultCode.INTERNAL_ERROR


def test_a_group_is_named_by_what_is_inside():
    inside = ExceptionGroup("inner", [httpx.ReadError("x")])
    assert fault_of(ExceptionGroup("outer", [inside])).code is FaultCode.CONNECTION_RESET
    named = ExceptionGroup("outer", [ValueError(), DialError(FaultCode.TLS_EXPIRED)])
    assert fault_of(named).code is FaultCode.TLS_EXPIRED


async def test_a_users_own_client_works_over_the_guarded_transport():
    async with receiver(answering(OK)) as there:
        transport = GuardedTransport(Guard(allowed_for={"acme": LOCAL}), owner_id="acme")
        async with httpx.AsyncClient(transport=transport) as client:
            response = await client.post(there.url, content=b"hi")
            assert (response.status_code, response.text) == (200, "ok")
        async with httpx.AsyncClient(transport=GuardedTransport(Guard())) as client:
            with pytest.raises(httpx.ConnectError) as blocked:
                await client.post(there.url, content=b"hi")
    assert isinstance(blocked.value, WireError)
    assert blocked.value.code is FaultCode.BLOCKED_ADDRESS


async def test_a_users_own_timeouts_count():
    async def hang(connection: object) -> None:
        await asyncio.Event().wait()

    async with receiver(hang) as there:
        transport = GuardedTransport(Guard(allowed=LOCAL))
        async with httpx.AsyncClient(transport=transport, timeout=0.1) as client:
            with pytest.raises(httpx.TimeoutException):
                await client.post(there.url, content=b"hi")


async def test_a_url_of_another_scheme_is_refused_by_the_transport():
    transport = GuardedTransport(Guard())
    with pytest.raises(WireError) as refused:
        await transport.handle_async_request(httpx.Request("GET", "ftp://example.com/"))
    await transport.aclose()
    assert refused.value.code is FaultCode.INVALID_URL
