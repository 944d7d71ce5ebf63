"""`tidings verify`: a kept request, in every form that people have it in, and why it does not verify."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from signing import SigningKey, SigningSecret
from signing.testing import signed_request
from tests.gates.shapes import faults_of

from .conftest import Cli

KEY = SigningSecret(b"k" * 32)
OTHER = SigningSecret(b"o" * 32)
BODY = b'{"n": 1}'
OLD = 1_700_000_000


@pytest.fixture
def bare() -> Cli:
    return Cli(environment={})


def head(line: str = "{name}: {value}", end: str = "\n", **more: Any) -> str:
    headers = signed_request(BODY, more.pop("key", KEY), **more).headers
    return "".join(line.format(name=name, value=value) + end for name, value in headers.items())


def verify(cli: Cli, *args: object, stdin: bytes = b"", key: str | None = KEY.reveal()) -> Result:
    return cli.run("verify", *(() if key is None else ("--secret", key)), *args, stdin=stdin)


def reasons(result: Result) -> list[str]:
    document = json.loads(result.stdout)
    assert faults_of("verify", document) == []
    return [each["code"] for each in document["reasons"]]


DUMPS = {
    "headers and body": lambda: head().encode() + b"\n" + BODY,
    "as on the wire": lambda: ("POST /hook HTTP/1.1\r\nHost: a\r\n" + head(end="\r\n")).encode() + b"\r\n" + BODY,
    "as curl -v prints it": lambda: (
        ("* Connected to a\n> POST /hook HTTP/2\n" + head("> {name}: {value}") + ">\n").encode() + BODY
    ),
}


@pytest.mark.parametrize("name", DUMPS)
def test_a_whole_request_verifies(bare: Cli, tmp_path: Path, name: str):
    file = tmp_path / "request"
    file.write_bytes(DUMPS[name]())
    for result in (
        verify(bare, file),
        verify(bare, stdin=file.read_bytes()),
        verify(bare, "-", stdin=file.read_bytes()),
    ):
        assert (result.exit_code, "✓ verified" in result.stdout) == (0, True), result.stderr


def test_headers_and_body_may_come_apart(bare: Cli, tmp_path: Path):
    headers, body = tmp_path / "headers", tmp_path / "body"
    headers.write_text(head())
    body.write_bytes(BODY)
    given = [part for line in head().splitlines() for part in ("-H", line)]
    for args in (
        ("--header-file", headers, "--body", BODY.decode()),
        ("--header-file", headers, "-d", f"@{body}"),
        ("--header-file", headers, body),
        (*given, "-d", BODY.decode()),
        (*given, body),
    ):
        assert verify(bare, *args).exit_code == 0
    assert verify(bare, *given, stdin=BODY).exit_code == 0


def test_it_says_what_was_proved(bare: Cli, tmp_path: Path):
    key = SigningKey(b"e" * 32)
    secrets = tmp_path / "secrets"
    secrets.write_text(f"{OTHER.reveal()}\n\n  {key.public_key.reveal()}\n")
    args = ("--secret-file", secrets, "--any-time")
    request = (head(key=key, now=OLD) + "\n").encode() + BODY
    shown = verify(bare, *args, stdin=request, key=None).stdout
    assert [line.split() for line in shown.splitlines()[1:]] == [
        ["id", "msg_test"],
        ["signed", "2023-11-14", "22:13:20Z"],
        ["scheme", "v1a"],
        ["key", "number", "2", "of", "2"],
    ]
    assert json.loads(verify(bare, *args, "--json", stdin=request, key=None).stdout) == {
        "verified": True,
        "id": "msg_test",
        "timestamp": "2023-11-14T22:13:20Z",
        "scheme": "v1a",
        "key": 2,
    }


def test_it_says_why_not(bare: Cli):
    request = (head(now=OLD) + "\n").encode() + BODY + b"\n"
    result = verify(bare, stdin=request)
    assert result.exit_code == 1
    assert "does not verify (timestamp_too_old)" in result.stderr
    assert "✗ timestamp_too_old" in result.stdout
    assert "days ago" in result.stdout
    assert "line break at the end of the body" in result.stdout
    assert reasons(verify(bare, "--json", stdin=request)) == ["timestamp_too_old", "body_newline_added"]


def test_a_suspicion_is_told_as_one(bare: Cli):
    result = verify(bare, stdin=(head() + "\n").encode() + b"another body")
    assert "perhaps: nothing that was tried" in result.stdout


def test_the_key_that_fits_is_found_among_others(bare: Cli):
    request = (head(key=OTHER) + "\n").encode() + BODY
    result = verify(bare, "--other", SigningSecret.generate().reveal(), "--other", OTHER.reveal(), stdin=request)
    assert "--other number 2" in result.stdout
    assert OTHER.reveal()[6:] not in result.output


def test_an_old_request_may_be_verified_as_at_its_time(bare: Cli):
    request = (head(now=OLD) + "\n").encode() + BODY
    assert verify(bare, stdin=request).exit_code == 1
    assert verify(bare, "--at", "2023-11-14T22:15:00Z", stdin=request).exit_code == 0
    assert verify(bare, "--at", "2023-11-14T22:15:00Z", "--tolerance", "1s", stdin=request).exit_code == 1
    assert verify(bare, "--any-time", stdin=request).exit_code == 0


def test_requests_of_other_senders_verify(bare: Cli):
    # GitHub's own published vector.
    signature = "X-Hub-Signature-256: sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    args = ("--from", "github", "-H", signature, "-d", "Hello, World!")
    assert verify(bare, *args, key="It's a Secret to Everybody").exit_code == 0
    result = verify(bare, *args[2:], "--json")
    assert reasons(result) == ["other_sender"]


def test_what_a_request_says_is_escaped_when_it_is_printed(bare: Cli):
    hostile = b"webhook-id: \x1b[31m\xe2\x80\xae\nwebhook-timestamp: \x9b\nwebhook-signature: v1,\x1b\n\n\x1b[2J"
    output = verify(bare, stdin=hostile).output
    assert all(char.isprintable() or char == "\n" for char in output)


@pytest.mark.parametrize(
    ("args", "stdin", "advice"),
    [
        ([], b"no header\n\n{}", "line 1 is no header"),
        ([], b"a: b\n c: d\n\n{}", "line 2 is no header"),
        (["/nowhere/at/all"], b"", "cannot be read"),
        (["--header-file", "/nowhere/at/all"], b"", "--header-file"),
        (["-H", "a: b", "-d", "@/nowhere"], b"", "--body"),
        (["-d", "x"], b"", "--body goes with --header"),
        (["-H", "a: b", "-d", "x", "file"], b"", "two bodies"),
        (["--secret", "whsec_short"], b"", "--secret"),
        (["--other", "whsec_short"], b"a: b\n\n", "--other"),
        (["--from", "nobody"], b"", "--from"),
    ],
)
def test_a_bad_option_is_refused_with_advice(bare: Cli, args: list[str], stdin: bytes, advice: str):
    result = verify(bare, *args, stdin=stdin)
    assert result.exit_code == 2, result.output
    assert advice in result.stderr
    assert "whsec_short" not in result.stderr


def test_without_a_key_there_is_nothing_to_verify_with(bare: Cli):
    for args, advice in (((), "--secret"), (("--secret-file", "/dev/null"), "holds no secret")):
        result = verify(bare, *args, key=None)
        assert (result.exit_code, advice in result.stderr) == (2, True)


def test_headers_alone_are_a_request_with_an_empty_body(bare: Cli):
    headers = signed_request(b"", KEY).headers
    lines = "\n".join(f"{name}: {value}" for name, value in headers.items())
    assert verify(bare, stdin=lines.encode()).exit_code == 0


def test_no_database_is_asked(bare: Cli):
    nowhere = bare.having(TIDINGS_DATABASE_URL="postgresql://127.0.0.1:1/none")
    assert verify(nowhere, stdin=(head() + "\n").encode() + BODY).exit_code == 0


def test_who_signed_is_asked_for_where_the_secret_or_the_headers_are_another_senders(bare: Cli):
    refused = verify(bare, stdin=b"X-Hub-Signature-256: sha256=00\n\n{}", key="It's a secret")
    assert refused.exit_code == 2
    assert "GitHub, Slack or Shopify goes with --from" in refused.stderr
    told = verify(bare, stdin=b"X-Hub-Signature-256: sha256=00\n\n{}")
    assert "reader=GITHUB (here: --from)" in told.stdout
