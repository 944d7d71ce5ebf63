"""Flask (3.1 and newer): a decorator that hands the view what was verified.

::

    @app.post("/webhooks")
    @verified_webhook(verifier, guard=guard)
    def receive(webhook):
        handle(webhook.id, webhook.json())
        return "", 204
"""

from collections.abc import Callable
from contextlib import nullcontext
from functools import wraps
from typing import Any

from flask import Response, current_app, request
from werkzeug.exceptions import RequestEntityTooLarge

from signing.contrib.answers import ANSWERED, answer, check_present, is_failure, too_large
from signing.payload import VerifiedWebhook
from signing.replay import ReplayGuard
from signing.verifier import WebhookVerifier

View = Callable[..., Any]

_READ_BEFORE = (
    "`request.form`, `request.files` or `request.stream` was used before, in a before_request hook or an extension;"
    " verify first"
)


def verified(verifier: WebhookVerifier) -> VerifiedWebhook:
    """Verify the current request by its body as it came; `get_json()` may be called afterwards.

    Raises:
        VerificationError: it is not to be trusted; `http_status` is the answer.
        RawBodyError: somebody read the body before.
    """
    stated = request.content_length
    verifier.check_size(stated or 0)
    # One more, for a stream of unknown length ends at the limit without a word.
    most = verifier.max_body_bytes + 1
    request.max_content_length = most = min(request.max_content_length or most, most)
    try:
        body = request.get_data(cache=True)
    except RequestEntityTooLarge:
        raise too_large(most) from None
    check_present(body, stated, _READ_BEFORE)
    return verifier.verify(body, request.headers)


def verified_webhook(verifier: WebhookVerifier, *, guard: ReplayGuard | None = None) -> Callable[[View], View]:
    """Decorate a view: it is called with a verified webhook, before its other arguments; all else is answered here.

    With a `guard`, a repeat of what is done is answered 200 without a call of the view, one of what is in progress
    503; what the view answers with anything but 2xx, or fails at, is let in when it comes again.
    """

    def decorate(view: View) -> View:
        @wraps(view)
        def wrapper(*args: Any, **kwargs: Any) -> Response:
            try:
                webhook = verified(verifier)
                with nullcontext() if guard is None else guard.once(webhook) as turn:
                    response = current_app.make_response(current_app.ensure_sync(view)(webhook, *args, **kwargs))
                    if turn is not None and is_failure(response.status_code):
                        turn.release()
                    return response
            except ANSWERED as error:
                status, headers, text = answer(error)
                return Response(f"{text}\n", status, headers, content_type="text/plain; charset=utf-8")

        return wrapper

    return decorate
