"""A delivery as the `curl` line that sends it again by hand, without what is secret. Pure."""

from __future__ import annotations

from shlex import quote

from delivery.envelope import attempt_headers, written
from delivery.events import Event
from subscriptions.model import Endpoint

#: Stands for the value of a header that the endpoint's owner gave: it may be a credential.
LEFT_OUT = "LEFT-OUT"
#: What is longer than this goes by way of standard input: Linux takes no argument above 128 KiB, in bytes.
MOST_ARGUED = 100_000
_ESCAPED = {ord("\\"): "\\\\", ord("%"): "%%", ord("'"): "\\047"}


def curl_line(event: Event, endpoint: Endpoint) -> str:
    """Return a line for any POSIX shell: the same address, headers and bytes, but for time stamp and signature.

    It prints what the receiver answers. Nothing of it acts on the terminal that shows it, whatever is in the event.
    """
    body, of_body = written(event, endpoint.format)
    hidden = [(name, LEFT_OUT) for name, _ in endpoint.headers]
    headers = attempt_headers(hidden, of_body, [("webhook-id", str(event.id))], user_agent="Tidings")
    options = " ".join(f"-H {quote(f'{name}: {value}')}" for name, value in headers)
    text = body.decode()
    if text.isprintable() and len(body) <= MOST_ARGUED:
        return f"curl -i --globoff -X POST {options} --data-binary {quote(text)} {quote(endpoint.url)}"
    octets = "".join(char if char.isprintable() else _octal(char) for char in text.translate(_ESCAPED))
    return f"printf -- '{octets}' | curl -i --globoff -X POST {options} --data-binary @- {quote(endpoint.url)}"


def _octal(char: str) -> str:
    return "".join(f"\\{octet:03o}" for octet in char.encode())
