"""Which addresses may be dialled."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from delivery.adapters.http import LOCAL, Allowance, Allowed, Blocked, Egress, Guard, Rules, blocked_url
from delivery.channels import FaultCode
from delivery.errors import InvalidInput
from subscriptions.errors import InvalidEndpoint
from tests.delivery.adapters.http.receivers import Names

VECTORS = json.loads((Path(__file__).parent / "vectors" / "ssrf_addresses.json").read_text())
METADATA = [
    "169.254.169.254",
    "168.63.129.16",
    "100.100.100.200",
    "fd00:42::42",
    "fd00:100::100:200",
    "fd00:a9fe:a9fe::1",
    "fd00:c1::a9fe:a9fe",
    "fd00:ec2::254",
    "fd20:ce::254",
]
EVERYTHING = [Allowance.parse("0.0.0.0/0"), Allowance.parse("::/0")]


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["address"])
def test_the_address_vectors(vector):
    verdict = Guard().verdict(vector["address"], 443, "acme")
    assert isinstance(verdict, Allowed) is vector["allowed"], verdict


@pytest.mark.parametrize("address", [*METADATA, "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "fe80::1"])
@pytest.mark.parametrize("allowed", [LOCAL, EVERYTHING], ids=["local", "everything"])
def test_metadata_stays_denied_whatever_is_allowed(address, allowed):
    assert isinstance(Guard(allowed=allowed).verdict(address, 80, "acme"), Blocked)


@pytest.mark.parametrize("text", ["0.0.0.0", "255.255.255.255", "224.0.0.1", "::", "::1.2.3.4", "fe80::1%lo"])
def test_what_is_no_destination_stays_denied(text):
    assert isinstance(Guard(allowed=EVERYTHING).verdict(text, 80, "acme"), Blocked)


@pytest.mark.parametrize("text", ["0x7f.1", "2130706433", "127.1", "0177.0.0.1", "localhost", "", "1.1.1.1."])
def test_what_is_not_an_address_is_blocked(text):
    assert isinstance(Guard(allowed=EVERYTHING).verdict(text, 80, "acme"), Blocked)


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "10.1.2.3", "192.168.7.7", "172.16.0.1", "fd12::1"])
def test_local_addresses_need_the_switch_and_the_reason_names_it(address):
    verdict = Guard().verdict(address, 80, "acme")
    assert isinstance(verdict, Blocked)
    assert "tidings up --allow-local" in verdict.reason
    assert isinstance(Guard(allowed=LOCAL).verdict(address, 80, "acme"), Allowed)


def test_an_allowance_counts_for_its_port_and_owner_only():
    guard = Guard(allowed_for={"acme": [Allowance.parse("10.0.0.0/8:8080")]})
    assert isinstance(guard.verdict("10.0.0.1", 8080, "acme"), Allowed)
    assert isinstance(guard.verdict("::ffff:10.0.0.1", 8080, "acme"), Allowed)
    assert isinstance(guard.verdict("10.0.0.1", 8081, "acme"), Blocked)
    assert isinstance(guard.verdict("10.0.0.1", 8080, "other"), Blocked)


@pytest.mark.parametrize("own", ["127.0.0.1", "::1", "0.0.0.0", "::", "localhost"])
@pytest.mark.parametrize("address", ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"])
def test_our_own_doors_stay_closed_by_every_loopback_address(own, address):
    guard = Guard(allowed=EVERYTHING, denied=[(own, 5432)])
    assert isinstance(guard.verdict(address, 5432, "acme"), Blocked)
    assert isinstance(guard.verdict(address, 5433, "acme"), Allowed)


def test_a_listener_on_all_addresses_denies_no_other_machine():
    guard = Guard(allowed=EVERYTHING, denied=[("0.0.0.0", 8000)])
    assert isinstance(guard.verdict("10.254.253.252", 8000, "acme"), Allowed)


def test_lists_are_replaced_one_by_one_while_running():
    guard = Guard(allowed_for={"acme": LOCAL}, denied=[("127.0.0.1", 1)])
    guard.replace(allowed=LOCAL)
    assert isinstance(guard.verdict("10.0.0.1", 80, "other"), Allowed)
    guard.replace(allowed=())
    assert isinstance(guard.verdict("10.0.0.1", 80, "other"), Blocked)
    assert isinstance(guard.verdict("10.0.0.1", 80, "acme"), Allowed)
    assert isinstance(guard.verdict("127.0.0.1", 1, "acme"), Blocked)
    guard.replace(allowed_for={}, denied=())
    assert isinstance(guard.verdict("10.0.0.1", 80, "acme"), Blocked)


@pytest.mark.parametrize(
    ("text", "port"),
    [
        ("10.0.0.0/8:8080", 8080),
        ("10.0.0.0/8", None),
        ("127.0.0.1:80", 80),
        ("fd00::/8", None),
        ("[fd00::/8]:443", 443),
        ("[::1]", None),
        ("::1", None),
    ],
)
def test_an_allowance_is_read(text, port):
    assert Allowance.parse(text).port == port


@pytest.mark.parametrize(
    "text", ["", "10.0.0.1/8", "10.0.0.0/8:", "10.0.0.0/8:x", "10.0.0.0/8:0", "[::1]:70000", "example.com:80"]
)
def test_an_allowance_that_cannot_be_read_is_refused_in_one_line(text):
    with pytest.raises(InvalidInput, match=r"not a network|port") as refused:
        Allowance.parse(text)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("setting", ["allow", "deny", "ports"])
def test_a_list_that_cannot_be_read_is_refused_by_its_setting(setting):
    with pytest.raises(InvalidInput, match=f"^TIDINGS_{setting.upper()}: 'here'|ports 'here'"):
        Egress.parse(**{setting: "1.1.1.1,here" if setting != "ports" else "443,here"})


def test_a_network_that_the_operator_denies_stays_denied_whatever_is_allowed():
    rules = Egress.parse(deny="1.1.1.0/24, 10.0.0.0/8:25, 2606:4700::/32").rules
    guard = Guard(allowed=EVERYTHING, rules=rules)
    for address, port in (("1.1.1.1", 443), ("::ffff:1.1.1.1", 443), ("10.0.0.1", 25), ("2606:4700:4700::1111", 443)):
        verdict = guard.verdict(address, port, "acme")
        assert isinstance(verdict, Blocked)
        assert "TIDINGS_DENY" in verdict.reason
    for address, port in (("1.1.2.1", 443), ("10.0.0.1", 26)):
        assert isinstance(guard.verdict(address, port, "acme"), Allowed)


def test_only_the_ports_that_the_operator_names_are_sent_to_but_for_those_that_an_allowance_names():
    egress = Egress.parse(ports="443, 8000-8099", allow="10.0.0.0/8,10.0.0.1/32:9000")
    guard = Guard(allowed=egress.allowed, rules=egress.rules)
    for address, port, allowed in (
        ("1.1.1.1", 443, True),
        ("1.1.1.1", 8099, True),
        ("1.1.1.1", 8100, False),
        ("1.1.1.1", 25, False),
        ("10.0.0.1", 9000, True),
        ("10.0.0.2", 9000, False),
    ):
        verdict = guard.verdict(address, port, "acme")
        assert isinstance(verdict, Allowed) is allowed, (address, port)
        assert allowed or "TIDINGS_PORTS" in verdict.reason


def test_https_only_means_so():
    guard = Guard(allowed=LOCAL, rules=Egress.parse(https_only=True).rules)
    assert isinstance(guard.verdict("1.1.1.1", 443, "acme"), Allowed)
    for address in ("1.1.1.1", "127.0.0.1"):
        verdict = guard.verdict(address, 80, "acme", tls=False)
        assert isinstance(verdict, Blocked)
        assert "TIDINGS_HTTPS_ONLY" in verdict.reason


@pytest.mark.parametrize("ports", ["0", "443-", "-443", "443-80", "65536", "99999999", "https", "٤٤٣"])
def test_ports_that_cannot_be_read_are_refused_in_one_line(ports):
    with pytest.raises(InvalidInput, match="ports") as refused:
        Egress.parse(ports=ports)
    assert "\n" not in str(refused.value)


def test_nothing_set_allows_and_forbids_nothing():
    assert Egress.parse() == Egress()
    assert Egress().rules == Rules()


def test_a_denied_host_must_be_an_address():
    with pytest.raises(InvalidInput, match="resolve it first"):
        Guard(denied=[("db.example.com", 5432)])


async def test_registration_refuses_what_leads_inside_and_names_the_switch():
    names = Names({"inside.example.com": ["10.0.0.1"], "localhost": ["127.0.0.1", "::1"]})
    for url in ("https://inside.example.com/", "http://localhost:8000/", "http://127.0.0.1/"):
        found = await blocked_url(url, "acme", guard=Guard(), resolver=names)
        assert isinstance(found, Blocked)
        assert "--allow-local" in found.reason
        assert await blocked_url(url, "acme", guard=Guard(allowed=LOCAL), resolver=names) is None


async def test_registration_accepts_what_does_not_resolve_yet_and_what_is_partly_outside():
    names = Names({"mixed.example.com": ["10.0.0.1", "1.1.1.1"], "flaky.example.com": FaultCode.DNS_TEMPORARY})
    for host in ("mixed.example.com", "flaky.example.com", "later.example.com", "[2606:4700:4700::1111]:8443"):
        assert await blocked_url(f"https://{host}/", "acme", guard=Guard(), resolver=names) is None


async def test_registration_refuses_a_url_that_cannot_be_sent_to():
    with pytest.raises(InvalidEndpoint):
        await blocked_url("http://2130706433/", "acme", guard=Guard(), resolver=Names({}))
