"""docs/receivers.md: its receivers run as they stand, and do what it says."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from django.test import RequestFactory
from psycopg_pool import ConnectionPool
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from signing import DuplicateWebhookError, SigningSecret, WebhookVerifier
from signing.contrib.postgres import CREATE_TABLE
from signing.testing import signed_request
from tests.gates.pages import blocks

from .receivers import set_django_up
from .serving import PATIENCE_S, asgi_served, wsgi_served

PAGE = "docs/receivers.md"
SECRET = SigningSecret.generate()
BODY, HEADERS = signed_request({"type": "invoice.paid"}, SECRET)


@pytest.fixture(autouse=True)
def _signed_now() -> None:
    """Sign anew for each test: a whole run takes longer than a signature is good for."""
    HEADERS.update(signed_request(BODY, SECRET)[1])


FASTAPI, ASGI, FLASK, DJANGO = blocks(PAGE, "In a framework", "python")
[REPEATS] = blocks(PAGE, "Expect repeats", "python")
[OTHERS] = blocks(PAGE, "Other senders", "python")
[ASK] = blocks(PAGE, "When it does not verify", "sh")


class Handled(list[Any]):
    def __call__(self, *what: Any) -> None:
        self.append(what)


def run(code: str, **names: Any) -> dict[str, Any]:
    exec(compile(code.replace("whsec_...", SECRET.reveal()), PAGE, "exec"), names)
    return names


def post(url: str, body: bytes = BODY) -> int:
    url = f"{url}/webhooks"
    return httpx.post(url, content=body, headers=HEADERS, verify=False, timeout=PATIENCE_S).status_code


def test_the_one_for_fastapi_handles_each_once() -> None:
    handled = Handled()
    with asgi_served(run(FASTAPI, handle=handled)["app"]) as url:
        assert [post(url), post(url), post(url, b"{}")] == [204, 200, 401]
    assert handled == [("msg_test", {"type": "invoice.paid"})]


def test_the_one_for_any_asgi_application_stands_before_it() -> None:
    def receive(request: Request) -> PlainTextResponse:
        return PlainTextResponse(request.state.webhook.id)

    app = run(ASGI, app=Starlette(routes=[Route("/webhooks", receive, methods=["POST"])]))["app"]
    with asgi_served(app) as url:
        assert [post(url), post(url, b"{}")] == [200, 401]


def test_the_one_for_flask_verifies() -> None:
    handled = Handled()
    with wsgi_served(run(FLASK, handle=handled, __name__="receiver")["app"]) as url:
        assert [post(url), post(url, b"{}")] == [204, 401]
    assert len(handled) == 1


def test_the_one_for_django_verifies() -> None:
    set_django_up()
    handled = Handled()
    receive, factory = run(DJANGO, handle=handled)["receive"], RequestFactory(headers=HEADERS)
    for body, status in ((BODY, 204), (b"{}", 401)):
        request = factory.post("/webhooks", body, content_type="application/json")
        assert receive(request).status_code == status
    assert len(handled) == 1


def test_work_and_id_commit_together_as_it_says(empty_dsn: str) -> None:
    handled, webhook = Handled(), WebhookVerifier(SECRET).verify(BODY, HEADERS)
    with psycopg.connect(empty_dsn, autocommit=True) as connection:
        connection.execute(CREATE_TABLE)
    with ConnectionPool(empty_dsn, min_size=1, open=True) as pool:
        handle_once = run(REPEATS, handle=handled)["handle_once"]
        handle_once(webhook, pool)
        with pytest.raises(DuplicateWebhookError):
            handle_once(webhook, pool)
    assert len(handled) == 1


def test_the_verifier_of_another_sender_is_made_as_it_says() -> None:
    assert isinstance(run(OTHERS)["verifier"], WebhookVerifier)


def test_the_command_that_says_why_says_it(tmp_path: Path) -> None:
    head = "".join(f"{name}: {value}\n" for name, value in HEADERS.items())
    (tmp_path / "request.txt").write_bytes(head.encode() + b"\n" + BODY + b"\n")
    arguments = ASK.replace("whsec_...", SECRET.reveal()).split()[1:]
    done = subprocess.run(
        [sys.executable, "-m", "delivery.cli", *arguments], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, done.stderr
    assert "line break" in done.stdout
