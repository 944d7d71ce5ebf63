"""Django (5.0 and newer): a decorator that hands the view what was verified.

::

    @verified_webhook(verifier, guard=guard)
    def receive(request, webhook):
        handle(webhook.id, webhook.json())
        return HttpResponse(status=204)

It exempts the view from CSRF, takes POST only, and decorates asynchronous views too. Decorate plain views: Django REST
framework's have parsed the body before.
"""

from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from functools import wraps
from inspect import iscoroutinefunction
from typing import Any

from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest, HttpResponse, HttpResponseBase, RawPostDataException
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from signing.contrib.answers import ANSWERED, Answered, answer, check_present, is_failure, stated_length, too_large
from signing.errors import RawBodyError
from signing.payload import VerifiedWebhook
from signing.replay import ReplayGuard
from signing.verifier import WebhookVerifier

View = Callable[..., HttpResponseBase] | Callable[..., Awaitable[HttpResponseBase]]

_READ_BEFORE = (
    "`request.POST` of a multipart form, `request.FILES` or `request.read()` was used before, in a middleware or a"
    " decorator; verify first, and leave this path out there"
)

_UNSEEN = (
    "the body came chunked, of which Django sees nothing over WSGI: serve this path over ASGI, or have the proxy in"
    " front of it buffer requests"
)


def verified(request: HttpRequest, verifier: WebhookVerifier) -> VerifiedWebhook:
    """Verify a request by its body as it came.

    Raises:
        VerificationError: it is not to be trusted; `http_status` is the answer.
        RawBodyError: somebody read the body before, or it was never to be had.
    """
    stated = stated_length(request.META.get("CONTENT_LENGTH"))
    verifier.check_size(stated or 0)
    try:
        body = request.body
    except RawPostDataException as error:
        raise RawBodyError(f"the body was read before it could be verified: {_READ_BEFORE}") from error
    except RequestDataTooBig:
        raise too_large(settings.DATA_UPLOAD_MAX_MEMORY_SIZE) from None
    check_present(body, stated, _READ_BEFORE)
    is_wsgi = hasattr(request, "environ")  # over ASGI an empty body is one
    if is_wsgi and not body and "chunked" in request.headers.get("Transfer-Encoding", "").lower():
        raise RawBodyError(_UNSEEN)
    return verifier.verify(body, request.headers)


def verified_webhook(verifier: WebhookVerifier, *, guard: ReplayGuard | None = None) -> Callable[[View], View]:
    """Decorate a view: it is called with the request and a verified webhook; all else is answered here.

    With a `guard`, a repeat of what is done is answered 200 without a call of the view, one of what is in progress
    503; what the view answers with anything but 2xx, or fails at, is let in when it comes again.
    """

    def decorate(view: Any) -> Any:
        @wraps(view)
        def wrapper(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            try:
                webhook = verified(request, verifier)
                with nullcontext() if guard is None else guard.once(webhook) as turn:
                    response: HttpResponseBase = view(request, webhook, *args, **kwargs)
                    if turn is not None and is_failure(response.status_code):
                        turn.release()
                    return response
            except ANSWERED as error:
                return _answered(error)

        @wraps(view)
        async def async_wrapper(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            try:
                webhook = verified(request, verifier)
                async with nullcontext() if guard is None else guard.once(webhook) as turn:
                    response: HttpResponseBase = await view(request, webhook, *args, **kwargs)
                    if turn is not None and is_failure(response.status_code):
                        turn.release()
                    return response
            except ANSWERED as error:
                return _answered(error)

        return csrf_exempt(require_POST(async_wrapper if iscoroutinefunction(view) else wrapper))

    return decorate


def _answered(error: Answered) -> HttpResponse:
    status, headers, text = answer(error)
    return HttpResponse(f"{text}\n", status=status, headers=headers, content_type="text/plain; charset=utf-8")
