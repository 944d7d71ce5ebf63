"""Receive webhooks with the standard library and `signing`: verify, handle each event once, answer by the result."""

import os
import re
import sqlite3
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from signing import VerificationError, VerifiedWebhook, WebhookVerifier

SECRETS = os.environ["WEBHOOK_SECRETS"].split()  # two of them while one is being rotated
DATABASE = os.environ.get("RECEIVED_DATABASE", Path(__file__).with_name("received.sqlite"))
PORT = int(os.environ.get("PORT", "8400"))
MAX_BYTES = 1024 * 1024

verifier = WebhookVerifier(*SECRETS)


class Receiver(BaseHTTPRequestHandler):
    """Answer a POST to any path."""

    timeout = 10  # seconds that a sender may be silent

    def do_POST(self) -> None:
        """Verify the body as it came, before anything parses it."""
        length = self.headers.get("content-length", "")
        if not re.fullmatch("[0-9]{1,9}", length):
            return self.answer(411)
        if int(length) > MAX_BYTES:
            return self.answer(413)
        try:
            webhook = verifier.verify(self.rfile.read(int(length)), self.headers)
        except VerificationError as error:
            print(f"refused: {error.code}", flush=True)
            return self.answer(error.http_status)
        handle_once(webhook)  # where it fails, the connection ends without an answer, and the event comes again
        return self.answer(204)

    def answer(self, status: int) -> None:
        """Send a status and no body."""
        self.send_response(status)
        self.end_headers()

    def log_request(self, *_about: object) -> None:
        """Print nothing: what was received is printed."""


def handle_once(webhook: VerifiedWebhook) -> None:
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


if __name__ == "__main__":
    with closing(sqlite3.connect(DATABASE)) as connection, connection:
        connection.execute("CREATE TABLE IF NOT EXISTS received (id TEXT PRIMARY KEY)")
    with ThreadingHTTPServer(("127.0.0.1", PORT), Receiver) as server:
        print(f"listening on http://127.0.0.1:{PORT}/", flush=True)
        server.serve_forever()
