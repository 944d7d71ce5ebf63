"""respx in place of the network."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
import respx

import delivery.adapters.http.mocking  # noqa: F401  makes `using="tidings"` known
from delivery.adapters.http import Guard
from delivery.adapters.http.transport import GuardedTransport
from delivery.channels import Fault, FaultCode, Reply
from tests.delivery.adapters.http.receivers import message

URL = "https://hooks.example.com/in?a=1"


def leaves(root: type[Exception]) -> Iterator[type[Exception]]:
    children = root.__subclasses__()
    if not children:
        yield root
    for child in children:
        yield from leaves(child)


async def test_a_mocked_answer_becomes_a_reply(make_channel):
    with respx.mock(using="tidings") as router:
        route = router.post(URL).respond(202, headers={"Retry-After": "1"}, text="ok")
        answer = await make_channel(Guard()).send(message(URL, body=b"{}", headers=(("webhook-id", "evt_1"),)))
    assert isinstance(answer, Reply)
    assert (answer.status, answer.body, answer.header("retry-after")) == (202, b"ok", "1")
    request = route.calls.last.request
    assert (request.content, request.headers["webhook-id"]) == (b"{}", "evt_1")


async def test_it_answers_for_a_users_own_client_too():
    with respx.mock(using="tidings") as router:
        router.get(URL).respond(204)
        async with httpx.AsyncClient(transport=GuardedTransport(Guard())) as client:
            assert (await client.get(URL)).status_code == 204


@pytest.mark.parametrize("error", sorted(set(leaves(httpx.TransportError)), key=lambda cls: cls.__name__))
async def test_every_transport_error_of_a_route_becomes_a_fault(make_channel, error):
    with respx.mock(using="tidings") as router:
        router.post(URL).mock(side_effect=error)
        answer = await make_channel(Guard()).send(message(URL))
    assert isinstance(answer, Fault)
    assert answer.code not in (FaultCode.INTERNAL_ERROR, FaultCode.UNREADABLE_KEY)
