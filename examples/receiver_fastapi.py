"""Receive webhooks with FastAPI and `signing`: verify the raw body first, handle each event once."""

import os
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Annotated

from fastapi import Depends, FastAPI, HTTPException, Request

from signing import VerificationError, VerifiedWebhook, WebhookVerifier

SECRETS = os.environ["WEBHOOK_SECRETS"].split()  # two of them while one is being rotated
DATABASE = os.environ.get("RECEIVED_DATABASE", Path(__file__).with_name("received.sqlite"))

verifier = WebhookVerifier(*SECRETS)


@asynccontextmanager
async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
    """Make the table where it is missing."""
    with closing(sqlite3.connect(DATABASE)) as connection, connection:
        connection.execute("CREATE TABLE IF NOT EXISTS received (id TEXT PRIMARY KEY)")
    yield


app = FastAPI(lifespan=lifespan)


async def verified(request: Request) -> VerifiedWebhook:
    """Verify the body as it came: what FastAPI has parsed is no longer what was signed."""
    try:
        return verifier.verify(await request.body(), request.headers)
    except VerificationError as error:
        print(f"refused: {error.code}", flush=True)
        raise HTTPException(error.http_status, error.code) from None


@app.post("/", status_code=204)
def receive(webhook: Annotated[VerifiedWebhook, Depends(verified)]) -> None:
    """Handle an event unless it was handled before: its id is kept in the transaction that does the work."""
    with closing(sqlite3.connect(DATABASE)) as connection, connection:
        is_new = connection.execute("INSERT OR IGNORE INTO received (id) VALUES (?)", (webhook.id,)).rowcount == 1
        if is_new:
            handle(webhook)
    print("received" if is_new else "came again", webhook.id, flush=True)


def handle(webhook: VerifiedWebhook) -> None:
    """Do what the event is for; a type that means nothing here is no error."""
    event = webhook.json()
    if event["type"] == "order.placed":
        print(f"pack {event['data']['number']} x {event['data']['item']} for {event['subject']}", flush=True)
