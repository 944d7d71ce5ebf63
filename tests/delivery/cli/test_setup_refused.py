"""Files that `endpoints import` refuses: each says where, and changes nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .conftest import Cli, fingerprint

ENTRY = "tidings: 1\nowners:\n  default:\n    endpoints:\n    - url: https://example.com/hook\n"
TWICE = ENTRY + "    - url: https://EXAMPLE.com/hook\n"
AT = "line 5: owners.default.endpoints[0]"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "line 1: the file: "),
        ("[]", "line 1: the file: "),
        ("a: [", "line 1, column 5: it is no YAML (expected the node content"),
        ("a: \x01", "it is no YAML (unacceptable character #x0001"),
        ("tidings: 2", "line 1: tidings: input should be 1"),
        ("owners: {}", "line 1: the file: the field 'tidings' is missing"),
        ("tidings: 1\nowner: {}", "line 1: the file: there is no field 'owner' here"),
        ("tidings: 1\na: &x [1]\nb: *x", "line 3, column 4: it is an alias (*): write it out"),
        ("tidings: 1\ntidings: 1", "line 2, column 1: the name 'tidings' is there twice: write it once"),
        ("tidings: 1\nowners:\n  17: {}", "line 3, column 3: it is no name: put it in quotes"),
        ("tidings: 1\nowners: {a: {<<: {}}}", "column 14: it is no name: put it in quotes"),
        ("tidings: 1\nowners:\n  a b:\n    endpoints: [{url: 'https://example.com/'}]", "the owner's id is not usable"),
        (ENTRY + "      lmit: 3", f"{AT}: there is no field 'lmit' here"),
        (ENTRY + "      limit: '3'", "line 6: owners.default.endpoints[0].limit: input should be a valid integer"),
        (ENTRY + "      limit: 0\n      policy: 3", "policy: it is no text: put it in quotes"),
        (ENTRY + "      limit: 0", f"{AT}: a limit of 0 is not allowed: give 1 to 1000"),
        (ENTRY + "      timeout: 10", "line 6: owners.default.endpoints[0].timeout: write it as 10s, 500ms or 1m"),
        (ENTRY + "      timeout: soon", "timeout: 'soon' is no duration"),
        (ENTRY + "      timeout: 1h", f"{AT}: a timeout of 1h is not allowed"),
        (ENTRY + "      rate: 10", "line 6: owners.default.endpoints[0].rate: write it as 10/s or 100/m"),
        (ENTRY + "      rate: 10/h", "line 6: owners.default.endpoints[0].rate: '10/h' is no rate: write 10/s for ten"),
        (ENTRY + "      rate: 10001/s", f"{AT}: a rate of 10001/s is not allowed: give 1/m to 10000/s"),
        (ENTRY + "      rate: 1/s\n      burst: 0", f"{AT}: a burst of 0 is not allowed: give 1 to 10000"),
        (ENTRY + "      burst: 3", f"{AT}: a burst goes with a rate: give both"),
        (ENTRY + "      policy: swift", f"{AT}: no policy 'swift': use one of standard"),
        (ENTRY + "      overrides: {http_409: maybe}", f"{AT}: "),
        (ENTRY + "      id: mine", "line 6: owners.default.endpoints[0].id: it is no id"),
        (
            ENTRY + "      id: 7d0c1d2e-9b1f-4d9e-8f55-0a4a5c1f7c11",
            f"{AT}: 7d0c1d2e-9b1f-4d9e-8f55-0a4a5c1f7c11 is no id",
        ),
        (ENTRY + "      headers: {A: {secret: true}}", f"{AT}: the value of header 'A' is secret and not here"),
        (ENTRY + "      headers: {A: {secret: false}}", "headers.A: write a text in quotes, or {secret: true}"),
        (ENTRY + "      headers: {A: 1}", "headers.A: write a text in quotes, or {secret: true}"),
        (ENTRY + "      headers: {A: '1', a: '2'}", f"{AT}: a header is there twice"),
        (ENTRY + "      headers: {Webhook-Id: '1'}", f"{AT}: header 'Webhook-Id' is reserved"),
        (ENTRY + "      tls: {certificate: {secret: true}}", f"{AT}: the TLS certificate is secret and not here"),
        (ENTRY + "      tls: {certificate: abc}", "tls.certificate: write {secret: true}"),
        (ENTRY + "      scheme: v2", "line 6: owners.default.endpoints[0].scheme: input should be 'v1' or 'v1a'"),
        (ENTRY.replace("https", "ftp"), f"{AT}: "),
        (ENTRY.replace("https://example.com", "http://10.0.0.1"), f"{AT}: 10.0.0.1 is not allowed: "),
        (TWICE, f"line 6: owners.default.endpoints[1]: it is the endpoint of {AT}, too: give each its own id"),
        (
            ENTRY + "      subscriptions:\n      - {name: a, patterns: [invoce.paid]}\n",
            "line 7: owners.default.endpoints[0].subscriptions[0]: ",
        ),
        (
            ENTRY + "      subscriptions:\n      - {name: a, patterns: ['*']}\n      - {name: a, patterns: ['*']}\n",
            "line 8: owners.default.endpoints[0].subscriptions[1]: the name 'a' is that of line 7: owners.default",
        ),
        (
            "tidings: 1\nevent_types:\n- type: tidings.x\n",
            "line 3: event_types[0]: 'tidings.x' is one of the platform's",
        ),
        (
            "tidings: 1\nevent_types:\n- {type: a.b, exposure: all}\n",
            "line 3: event_types[0].exposure: input should be",
        ),
        (
            "tidings: 1\nevent_types:\n- {type: a.b, checks: reject}\n",
            "line 3: event_types[0]: 'a.b' has no schema to check by: give one, or leave checks off",
        ),
        (
            "tidings: 1\nevent_types:\n- {type: a.b, checks: warn, schema: ''}\n",
            "line 3: event_types[0]: 'a.b' has no schema to check by: give one, or leave checks off",
        ),
        (
            "tidings: 1\nevent_types:\n- {type: a.b, exposure: webhook}\n- {type: a.b, exposure: internal}\n",
            "line 4: event_types[1]: the type 'a.b' is that of line 3: event_types[0], too: write it once",
        ),
        (
            "tidings: 1\npolicies:\n- {name: a, attempts: 3}\n- {name: a, attempts: 4}\n",
            "line 4: policies[1]: the policy 'a' is that of line 3: policies[0], too: write it once",
        ),
        ("a: " + "[" * 5000, "the file is nested too deeply"),
    ],
)
def test_what_is_refused_says_where_it_stands(declared: Cli, dsn: str, tmp_path: Path, refused, text: str, says: str):
    file = tmp_path / "setup.yaml"
    file.write_text(text)
    before = fingerprint(dsn)
    args = ["--any-owner"] if "a b" in text else []
    assert says in refused(declared, "endpoints", "import", file, *args, code=1)
    assert fingerprint(dsn) == before


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"tidings": 1', "line 1, column 14: it is no JSON (Expecting ',' delimiter)"),
        ('{"tidings": NaN}', "NaN is no number of JSON: leave it out"),
        ('{"tidings": 1, "tidings": 1}', "the name 'tidings' is there twice in one object: write it once"),
        (
            '{"tidings": 1, "owners": {"default": {"endpoints": [{}]}}}',
            "owners.default.endpoints[0]: the field 'url' is",
        ),
        ("[" * 100_000, "the file is nested too deeply"),
        (b"\xff", "the file is not UTF-8 (byte 0): encode it as UTF-8"),
    ],
)
def test_json_is_refused_alike(standing: Cli, tmp_path: Path, refused, text: str | bytes, says: str):
    file = tmp_path / "setup.json"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    assert says in refused(standing, "endpoints", "import", file, code=1)


def test_it_is_read_from_standard_input(declared: Cli, refused):
    document = json.dumps({"tidings": 1, "owners": {"default": {"endpoints": [{"url": "https://example.com/hook"}]}}})
    assert "+ endpoint" in declared("endpoints", "import", "-", "--format", "json", stdin=document)
    assert "standard input does not say" in refused(declared, "endpoints", "import", "-", stdin=document, code=2)
    assert "cannot be read: No such file" in refused(declared, "endpoints", "import", "gone.yaml", code=2)


def test_a_number_without_end_is_refused_in_words(cli: Cli, tmp_path: Path, refused):
    file = tmp_path / "setup.json"
    file.write_text('{"tidings": ' + "1" * 5_000 + "}")
    assert "more digits than are read" in refused(cli, "endpoints", "import", file, code=1)
