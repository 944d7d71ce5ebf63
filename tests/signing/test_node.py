"""Our requests and those of the Node library, both ways; and the receivers in Node that the docs show."""

import base64
import json
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from signing import SigningKey, SigningSecret, WebhookSigner, WebhookVerifier
from signing.testing import signed_request
from tests.gates.pages import PATIENCE_S, blocks, eventually
from tests.places import free_port

HERE = Path(__file__).parent / "node"
NODE, NPM = shutil.which("node"), shutil.which("npm")
SECRETS = [SigningSecret.generate(length) for length in (24, 32, 64)]
BODIES = [
    b"{}",
    '{"n":"é😀"}'.encode(),
    b"",
    b"hello",
    b'{"a":1}\r\n',
    b"\xef\xbb\xbf{}",
    b'{"a":"' + b"x" * 500_000 + b'"}',
]

pytestmark = pytest.mark.skipif(NODE is None or NPM is None, reason="node and npm are not on this machine")


@pytest.fixture(scope="session")
def workshop(request: pytest.FixtureRequest) -> Path:
    """Return a folder with the Node library in it, kept between runs."""
    folder: Path = request.config.cache.mkdir("signing-node")
    for name in ("package.json", "package-lock.json", "exchange.mjs"):
        shutil.copy(HERE / name, folder / name)
    lock, installed = (HERE / "package-lock.json").read_text(), folder / "installed"
    if not installed.exists() or installed.read_text() != lock:
        command = [str(NPM), "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries=0"]
        try:
            subprocess.run(command, cwd=folder, capture_output=True, timeout=90, check=True)
        except subprocess.SubprocessError as error:
            pytest.skip(f"npm could not fetch the library: {error}")
        installed.write_text(lock)
    return folder


def exchange(workshop: Path, **asked: Any) -> dict[str, list[str]]:
    question = json.dumps({"verify": [], "sign": []} | asked)
    command = [str(NODE), "exchange.mjs"]
    done = subprocess.run(
        command, cwd=workshop, input=question, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    answer: dict[str, list[str]] = json.loads(done.stdout)
    return answer


def test_the_node_library_verifies_what_we_sign(workshop: Path) -> None:
    requests = [
        {
            "secret": secret.reveal(),
            "body": base64.b64encode(body).decode(),
            "headers": WebhookSigner([SigningKey.generate(), SigningSecret.generate(), secret]).headers("msg_1", body),
        }
        for secret in SECRETS
        for body in BODIES
    ]
    changed = {**requests[0], "body": base64.b64encode(b"changed").decode()}
    answer = exchange(workshop, verify=[*requests, changed])["verified"]
    assert answer == ["verified"] * len(requests) + ["No matching signature found"]


def test_we_verify_what_the_node_library_signs(workshop: Path) -> None:
    now = int(time.time())
    cases = [(secret, body) for secret in SECRETS for body in BODIES]
    asked = [
        {"secret": s.reveal(), "id": "msg_1", "timestamp": now, "body": base64.b64encode(b).decode()} for s, b in cases
    ]
    for (secret, body), signature in zip(cases, exchange(workshop, sign=asked)["signed"], strict=True):
        headers = {"webhook-id": "msg_1", "webhook-timestamp": str(now), "webhook-signature": signature}
        assert WebhookVerifier(secret).verify(body, headers, now=now).body == body


@contextmanager
def running(folder: Path, name: str, code: str, port: int) -> Iterator[subprocess.Popen[str]]:
    (folder / name).write_text(code)
    process = subprocess.Popen([str(NODE), name], cwd=folder, stdout=subprocess.PIPE, text=True)
    try:
        eventually(lambda: is_open(port) or process.poll() is not None)
        yield process
    finally:
        process.kill()
        process.communicate(timeout=PATIENCE_S)


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_the_receiver_in_the_docs_verifies(workshop: Path) -> None:
    [code] = blocks("docs/receivers.md", "Other languages", "js")
    secret, port = SECRETS[1], free_port()
    code = code.replace("whsec_...", secret.reveal()).replace("8400", str(port))
    with running(workshop, "receiver.mjs", code, port) as process:
        url = f"http://127.0.0.1:{port}/"
        body, headers = signed_request({"type": "invoice.paid"}, secret)
        send = partial(httpx.post, url, verify=False, timeout=PATIENCE_S)
        assert send(content=body, headers=headers).status_code == 204
        assert process.stdout is not None
        assert process.stdout.readline() == "verified msg_test invoice.paid\n"
        assert send(content=body + b" ", headers=headers).status_code == 401
        assert send(content=body).status_code == 401


def test_the_lines_in_the_docs_verify_a_public_key(workshop: Path) -> None:
    [code] = blocks("docs/receivers.md", "Public keys", "js")
    key = SigningKey.generate()
    body, headers = signed_request({"n": "é"}, key)
    _, old = signed_request({"n": "é"}, key, now=time.time() - 1000)
    _, other = signed_request({"n": "é"}, SigningKey.generate())
    cases = [
        (body, headers),
        (body + b" ", headers),
        (body, old),
        (body, other),
        (body, {}),
        (body, {**headers, "webhook-timestamp": "soon"}),
        (body, {**headers, "webhook-signature": "v1a v1a, junk " + headers["webhook-signature"]}),
        (body, {**headers, "webhook-signature": headers["webhook-signature"].replace("v1a,", "v1,")}),
    ]
    asked = json.dumps([{"body": base64.b64encode(b).decode(), "headers": h} for b, h in cases])
    call = f"\nfor (const {{body, headers}} of {asked}) console.log(isGenuine(Buffer.from(body, 'base64'), headers));\n"
    (workshop / "public.mjs").write_text(code.replace("whpk_...", key.public_key.reveal()) + call)
    done = subprocess.run(
        [str(NODE), "public.mjs"], cwd=workshop, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == ["true", "false", "false", "false", "false", "false", "true", "false"]
