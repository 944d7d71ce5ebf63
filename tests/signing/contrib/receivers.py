"""One receiver, written for each framework with the glue; and the ways in which each framework loses the raw body."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

from django import setup
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.core.wsgi import get_wsgi_application
from django.http import HttpRequest, HttpResponse
from django.urls import clear_url_caches, path
from fastapi import Depends, FastAPI, Form
from flask import Flask
from flask import request as flask_request
from starlette.applications import Starlette
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from signing import RawBodyError, ReplayGuard, VerifiedWebhook, WebhookVerifier
from signing.contrib import django as django_glue
from signing.contrib import flask as flask_glue
from signing.contrib import starlette as starlette_glue
from signing.contrib.asgi import WebhookMiddleware

from .serving import PATIENCE_S, asgi_served, wsgi_served


class Desk:
    """Handle a webhook as its body says: `ok`, `fail`, `refuse` (once each, then `ok`) or `wait`."""

    def __init__(self) -> None:
        self.handled: list[str] = []
        self.lost: list[str] = []  #: what was said where the raw body was gone
        self.entered, self.leave = threading.Event(), threading.Event()

    def __call__(self, webhook: VerifiedWebhook) -> int:
        do = webhook.json()["do"]
        is_first = webhook.id not in self.handled
        self.handled.append(webhook.id)
        if do == "fail" and is_first:
            raise ZeroDivisionError
        if do == "wait":
            self.entered.set()
            assert self.leave.wait(PATIENCE_S)
        return 503 if do == "refuse" and is_first else 204

    def note(self, error: RawBodyError) -> int:
        self.lost.append(str(error))
        return error.http_status


@contextmanager
def fastapi(verifier: WebhookVerifier, guard: ReplayGuard | None, desk: Desk) -> Iterator[str]:
    app = FastAPI()
    webhook = Depends(starlette_glue.verified_webhook(verifier, guard=guard))

    @app.post("/hook")
    def receive(webhook: Annotated[VerifiedWebhook, webhook]) -> Response:
        return Response(status_code=desk(webhook))

    @app.post("/form")
    def receive_form(webhook: Annotated[VerifiedWebhook, webhook], field: Annotated[str, Form()] = "") -> Response:
        return Response(status_code=desk(webhook))

    @app.post("/model")
    def receive_model(webhook: Annotated[VerifiedWebhook, webhook], model: dict[str, Any]) -> Response:
        assert model == webhook.json()
        return Response(status_code=desk(webhook))

    @app.post("/again")
    async def read_again(webhook: Annotated[VerifiedWebhook, webhook], request: Request) -> Response:
        assert await request.body() == webhook.body
        return Response(status_code=desk(webhook))

    @app.exception_handler(RawBodyError)
    def lost(_: Request, error: RawBodyError) -> Response:
        return Response(status_code=desk.note(error))

    with asgi_served(app) as url:
        yield url


@contextmanager
def asgi(verifier: WebhookVerifier, guard: ReplayGuard | None, desk: Desk) -> Iterator[str]:
    def receive(request: Request) -> Response:
        return Response(status_code=desk(request.state.webhook))

    async def read_again(request: Request) -> Response:
        assert await request.body() == request.state.webhook.body
        return Response(status_code=desk(request.state.webhook))

    def open_to_all(_: Request) -> Response:
        return PlainTextResponse("open")

    routes = [
        Route("/hook", receive, methods=["GET", "POST"]),
        Route("/again", read_again, methods=["POST"]),
        Route("/open", open_to_all),
    ]
    app = WebhookMiddleware(Starlette(routes=routes), verifier=verifier, guard=guard, paths={"/hook", "/again"})
    with asgi_served(app) as url:
        yield url


@contextmanager
def flask(verifier: WebhookVerifier, guard: ReplayGuard | None, desk: Desk) -> Iterator[str]:
    app = Flask(__name__)
    app.logger.disabled = True

    @app.post("/hook")
    @flask_glue.verified_webhook(verifier, guard=guard)
    def receive(webhook: VerifiedWebhook) -> tuple[str, int]:
        return "", desk(webhook)

    @app.post("/again")
    @flask_glue.verified_webhook(verifier, guard=guard)
    def read_again(webhook: VerifiedWebhook) -> tuple[str, int]:
        assert flask_request.get_json() == webhook.json()
        return "", desk(webhook)

    @app.before_request
    def take_the_form() -> None:
        if flask_request.path == "/form":
            _ = flask_request.form

    app.add_url_rule("/form", view_func=receive, endpoint="form", methods=["POST"])

    @app.errorhandler(RawBodyError)
    def lost(error: RawBodyError) -> tuple[str, int]:
        return "", desk.note(error)

    with wsgi_served(app) as url:
        yield url


class Urls:
    """The routes of Django, which reads them from a module or the like of it."""

    urlpatterns: list[Any]


def set_django_up() -> None:
    """Configure Django, which is done once a process."""
    if not settings.configured:
        middleware = [f"{__name__}.RawBodyMiddleware", "django.middleware.csrf.CsrfViewMiddleware"]
        settings.configure(ROOT_URLCONF=Urls, ALLOWED_HOSTS=["*"], MIDDLEWARE=middleware, LOGGING_CONFIG=None)
        setup()


def _route(view: Any) -> None:
    Urls.urlpatterns = [path(name, view) for name in ("hook", "again", "form", "read")]
    clear_url_caches()


class RawBodyMiddleware:
    """Take the form of one path before its view can, and note what is said then."""

    sync_capable = True
    async_capable = False
    desk: Desk

    def __init__(self, get_response: Any) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.path == "/form":
            _ = request.POST
        if request.path == "/read":
            request.read()
        return self.get_response(request)

    def process_exception(self, _: HttpRequest, error: Exception) -> HttpResponse | None:
        return HttpResponse(status=self.desk.note(error)) if isinstance(error, RawBodyError) else None


@contextmanager
def django(verifier: WebhookVerifier, guard: ReplayGuard | None, desk: Desk) -> Iterator[str]:
    set_django_up()
    RawBodyMiddleware.desk = desk

    @django_glue.verified_webhook(verifier, guard=guard)
    def receive(request: HttpRequest, webhook: VerifiedWebhook) -> HttpResponse:
        assert request.body == webhook.body
        return HttpResponse(status=desk(webhook))

    _route(receive)
    with wsgi_served(get_wsgi_application()) as url:
        yield url


@contextmanager
def django_async(verifier: WebhookVerifier, guard: ReplayGuard | None, desk: Desk) -> Iterator[str]:
    set_django_up()
    RawBodyMiddleware.desk = desk

    @django_glue.verified_webhook(verifier, guard=guard)
    async def receive(request: HttpRequest, webhook: VerifiedWebhook) -> HttpResponse:
        assert request.body == webhook.body
        return HttpResponse(status=await asyncio.to_thread(desk, webhook))

    _route(receive)
    with asgi_served(get_asgi_application()) as url:
        yield url


class Consuming(BaseHTTPMiddleware):
    """What tools that watch applications do: take the stream, and leave nothing."""

    async def dispatch(self, request: Request, call_next: Any) -> Response:
        async for _ in request.stream():
            pass
        return await call_next(request)


class Peeking(BaseHTTPMiddleware):
    """What well-behaved ones do: read the body, and leave it."""

    async def dispatch(self, request: Request, call_next: Any) -> Response:
        await request.body()
        return await call_next(request)


RECEIVERS = {"fastapi": fastapi, "asgi": asgi, "flask": flask, "django": django, "django-async": django_async}
