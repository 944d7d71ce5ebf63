"""Starlette and FastAPI: a dependency that hands the endpoint what was verified.

::

    verifier = WebhookVerifier("whsec_...")
    guard = ReplayGuard(MemoryReplayStore())

    @app.post("/webhooks", status_code=204)
    async def receive(webhook: Annotated[VerifiedWebhook, Depends(verified_webhook(verifier, guard=guard))]) -> None:
        handle(webhook.id, webhook.json())

Declare no body, model or form beside it: FastAPI would parse it first. Where that must be, `signing.contrib.asgi`
stands before everything.
"""

from collections.abc import AsyncIterator, Callable

from starlette.exceptions import HTTPException
from starlette.requests import Request

from signing.contrib.answers import ANSWERED, answer, check_present, stated_length
from signing.errors import RawBodyError
from signing.payload import VerifiedWebhook
from signing.replay import ReplayGuard
from signing.verifier import WebhookVerifier

_READ_BEFORE = (
    "the body was read before it could be verified: a form parameter, `await request.form()` or a middleware that"
    " uses `request.stream()` took it; verify first, or use signing.contrib.asgi"
)


async def verified(request: Request, verifier: WebhookVerifier) -> VerifiedWebhook:
    """Read the body as it came, no more of it than the verifier takes, and verify it.

    The request keeps the bytes: `body()` and `json()` may be called afterwards.

    Raises:
        VerificationError: it is not to be trusted; `http_status` is the answer.
        RawBodyError: somebody read the body before.
    """
    return verifier.verify(await _raw_body(request, verifier), request.headers)


def verified_webhook(
    verifier: WebhookVerifier, *, guard: ReplayGuard | None = None
) -> Callable[[Request], AsyncIterator[VerifiedWebhook]]:
    """Return a FastAPI dependency that is a verified webhook, and answers any other request itself.

    With a `guard`, a repeat of what is done is answered 200 without a call of the endpoint, one of what is in
    progress 503. An endpoint that raises has it sent again. One that *returns* a response has handled it, whatever
    the status: a dependency does not see it (`signing.contrib.asgi` does).
    """

    async def webhook(request: Request) -> AsyncIterator[VerifiedWebhook]:
        try:
            found = await verified(request, verifier)
            if guard is None:
                yield found
            else:
                async with guard.once(found):
                    yield found
        except ANSWERED as error:
            status, headers, text = answer(error)
            raise HTTPException(status, text, headers) from None

    return webhook


async def _raw_body(request: Request, verifier: WebhookVerifier) -> bytes:
    stated = stated_length(request.headers.get("content-length"))
    verifier.check_size(stated or 0)
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            verifier.check_size(len(body))
    except RuntimeError as error:
        raise RawBodyError(_READ_BEFORE) from error
    check_present(bytes(body), stated, _READ_BEFORE)
    request._body = bytes(body)  # noqa: SLF001 - where body() keeps it; a stream can be read once only
    return bytes(body)
