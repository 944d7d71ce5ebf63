"""`tidings listen` as a process of its own, asked over real sockets."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from delivery.cli.listen import pretty
from delivery.cli.receiver import MAX_BODY_BYTES, MAX_HEAD_BYTES
from signing import SigningKey, SigningSecret, WebhookSigner
from tests.gates.shapes import faults_of

ROOT = Path(__file__).resolve().parents[3]
SECRET = SigningSecret.generate()
ID = "0199e1c2-7c1e-7000-8000-0123456789ab"
BODY = b'{"id":"%s","type":"order.paid","subject":"order-7","data":{"total":12.50}}' % ID.encode()
PATIENCE_S = 60
#: With as much patience for who asks.
PROGRAM = f"""
from delivery.cli import receiver
receiver._HEAD_S = receiver._LINGER_S = {PATIENCE_S}.0
from delivery.cli import main
main()
"""


class Listener:
    """A running `tidings listen`."""

    def __init__(self, process: Process, port: int) -> None:
        self.process, self.port = process, port

    async def line(self) -> str:
        """Return the next line that it prints."""
        assert self.process.stdout is not None
        return (await asyncio.wait_for(self.process.stdout.readline(), PATIENCE_S)).decode()

    async def ask(self, request: bytes, *, ends: bool = True) -> bytes:
        """Send bytes and return all that comes back until the connection is closed."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(request)
            if ends:
                writer.write_eof()
            return await asyncio.wait_for(reader.read(), PATIENCE_S)
        finally:
            writer.close()
            await writer.wait_closed()

    async def end(self, number: signal.Signals = signal.SIGINT) -> tuple[str, str, int]:
        """Signal it and return what it still printed, its errors and its exit code."""
        self.process.send_signal(number)
        out, err = await asyncio.wait_for(self.process.communicate(), PATIENCE_S)
        assert self.process.returncode is not None
        return out.decode(), err.decode(), self.process.returncode


async def start(*options: str) -> Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM, "listen", *options, cwd=ROOT, stdout=PIPE, stderr=PIPE
    )


@asynccontextmanager
async def listening(*options: str, secret: SigningSecret | None = SECRET) -> AsyncIterator[Listener]:
    given = () if secret is None else ("--secret", secret.reveal())
    process = await start("--port", "0", *given, *options)
    said = process.stderr if "--json" in options else process.stdout
    assert said is not None
    try:
        introduction = ""
        while not introduction.endswith("\n\n"):
            line = (await asyncio.wait_for(said.readline(), PATIENCE_S)).decode()
            assert line, f"it ended: {introduction}"
            introduction += line
        listener = Listener(process, int(introduction.partition("127.0.0.1:")[2].partition("/")[0]))
        unknown = secret is None and not {"--secret", "--secret-file"} & set(options)
        assert (f"tidings endpoints add http://127.0.0.1:{listener.port}/" in introduction) == unknown
        assert ("No secret" in introduction) == unknown
        yield listener
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


def request(
    body: bytes = BODY, *, sent: bytes | None = None, key: SigningSecret | SigningKey = SECRET, more: str = ""
) -> bytes:
    """Write a signed request down; `sent` is the body that is sent in place of the signed one."""
    headers = "".join(f"{name}: {value}\r\n" for name, value in WebhookSigner([key]).headers(ID, body).items())
    sent = body if sent is None else sent
    length = "" if "transfer-encoding" in more else f"content-length: {len(sent)}\r\n"
    return f"POST /hook HTTP/1.1\r\nhost: here\r\n{headers}{length}{more}\r\n".encode() + sent


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


async def test_a_signed_request_is_verified_printed_and_answered_204():
    async with listening() as listener:
        assert status(await listener.ask(request())) == 204
        line = await listener.line()
    assert "✓ verified" in line
    assert all(part in line for part in (" 204 ", f"{len(BODY)} B", ID, "order.paid", "order-7"))
    assert "seen" not in line


async def test_a_changed_body_is_refused_with_the_error_s_code_and_status():
    async with listening() as listener:
        assert status(await listener.ask(request(sent=BODY.replace(b"12.50", b"99.50")))) == 401
        assert "✗ no_match" in await listener.line()
        assert "check the key" in await listener.line()


async def test_an_unsigned_request_is_a_bad_request():
    async with listening() as listener:
        assert status(await listener.ask(b"POST / HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}")) == 400
        assert "✗ missing_header" in await listener.line()


async def test_a_repeat_is_counted_by_its_id():
    async with listening() as listener:
        await listener.ask(request())
        await listener.line()
        await listener.ask(request())
        assert "seen 2 times" in await listener.line()


async def test_without_a_secret_nothing_is_claimed_about_who_sent_it():
    async with listening(secret=None) as listener:
        assert status(await listener.ask(request())) == 204
        assert "· unchecked" in await listener.line()


async def test_any_secret_of_a_file_verifies(tmp_path: Path):
    file = tmp_path / "secrets"
    file.write_text(f"{SigningSecret.generate().reveal()}\n{SECRET.reveal()}\n")
    async with listening("--secret-file", str(file), secret=None) as listener:
        assert status(await listener.ask(request())) == 204
        assert "✓ verified" in await listener.line()


async def test_a_public_key_verifies_what_its_signing_key_signed():
    key = SigningKey.generate()
    async with listening("--secret", key.public_key.reveal(), secret=None) as listener:
        assert status(await listener.ask(request(key=key))) == 204
        assert "✓ verified" in await listener.line()


async def test_what_a_sender_says_is_escaped_when_it_is_printed():
    body = b'{"type":"\\u001b[2Jevil\\u202e","subject":"a\\nb"}'
    async with listening("--body") as listener:
        await listener.ask(request(body))
        await listener.ask(request(b"\x1b[31m\x00\xff\xe2\x80\xae\r\nnext"))
        await listener.ask("POST / HTTP/1.1\r\nwebhook-id: \xe2\x9b".encode("latin-1") + b"\x9b31m\r\n\r\n")
        out, _, _ = await listener.end()
    assert "\\x1b[2Jevil\\u202e" in out
    assert "a\\x0ab" in out
    assert "\\x1b[31m\\x00\\xff\\u202e\\x0d\\x0anext" in out
    assert all(char.isprintable() or char == "\n" for char in out)


GARBAGE = {
    "noise": (b"\x00\xff\x80 noise\r\n\r\n", 400),
    "tls": (b"\x16\x03\x01\x02\x00\x01\x00", 400),
    "half a head": (b"POST / HTTP/1.1\r\nhost: he", 400),
    "half a body": (b"POST / HTTP/1.1\r\ncontent-length: 10\r\n\r\nhalf", 400),
    "a header without a name": (b"POST / HTTP/1.1\r\n: x\r\n\r\n", 400),
    "a folded header": (b"POST / HTTP/1.1\r\na: x\r\n y\r\n\r\n", 400),
    "two lengths": (b"POST / HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nxx", 400),
    "a negative length": (b"POST / HTTP/1.1\r\ncontent-length: -1\r\n\r\n", 400),
    "two framings": (b"POST / HTTP/1.1\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    "another coding": (b"POST / HTTP/1.1\r\ntransfer-encoding: gzip\r\n\r\n", 501),
    "a chunk without a size": (b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n", 400),
    "a chunk that lies": (b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n1\r\nxyz\r\n0\r\n\r\n", 400),
    "a huge head": (b"POST / HTTP/1.1\r\na: " + b"x" * 2 * MAX_HEAD_BYTES + b"\r\n\r\n", 431),
    "endless trailers": (b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n" + b"a: b\r\n" * 100, 431),
}


async def test_garbage_is_answered_and_printed_and_ends_nothing():
    async with listening() as listener:
        for name, (sent, wanted) in GARBAGE.items():
            assert status(await listener.ask(sent)) == wanted, name
            assert "✗ unreadable" in await listener.line(), name
        assert status(await listener.ask(request())) == 204
        out, err, _ = await listener.end()
    assert "✓ verified" in out
    assert not err


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_huge_body_is_refused_with_an_answer_that_arrives(chunked: bool):
    body = b"x" * (MAX_BODY_BYTES + 1)
    sent = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body) if chunked else body
    more = "transfer-encoding: chunked\r\n" if chunked else ""
    async with listening() as listener:
        assert status(await listener.ask(request(body, sent=sent, more=more))) == 413
        assert "over 1048576 bytes" in await listener.line()


async def test_the_largest_body_that_is_taken_is_verified():
    async with listening() as listener:
        assert status(await listener.ask(request(b"x" * MAX_BODY_BYTES))) == 204
        assert "✓ verified" in await listener.line()


async def test_a_chunked_body_is_verified_without_its_coding():
    sent = b"".join(b"%x;a=b\r\n%s\r\n" % (len(part), part) for part in (BODY[:5], BODY[5:])) + b"0\r\nt: x\r\n\r\n"
    async with listening() as listener:
        assert status(await listener.ask(request(sent=sent, more="transfer-encoding: chunked\r\n"))) == 204
        assert "✓ verified" in await listener.line()


async def test_a_connection_serves_one_request_after_the_other():
    async with listening() as listener:
        answer = await listener.ask(request() + request(more="connection: close\r\n"), ends=False)
        assert answer.count(b"HTTP/1.1 204 ") == 2


async def test_a_sender_that_waits_to_be_told_is_told_to_go_on():
    async with listening() as listener:
        answer = await listener.ask(request(more="expect: 100-continue\r\nconnection: close\r\n"))
        assert answer.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 ")


async def test_what_is_no_post_is_not_taken_for_a_webhook():
    async with listening() as listener:
        answer = await listener.ask(b"GET /favicon.ico HTTP/1.1\r\n\r\n")
        assert status(answer) == 405
        assert b"allow: POST" in answer
        assert "GET /favicon.ico" in await listener.line()


async def test_a_played_status_is_answered_though_the_request_is_verified():
    async with listening("--status", "503", "--retry-after", "30") as listener:
        answer = await listener.ask(request())
        assert status(answer) == 503
        assert b"retry-after: 30\r\n" in answer
        line = await listener.line()
    assert "✓ verified" in line
    assert " 503 " in line


async def test_a_played_delay_holds_the_answer_back_but_not_the_line():
    async with listening("--delay", "1h") as listener:
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
        writer.write(request())
        assert "✓ verified" in await listener.line()
        assert not reader.at_eof()
        _, _, code = await listener.end()
        writer.close()
    assert code == 130


async def test_a_delayed_answer_comes():
    loop = asyncio.get_running_loop()
    async with listening("--delay", "300ms") as listener:
        began = loop.time()
        assert status(await listener.ask(request())) == 204
    assert loop.time() - began >= 0.3


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
async def test_a_signal_ends_it_with_a_summary(number: signal.Signals, code: int):
    async with listening() as listener:
        await listener.ask(request())
        await listener.ask(request())
        await listener.ask(b"noise\r\n\r\n")
        out, err, ended = await listener.end(number)
    assert out.splitlines()[-1] == "3 requests: 2 verified, 1 unreadable; 1 came again"
    assert (err, ended) == ("", code)


async def test_json_is_one_object_a_line_and_nothing_else():
    async with listening("--json", "--body") as listener:
        await listener.ask(request())
        await listener.ask(b"noise\r\n\r\n")
        out, err, _ = await listener.end()
    first, second = map(json.loads, out.splitlines())
    assert faults_of("listen", first) == faults_of("listen", second) == []
    assert first | {"at": ""} == {
        "at": "",
        "verified": True,
        "code": None,
        "reason": None,
        "id": ID,
        "type": "order.paid",
        "subject": "order-7",
        "seen": 1,
        "bytes": len(BODY),
        "method": "POST",
        "target": "/hook",
        "status": 204,
        "body": BODY.decode(),
    }
    assert (second["verified"], second["code"], second["status"]) == (False, "unreadable", 400)
    assert "2 requests" in err


async def test_a_taken_port_is_one_line_and_exit_code_1():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        process = await start("--port", str(port))
        out, err = await asyncio.wait_for(process.communicate(), PATIENCE_S)
    assert process.returncode == 1
    assert not out
    said = f"port {port} of 127.0.0.1 is taken: choose another with --port, or 0 for a free one"
    assert err.decode() == f"tidings: {said}\n"


async def test_a_reader_that_goes_away_ends_it_quietly():
    async with listening() as listener:
        transport = listener.process._transport.get_pipe_transport(1)  # type: ignore[attr-defined] # no public way
        transport.close()
        await listener.ask(request())
        assert await asyncio.wait_for(listener.process.wait(), PATIENCE_S) == 1
        assert listener.process.stderr is not None
        assert not await listener.process.stderr.read()


@pytest.mark.parametrize(
    ("options", "advice"),
    [
        (["--secret", "whsec_short"], "--secret"),
        (["--secret", SigningKey.generate().reveal()], "public key"),
        (["--secret-file", "/nowhere/at/all"], "cannot be read"),
        (["--secret-file", "/dev/zero"], "--secret"),
        (["--secret-file", "/dev/null"], "holds no secret"),
        (["--delay", "soon"], "is no duration"),
        (["--retry-after", "5"], "goes with --status"),
        (["--status", "99"], "--status"),
    ],
)
async def test_a_bad_option_is_refused_with_advice_and_without_the_secret(options: list[str], advice: str):
    process = await start(*options)
    _, err = await asyncio.wait_for(process.communicate(), PATIENCE_S)
    assert process.returncode == 2
    assert advice in err.decode()
    assert "whsec_short" not in err.decode()


def test_a_body_is_laid_out_token_by_token():
    assert pretty(b'{"a":1.50,"b":[],"c":[1,{"d":"x, {: y"}],"e":{}}').split("\n") == [
        "{",
        '  "a": 1.50,',
        '  "b": [],',
        '  "c": [',
        "    1,",
        "    {",
        '      "d": "x, {: y"',
        "    }",
        "  ],",
        '  "e": {}',
        "}",
    ]


def test_a_long_body_is_cut_and_says_so():
    assert pretty(b"x" * 100_000).endswith("x\n… of 100000 bytes")
