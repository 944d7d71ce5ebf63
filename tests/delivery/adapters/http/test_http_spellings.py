"""Every denied address is refused however it is written, and whenever a name turns to it.

Source of the spellings: what glibc's `getaddrinfo` takes for an address while `ipaddress` does not.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from datetime import timedelta
from ipaddress import IPv4Address, ip_address
from itertools import cycle
from pathlib import Path

import httpx
import pytest

from delivery.adapters.http import Allowance, Blocked, Guard, SystemResolver, blocked_url
from delivery.adapters.http.transport import GuardedTransport
from delivery.channels import Fault, FaultCode, Reply
from subscriptions.errors import InvalidEndpoint
from tests.delivery.adapters.http.receivers import OK, Names, answering, answering_once, message, receiver

VECTORS = json.loads((Path(__file__).parent / "vectors" / "ssrf_addresses.json").read_text())
DENIED = [vector["address"] for vector in VECTORS if not vector["allowed"]]
NEVER_SENT = {FaultCode.BLOCKED_ADDRESS, FaultCode.INVALID_URL}
FULL_WIDTH = {ord("0") + n: chr(0xFF10 + n) for n in range(10)} | {ord("."): "\u3002"}
CIRCLED = {ord("1") + n: chr(0x2460 + n) for n in range(9)} | {ord("0"): "\u24ea"}


def spellings(text: str) -> Iterator[str]:
    """Write an address in every way that some parser takes."""
    if "%" in text:
        yield f"[{text}]"
        yield f"[{text.replace('%', '%25')}]"
        return
    address = ip_address(text)
    if isinstance(address, IPv4Address):
        a, b, c, d = address.packed
        yield text
        yield f"{text}."
        yield str(int(address))
        yield hex(int(address))
        yield f"0{int(address):o}"
        yield f"{a}.{b}.{c << 8 | d}"
        yield f"{a}.{b << 16 | c << 8 | d}"
        yield f"0x{a:x}.0x{b:x}.0x{c:x}.0x{d:x}"
        yield f"0X{a:02X}.{b << 16 | c << 8 | d}"
        yield f"0{a:o}.0{b:o}.0{c:o}.0{d:o}"
        yield f"00000{a:o}.{b}.0x{c:x}.{d}"
        yield text.translate(FULL_WIDTH)
        yield text.translate(CIRCLED)
        yield f"[::ffff:{text}]"
        yield f"[::ffff:{a << 8 | b:x}:{c << 8 | d:x}]"
        yield f"[64:ff9b::{text}]"
    else:
        yield f"[{address.compressed}]"
        yield f"[{address.exploded}]"
        yield f"[{address.exploded.upper()}]"


CASES = [(address, spelling) for address in DENIED for spelling in spellings(address)]
IDS = [ascii(spelling) for _, spelling in CASES]


@pytest.mark.parametrize(("address", "spelling"), CASES, ids=IDS)
async def test_a_denied_address_is_refused_at_registration_and_at_the_dial_in_every_spelling(
    make_channel, address, spelling
):
    url = f"https://{spelling}/"
    with contextlib.suppress(InvalidEndpoint):
        assert isinstance(await blocked_url(url, "acme", guard=Guard(), resolver=Names({})), Blocked)
    answer = await make_channel(Guard()).send(message(url))
    assert isinstance(answer, Fault)
    assert answer.code in NEVER_SENT


@pytest.mark.parametrize("address", DENIED)
async def test_a_denied_address_is_refused_behind_a_name(make_channel, address):
    channel = make_channel(Guard(), resolver=Names({"a.example.com": [address]}))
    answer = await channel.send(message("https://a.example.com/"))
    assert isinstance(answer, Fault)
    assert answer.code is FaultCode.BLOCKED_ADDRESS


@pytest.mark.parametrize("spelling", [s for s in spellings("127.0.0.1") if not s.startswith("[64:")], ids=ascii)
async def test_a_users_own_client_gets_to_this_machine_by_no_spelling(spelling):
    """Here no canonical form is made first: what the system's own resolver makes of it is what is judged."""
    client = httpx.AsyncClient(transport=GuardedTransport(Guard()), timeout=60)
    async with receiver(answering(OK)) as there, client:
        with pytest.raises((httpx.TransportError, httpx.InvalidURL)):
            await client.post(f"http://{spelling}:{there.port}/", content=b"")
    assert there.connections == 0


async def test_a_name_that_turns_inside_after_it_was_registered_is_blocked_at_the_dial(make_channel):
    """DNS rebinding: the real resolver, a zone that answers public and local in turn, and no time to live."""
    zone = cycle([("1.1.1.1",), ("127.0.0.1",)])
    resolver = SystemResolver(look_up=lambda host: next(zone), keep=timedelta(0), deadline=timedelta(seconds=60))
    async with receiver(answering(OK)) as there:
        url = f"http://rebind.example.com:{there.port}/"
        assert await blocked_url(url, "acme", guard=Guard(), resolver=resolver) is None
        answer = await make_channel(Guard(), resolver=resolver).send(message(url))
    assert isinstance(answer, Fault)
    assert answer.code is FaultCode.BLOCKED_ADDRESS
    assert there.connections == 0
    await resolver.aclose()


async def test_a_name_that_turns_inside_between_two_connections_is_blocked(make_channel):
    zone = iter([("127.0.0.1",), ("127.0.0.2",)])
    resolver = SystemResolver(look_up=lambda host: next(zone), keep=timedelta(0), deadline=timedelta(seconds=60))
    channel = make_channel(Guard(allowed=[Allowance.parse("127.0.0.1")]), resolver=resolver)
    async with receiver(answering_once(OK)) as there:
        url = f"http://rebind.example.com:{there.port}/"
        first, second = await channel.send(message(url)), await channel.send(message(url))
    assert isinstance(first, Reply)
    assert isinstance(second, Fault)
    assert second.code is FaultCode.BLOCKED_ADDRESS
    assert there.connections == 1
    await resolver.aclose()
