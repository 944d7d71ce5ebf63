"""What deliveries are let in with: headers that authenticate, and a TLS identity."""

from __future__ import annotations

import pytest

from subscriptions.errors import InvalidEndpoint
from subscriptions.headers import basic, bearer, check_headers
from subscriptions.model import EndpointChanges, PayloadFormat, TlsIdentity, UnopenedHeaders, describe, described_tls

from .notebook import URL, House

IDENTITY = TlsIdentity(certificate="CERT-PEM", key="KEY-PEM", authorities="CA-PEM")


def test_basic_authentication_is_a_header_that_may_be_sent():
    header = basic("ann", "p:äss")
    assert header == ("authorization", "Basic YW5uOnA6w6Rzcw==")
    check_headers([header])


def test_a_colon_in_a_users_name_is_refused():
    with pytest.raises(InvalidEndpoint, match="colon"):
        basic("a:b", "c")


def test_a_bearer_token_is_a_header_that_may_be_sent():
    header = bearer("a.b-c_d~e+f/g==")
    assert header == ("authorization", "Bearer a.b-c_d~e+f/g==")
    check_headers([header])


@pytest.mark.parametrize("token", ["", "a b", "tök", "a\r\nb", "=a"])
def test_what_is_no_token_is_refused_without_repeating_it(token: str):
    with pytest.raises(InvalidEndpoint) as refused:
        bearer(token)
    assert not token or token not in str(refused.value)


async def test_an_identity_is_checked_and_kept_with_the_endpoint():
    house = House()
    endpoint, _ = await house.endpoints.add_endpoint("acme", URL, by="ann", tls=IDENTITY)
    assert endpoint.tls == IDENTITY
    assert house.identities == [IDENTITY]


async def test_an_identity_is_for_https_alone_whatever_is_changed():
    house = House()
    with pytest.raises(InvalidEndpoint, match="https"):
        await house.endpoints.add_endpoint("acme", "http://example.com/", by="ann", tls=IDENTITY)
    endpoint, _ = await house.endpoints.add_endpoint("acme", URL, by="ann", tls=IDENTITY)
    with pytest.raises(InvalidEndpoint, match="https"):
        await house.endpoints.update_endpoint("acme", endpoint.id, EndpointChanges(url="http://example.com/"), by="ann")


async def test_an_empty_identity_is_none():
    house = House()
    endpoint, _ = await house.endpoints.add_endpoint("acme", URL, by="ann", tls=TlsIdentity())
    assert endpoint.tls is None
    given = await house.endpoints.update_endpoint("acme", endpoint.id, EndpointChanges(tls=IDENTITY), by="ann")
    assert given.tls == IDENTITY
    taken = await house.endpoints.update_endpoint("acme", endpoint.id, EndpointChanges(tls=TlsIdentity()), by="ann")
    assert taken.tls is None
    assert [change.after["tls"] for change in house.notebook.changes[1:]] == [["certificate", "authorities"], []]


async def test_an_identity_beside_headers_that_do_not_open_needs_those_anew():
    house = House()
    endpoint, _ = await house.endpoints.add_endpoint("acme", URL, by="ann", headers=UnopenedHeaders.of(b"sealed"))
    with pytest.raises(InvalidEndpoint, match="anew"):
        await house.endpoints.update_endpoint("acme", endpoint.id, EndpointChanges(tls=IDENTITY), by="ann")
    changes = EndpointChanges(tls=IDENTITY, headers=(("x-a", "1"),))
    assert (await house.endpoints.update_endpoint("acme", endpoint.id, changes, by="ann")).tls == IDENTITY


async def test_nothing_of_an_identity_is_shown_or_recorded_but_that_it_is_there():
    house = House()
    endpoint, _ = await house.endpoints.add_endpoint("acme", URL, by="ann", tls=IDENTITY)
    shown = f"{endpoint!r} {describe(endpoint)} {house.notebook.changes!r} {EndpointChanges(tls=IDENTITY)!r}"
    assert "PEM" not in shown
    assert describe(endpoint)["tls"] == ["certificate", "authorities"]
    assert described_tls(TlsIdentity(authorities="CA-PEM")) == ["authorities"]
    assert described_tls(None) == []


async def test_the_format_is_kept_and_changed():
    house = House()
    endpoint, _ = await house.endpoints.add_endpoint("acme", URL, by="ann", format=PayloadFormat.RAW)
    assert endpoint.format is PayloadFormat.RAW
    changes = EndpointChanges(format=PayloadFormat.CLOUDEVENTS)
    assert (await house.endpoints.update_endpoint("acme", endpoint.id, changes, by="ann")).format == "cloudevents"
