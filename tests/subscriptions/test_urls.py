"""The one spelling of a URL."""

from __future__ import annotations

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from subscriptions.errors import InvalidEndpoint
from subscriptions.urls import canonical_url

CANONICAL = [
    ("https://example.com", "https://example.com/"),
    ("HTTPS://Example.COM:443/A?b=C%2f&d", "https://example.com/A?b=C%2f&d"),
    ("http://example.com:80/", "http://example.com/"),
    ("http://example.com:443/", "http://example.com:443/"),
    ("http://example.com:08080/", "http://example.com:8080/"),
    ("https://example.com./x", "https://example.com/x"),
    ("https://example.com?x=1", "https://example.com/?x=1"),
    ("https://straße.de/", "https://xn--strae-oqa.de/"),
    ("https://BÜCHER.example/ä?ö={}", "https://xn--bcher-kva.example/%C3%A4?%C3%B6={}"),
    ("https://xn--bcher-kva.example/", "https://xn--bcher-kva.example/"),
    ("https://example.com/a/./b/../c/..", "https://example.com/a/"),
    ("https://example.com/../../x", "https://example.com/x"),
    ("https://example.com//a//b", "https://example.com//a//b"),
    ("https://example.com/%41%zz", "https://example.com/%41%25zz"),
    ("https://example.com/a@b:c", "https://example.com/a@b:c"),
    ('https://example.com/"<{`', "https://example.com/%22%3C%7B%60"),
    ("http://localhost:8000/hook", "http://localhost:8000/hook"),
    ("http://127.0.0.1/", "http://127.0.0.1/"),
    ("http://\uff11\uff12\uff17.0.0.1/", "http://127.0.0.1/"),
    ("http://[2001:DB8:0:0::1]:80/", "http://[2001:db8::1]/"),
    ("https://a_b.example.com/", "https://a_b.example.com/"),
]

REFUSED = [
    ("", "start with https"),
    ("example.com", "start with https"),
    ("ftp://example.com/", "start with https"),
    ("https:/example.com/", "start with https"),
    ("https://", "host"),
    ("https:///path", "host"),
    ("https://./", "host"),
    ("https://user:secret@example.com/", "credentials in a header"),
    ("https://a@b@127.0.0.1/", "credentials in a header"),
    ("https://example.com/#part", "fragment"),
    ("https://example.com\\@evil.com/", "backslash"),
    ("https://exa mple.com/", "space"),
    (" https://example.com/", "space"),
    ("https://example.com/a\nb", "space"),
    ("https://example.com/\u200b", "space"),
    ("https://example.com/\ud800", "space"),
    ("https://ex%61mple.com/", "percent"),
    ("https://[fe80::1%25eth0]/", "percent"),
    ("https://example.com:0/", "port"),
    ("https://example.com:65536/", "port"),
    ("https://example.com:/", "port"),
    ("https://example.com:x/", "port"),
    ("https://redis/", "no dot"),
    ("https://metadata./", "no dot"),
    ("http://0x7f.1/", "four decimal"),
    ("http://2130706433/", "four decimal"),
    ("http://127.1/", "four decimal"),
    ("http://0177.0.0.1/", "four decimal"),
    ("http://017700000001/", "four decimal"),
    ("http://1.2.3.4.5/", "four decimal"),
    ("http://example.0x1f/", "four decimal"),
    ("http://\u2460\u2461\u2466.1/", "four decimal"),
    ("http://[::1/", "host or port"),
    ("http://[::zz]/", "IPv6"),
    ("http://[::ffff:127.0.0.1]/", "IPv4 address itself"),
    ("https://-a.example.com/", "host name"),
    ("https://a..example.com/", "host name"),
    ("https://a,b.example.com/", "host name"),
    ("https://xn--.example.com/", "host name"),
    ("https://☃☃.a--/", "international"),
    ("https://" + "a" * 64 + ".com/", "host name"),
    ("https://" + "a." * 130 + "com/", "host name"),
    ("https://example.com/" + "a" * 2_048, "longer than 2048"),
    ("https://example.com/" + "ä" * 1_000, "longer than 2048"),
]


@pytest.mark.parametrize(("text", "canonical"), CANONICAL)
def test_a_url_has_one_spelling(text, canonical):
    assert canonical_url(text) == canonical
    assert canonical_url(canonical) == canonical


@pytest.mark.parametrize(("text", "says"), REFUSED, ids=lambda value: ascii(value)[:40])
def test_a_url_that_cannot_be_sent_to_is_refused_with_advice(text, says):
    with pytest.raises(InvalidEndpoint, match=says) as refused:
        canonical_url(text)
    assert "secret" not in str(refused.value)
    assert "\n" not in str(refused.value)


@given(st.text(max_size=40), st.text(max_size=40))
def test_a_canonical_url_is_what_is_sent(path, query):
    try:
        url = canonical_url(f"https://example.com/{path}?{query}")
    except InvalidEndpoint:
        return
    assert url.isascii()
    assert canonical_url(url) == url
    assert str(httpx.URL(url)) == url


@given(st.text(max_size=60))
def test_any_text_is_either_refused_or_spelled_once(text):
    for tried in (text, f"https://{text}"):
        try:
            url = canonical_url(tried)
        except InvalidEndpoint:
            continue
        assert canonical_url(url) == url
        assert httpx.URL(url).raw_host
