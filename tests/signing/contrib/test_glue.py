"""The glue of every framework keeps one contract, over real sockets."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from django.test import AsyncRequestFactory
from fastapi import Depends, FastAPI

from signing import MemoryReplayStore, RawBodyError, ReplayGuard, SigningSecret, VerifiedWebhook, WebhookVerifier
from signing.contrib.asgi import WebhookMiddleware
from signing.contrib.django import verified as verified_by_django
from signing.contrib.starlette import verified_webhook
from signing.testing import signed_request

from .receivers import RECEIVERS, Consuming, Desk, Peeking, set_django_up
from .serving import PATIENCE_S, asgi_served

KEY = SigningSecret.generate()
MOST = 4096


@dataclass
class Receiver:
    """A running receiver, and its desk."""

    url: str
    desk: Desk
    name: str = ""

    def post(self, do: object = "ok", path: str = "/hook", *, id: str = "msg_1", **changes: Any) -> httpx.Response:
        """Send a signed request; `changes` are to what is sent, after it was signed."""
        body, headers = signed_request({"do": do}, KEY, id=id)
        headers |= changes.get("headers", {})
        with httpx.Client(timeout=PATIENCE_S, verify=False) as client:
            return client.post(self.url + path, content=changes.get("body", body), headers=headers)


def verifier() -> WebhookVerifier:
    return WebhookVerifier(KEY, max_body_bytes=MOST)


@pytest.fixture(params=RECEIVERS)
def receiver(request: pytest.FixtureRequest) -> Iterator[Receiver]:
    desk = Desk()
    with RECEIVERS[request.param](verifier(), ReplayGuard(MemoryReplayStore()), desk) as url:
        yield Receiver(url, desk, request.param)


@pytest.fixture(params=RECEIVERS)
def unguarded(request: pytest.FixtureRequest) -> Iterator[Receiver]:
    desk = Desk()
    with RECEIVERS[request.param](verifier(), None, desk) as url:
        yield Receiver(url, desk, request.param)


def test_a_signed_request_is_handled_and_answered_as_the_application_says(receiver: Receiver) -> None:
    assert receiver.post().status_code == 204
    assert receiver.desk.handled == ["msg_1"]


@pytest.mark.parametrize(
    ("changes", "status", "code"),
    [
        ({"body": b"{}"}, 401, "no_match"),
        ({"headers": {"webhook-id": ""}}, 400, "missing_header"),
        ({"headers": {"webhook-timestamp": "soon"}}, 400, "malformed_timestamp"),
        ({"headers": {"webhook-timestamp": "1700000000"}}, 400, "timestamp_too_old"),
        ({"body": b"x" * (MOST + 1)}, 413, "body_too_large"),
    ],
)
def test_what_does_not_verify_is_answered_and_not_handled(
    receiver: Receiver, changes: dict, status: int, code: str
) -> None:
    answer = receiver.post(**changes)
    assert (answer.status_code, code in answer.text) == (status, True)
    assert receiver.desk.handled == []


def test_a_body_of_unknown_length_is_read_up_to_the_limit_only(receiver: Receiver) -> None:
    endless = iter([b"x" * 1024] * 16)
    body, _ = signed_request({"do": "ok"}, KEY)
    answers = [receiver.post(body=each).status_code for each in (endless, iter([body[:3], body[3:]]))]
    assert answers == ([500, 500] if receiver.name == "django" else [413, 204])
    if receiver.name == "django":  # which sees no body without a length over WSGI, and is told so
        assert ["came chunked" in said for said in receiver.desk.lost] == [True, True]


def test_only_a_post_is_taken(receiver: Receiver) -> None:
    assert httpx.get(f"{receiver.url}/hook", verify=False, timeout=PATIENCE_S).status_code == 405
    assert receiver.desk.handled == []


def test_a_repeat_is_acknowledged_and_not_handled_again(receiver: Receiver) -> None:
    assert [receiver.post().status_code for _ in range(3)] == [204, 200, 200]
    assert receiver.post(id="msg_2").status_code == 204
    assert receiver.desk.handled == ["msg_1", "msg_2"]


def test_without_a_guard_each_is_handled(unguarded: Receiver) -> None:
    assert [unguarded.post().status_code for _ in range(2)] == [204, 204]


def test_a_repeat_while_it_is_handled_is_to_come_again(receiver: Receiver) -> None:
    first: list[httpx.Response] = []
    thread = threading.Thread(target=lambda: first.append(receiver.post("wait")))
    thread.start()
    assert receiver.desk.entered.wait(PATIENCE_S)
    meanwhile = receiver.post("wait")
    receiver.desk.leave.set()
    thread.join(PATIENCE_S)
    assert (meanwhile.status_code, meanwhile.headers["retry-after"]) == (503, "5")
    assert (first[0].status_code, receiver.desk.handled) == (204, ["msg_1"])


def test_what_failed_is_handled_when_it_comes_again(receiver: Receiver) -> None:
    assert [receiver.post("fail").status_code for _ in range(3)] == [500, 204, 200]


def test_what_was_refused_is_handled_when_it_comes_again(receiver: Receiver) -> None:
    # A dependency of FastAPI does not see what its endpoint returns; its docs say so.
    expected = [503, 200] if receiver.name == "fastapi" else [503, 204, 200]
    assert [receiver.post("refuse").status_code for _ in expected] == expected


def test_a_payload_that_is_not_json_is_answered_400_and_may_come_again(receiver: Receiver) -> None:
    body, headers = signed_request(b"not json", KEY)
    for _ in range(2):
        answer = receiver.post(body=body, headers=headers)
        # The middleware answers for what it verifies; what is in the body is the application's, which fails here.
        expected = (500, False) if receiver.name == "asgi" else (400, True)
        assert (answer.status_code, "undecodable_payload" in answer.text) == expected


def test_the_body_may_be_read_again_by_the_application(receiver: Receiver) -> None:
    assert receiver.post(path="/again").status_code == 204


@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/plain"])
def test_a_content_type_of_a_form_does_not_matter(receiver: Receiver, kind: str) -> None:
    assert receiver.post(headers={"content-type": kind}).status_code == 204


def test_a_header_that_comes_twice_is_refused(receiver: Receiver) -> None:
    body, headers = signed_request({"do": "ok"}, KEY)
    twice = [*headers.items(), ("webhook-id", "msg_2")]
    with httpx.Client(timeout=PATIENCE_S, verify=False) as client:
        answer = client.post(f"{receiver.url}/hook", content=body, headers=twice)
    # WSGI has joined them with a comma, so the id is another one that nobody signed.
    assert answer.status_code in (400, 401)
    assert receiver.desk.handled == []


# Who takes the raw body ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("receiver", ["fastapi", "flask", "django", "django-async"], indirect=True)
def test_a_form_parser_that_was_first_is_named(receiver: Receiver) -> None:
    multipart = b'--x\r\nContent-Disposition: form-data; name="field"\r\n\r\n1\r\n--x--\r\n'
    headers = {"content-type": "multipart/form-data; boundary=x"}
    assert receiver.post(path="/form", body=multipart, headers=headers).status_code == 500
    [said] = receiver.desk.lost
    assert "form" in said
    assert "verify first" in said


@pytest.mark.parametrize("receiver", ["flask"], indirect=True)
def test_flask_s_urlencoded_form_is_named_too(receiver: Receiver) -> None:
    headers = {"content-type": "application/x-www-form-urlencoded"}
    assert receiver.post(path="/form", body=b"field=1", headers=headers).status_code == 500
    assert "request.form" in receiver.desk.lost[0]


@pytest.mark.parametrize("receiver", ["django", "django-async"], indirect=True)
def test_django_s_urlencoded_form_leaves_the_body(receiver: Receiver) -> None:
    headers = {"content-type": "application/x-www-form-urlencoded"}
    assert receiver.post(path="/form", headers=headers).status_code == 204


@pytest.mark.parametrize("receiver", ["django", "django-async"], indirect=True)
def test_a_middleware_that_reads_the_request_is_named(receiver: Receiver) -> None:
    assert receiver.post(path="/read").status_code == 500
    assert "middleware" in receiver.desk.lost[0]


@pytest.mark.parametrize("receiver", ["fastapi"], indirect=True)
def test_fastapi_s_model_beside_the_dependency_leaves_the_body(receiver: Receiver) -> None:
    assert receiver.post(path="/model").status_code == 204


@contextmanager
def behind(middleware: type, desk: Desk) -> Iterator[Receiver]:
    app = FastAPI()
    app.add_middleware(middleware)

    @app.post("/hook")
    def receive(webhook: VerifiedWebhook = Depends(verified_webhook(verifier()))) -> None:  # noqa: B008 - FastAPI's way
        desk(webhook)

    @app.exception_handler(RawBodyError)
    def lost(_: object, error: RawBodyError) -> httpx.Response:
        desk.note(error)
        raise error

    with asgi_served(app) as url:
        yield Receiver(url, desk)


def test_a_middleware_that_takes_the_stream_is_named() -> None:
    with behind(Consuming, Desk()) as receiver:
        assert receiver.post().status_code == 500
        assert "middleware" in receiver.desk.lost[0]


def test_a_middleware_that_leaves_the_body_does_no_harm() -> None:
    with behind(Peeking, Desk()) as receiver:
        assert receiver.post().status_code == 200


# ASGI ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("receiver", ["asgi"], indirect=True)
def test_other_paths_are_open_to_all(receiver: Receiver) -> None:
    assert httpx.get(f"{receiver.url}/open", verify=False, timeout=PATIENCE_S).text == "open"


@pytest.mark.parametrize("path", ["/hook%0A", "/hook/", "//hook", "/hook%20"])
@pytest.mark.parametrize("receiver", ["asgi"], indirect=True)
def test_no_spelling_of_a_path_that_a_router_may_take_for_it_gets_around_the_middleware(
    receiver: Receiver, path: str
) -> None:
    assert httpx.post(receiver.url + path, content=b"forged", verify=False, timeout=PATIENCE_S).status_code == 400
    assert receiver.desk.handled == []


@pytest.mark.parametrize("paths", [{"/hook"}, {"/api/hook"}, "/hook"])
async def test_an_application_that_is_mounted_is_guarded_too(paths: Any) -> None:
    answers = []

    async def send(message: Any) -> None:
        answers.append(message.get("status"))

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"forged"}

    app = WebhookMiddleware(lambda *_: pytest.fail("it was called"), verifier=verifier(), paths=paths)
    scope = {"type": "http", "method": "POST", "path": "/api/hook", "root_path": "/api", "headers": []}
    await app(scope, receive, send)
    assert answers[0] == 400


async def test_a_sender_that_hangs_up_is_not_answered() -> None:
    desk, sent = Desk(), []
    app = WebhookMiddleware(lambda *_: pytest.fail("it was called"), verifier=verifier())

    async def receive() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    await app({"type": "http", "method": "POST", "path": "/", "headers": []}, receive, send)
    assert (desk.handled, sent) == ([], [])


async def test_what_is_no_request_passes() -> None:
    passed = []

    async def app(scope: Any, *_: Any) -> None:
        passed.append(scope["type"])

    for kind in ("lifespan", "websocket"):
        await WebhookMiddleware(app, verifier=verifier())({"type": kind, "path": "/"}, None, None)  # type: ignore[arg-type]
    assert passed == ["lifespan", "websocket"]


async def test_a_body_that_was_taken_outside_of_the_middleware_is_named() -> None:
    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b""}

    scope = {"type": "http", "method": "POST", "path": "/", "headers": [(b"content-length", b"7")]}
    with pytest.raises(RawBodyError, match="outermost"):
        await WebhookMiddleware(None, verifier=verifier())(scope, receive, None)  # type: ignore[arg-type]


async def test_an_application_that_gives_no_answer_has_not_handled_it() -> None:
    guard = ReplayGuard(MemoryReplayStore())
    body, headers = signed_request({"do": "ok"}, KEY)
    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    seen = []

    async def app(_scope: Any, receive: Any, _send: Any) -> None:
        seen.append([await receive(), await receive()])

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body}

    for _ in range(2):
        scope = {"type": "http", "method": "POST", "path": "/", "headers": pairs}
        await WebhookMiddleware(app, verifier=verifier(), guard=guard)(scope, receive, None)  # type: ignore[arg-type]
    assert [each[0]["body"] for each in seen] == [body, body]


def test_a_chunked_body_that_is_empty_is_no_loss_where_django_sees_it() -> None:
    body, headers = signed_request(b"", KEY)
    set_django_up()
    made = AsyncRequestFactory().generic("POST", "/hook", body, headers={**headers, "transfer-encoding": "chunked"})
    assert verified_by_django(made, verifier()).body == b""
