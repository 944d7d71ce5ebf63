"""`tidings listen`: receive webhooks on this machine, verify them, print them, and play trouble if told to."""

from __future__ import annotations

import asyncio
import errno
import json
import re
import sys
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import click

from delivery.cli.options import Act
from delivery.cli.output import decoded, shown
from delivery.cli.parameters import DURATION
from delivery.cli.receiver import Answer, Request, Unreadable, receiving
from delivery.cli.signals import Stop, Stopped
from delivery.cli.verifying import key_texts, keyed, verifier_of
from signing import VerificationError, WebhookVerifier

#: Ids whose requests are counted; beyond it the oldest is forgotten.
IDS_KEPT = 10_000
#: Characters shown of a type, a subject or an id that a sender made up.
_SHOWN = 64
_MARGIN = " " * 10
#: Characters shown of a body.
_BODY_SHOWN = 16_384
_TOKENS = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """What to play, besides the answer that is due."""

    status: int | None = None  #: for every request, verified or not
    delay: timedelta = timedelta(0)
    retry_after: int | None = None  #: whole seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """One request, as it is printed. What the sender said is not escaped yet."""

    at: str  #: ISO 8601, UTC
    verified: bool | None  #: None = not checked, there was no secret
    code: str | None  #: why it is not verified
    reason: str | None  #: the same, for a person
    id: str | None  #: as claimed, verified or not
    type: str | None
    subject: str | None
    seen: int  #: requests with this id, this one included; 0 = no id
    bytes: int
    method: str
    target: str
    status: int  #: what it is answered


class Desk:
    """Judge each request, print it, answer it."""

    def __init__(self, verifier: WebhookVerifier | None, trouble: Trouble, *, as_json: bool, with_body: bool) -> None:
        self._verifier, self._trouble = verifier, trouble
        self._as_json, self._with_body = as_json, with_body
        self._seen: OrderedDict[str, int] = OrderedDict()
        self._explained: set[str] = set()
        self.counts: Counter[str] = Counter()
        self.repeats = 0
        self.closed = asyncio.Event()  #: set once nobody reads what is printed

    async def respond(self, request: Request) -> Answer:
        """Judge, print, wait if told to, answer."""
        code, reason, status = self._judge(request)
        answer = self._answer(status, reason)
        received = self._received(request, code, reason, answer.status)
        self.counts[code or ("verified" if self._verifier else "unchecked")] += 1
        self.repeats += received.seen > 1
        self._print(received, request.body if self._with_body else None)
        await asyncio.sleep(self._trouble.delay.total_seconds())
        return answer

    def refused(self, error: Unreadable) -> None:
        """Print what was no request."""
        self.counts["unreadable"] += 1
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        if self._as_json:
            line = {"at": now, "verified": False, "code": "unreadable", "reason": error.reason, "status": error.status}
            self._write(json.dumps(line))
        else:
            self._write(_row(now, "✗ unreadable", "red", error.status, None, error.reason))

    def summary(self) -> str:
        """Say in one line what came."""
        total = self.counts.total()
        parts = ", ".join(f"{count} {name}" for name, count in self.counts.most_common())
        again = f"; {self.repeats} came again" if self.repeats else ""
        return f"{total} request{'' if total == 1 else 's'}" + (f": {parts}{again}" if total else "")

    def _judge(self, request: Request) -> tuple[str | None, str | None, int]:
        """Return code and reason where it is not verified, and the status that is due."""
        if request.method != "POST":
            return "not_post", f"a webhook is a POST, not a {request.method}", 405
        if self._verifier is None:
            return None, None, 204
        try:
            self._verifier.verify(request.body, request.headers)
        except VerificationError as error:
            return error.code, str(error), error.http_status
        return None, None, 204

    def _answer(self, status: int, reason: str | None) -> Answer:
        trouble = self._trouble
        headers = (("allow", "POST"),) if status == 405 else ()
        if trouble.status is None:
            return Answer(status=status, headers=headers, body=f"{reason}\n".encode() if reason else b"")
        if trouble.retry_after is not None:
            headers = (*headers, ("retry-after", str(trouble.retry_after)))
        return Answer(status=trouble.status, headers=headers)

    def _received(self, request: Request, code: str | None, reason: str | None, status: int) -> Received:
        ids = request.values(b"webhook-id")
        id_ = ids[0].decode("latin-1") if ids else None
        said = _object(request.body)
        return Received(
            at=datetime.now(UTC).isoformat(timespec="milliseconds"),
            verified=None if self._verifier is None and code is None else code is None,
            code=code,
            reason=reason,
            id=id_,
            type=_text(said.get("type")),
            subject=_text(said.get("subject")),
            seen=self._count(id_),
            bytes=len(request.body),
            method=request.method,
            target=request.target,
            status=status,
        )

    def _count(self, id_: str | None) -> int:
        if id_ is None:
            return 0
        self._seen[id_] = self._seen.pop(id_, 0) + 1
        if len(self._seen) > IDS_KEPT:
            self._seen.popitem(last=False)
        return self._seen[id_]

    def _print(self, received: Received, body: bytes | None) -> None:
        if self._as_json:
            self._write(json.dumps(asdict(received) | ({} if body is None else {"body": decoded(body)})))
            return
        self._write(_line(received))
        if received.reason is not None and received.code not in self._explained:
            self._explained.add(received.code or "")
            self._write(_MARGIN + click.style(received.reason, dim=True))
        if body:
            for line in pretty(body).split("\n"):
                self._write(_MARGIN + line)

    def _write(self, line: str) -> None:
        try:
            click.echo(line)
        except BrokenPipeError:
            self.closed.set()


def pretty(body: bytes) -> str:
    """Lay a JSON body out, token by token as it came; anything else is shown as it is, escaped."""
    text = decoded(body)
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        lines = [shown(text[:_BODY_SHOWN])]
    else:
        lines = [shown(line) for line in _laid_out(text)[:_BODY_SHOWN].split("\n")]
    return "\n".join(lines) + (f"\n… of {len(body)} bytes" if len(text) > _BODY_SHOWN else "")


def _laid_out(text: str) -> str:
    depth, last, parts = 0, "", list[str]()
    for part in _TOKENS.findall(text):
        if part in ("]", "}"):
            depth -= 1
        opens, closes = last in ("{", "["), part in ("}", "]")
        if opens != closes or last == ",":  # neither an empty pair nor within a line
            parts.append("\n" + "  " * min(depth, 20))
        parts.append(": " if part == ":" else part)
        depth += part in ("[", "{")
        last = part
    return "".join(parts)


def _line(received: Received) -> str:
    if received.verified is None:
        verdict, style = "· unchecked", "yellow"
    elif received.verified:
        verdict, style = "✓ verified", "green"
    else:
        verdict, style = f"✗ {received.code}", "red"
    said = [received.id or "-", received.type or "-", received.subject or ""]
    if received.method != "POST":
        said.append(f"{received.method} {received.target}")
    line = _row(
        received.at, verdict, style, received.status, received.bytes, "  ".join(_short(each) for each in said if each)
    )
    if received.seen > 1:
        line += click.style(f"  seen {received.seen} times", fg="yellow")
    return line


def _row(at: str, verdict: str, style: str, status: int, size: int | None, rest: str) -> str:
    return "".join(
        (
            click.style(f"{datetime.fromisoformat(at).astimezone():%H:%M:%S}  ", dim=True),
            click.style(f"{verdict:<16}  ", fg=style),
            click.style(f"{status}  ", fg=style if status >= 400 else None),
            f"{'' if size is None else f'{size} B':>8}  ",
            rest,
        )
    )


def _short(text: str) -> str:
    escaped = shown(text)
    return escaped if len(escaped) <= _SHOWN else f"{escaped[: _SHOWN - 1]}…"


def _object(body: bytes) -> dict[str, Any]:
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


async def _listen(desk: Desk, *, host: str, port: int, introduce: Callable[[str], None]) -> None:
    """Listen until cancelled.

    Raises:
        BrokenPipeError: nobody reads what is printed any more.
        OSError: the port cannot be opened.
    """
    async with receiving(desk.respond, host=host, port=port, refused=desk.refused) as url:
        introduce(url)
        await desk.closed.wait()
    raise BrokenPipeError


def _introduce(url: str, *, has_secret: bool, err: bool) -> None:
    click.echo(f"Listening on {click.style(url, bold=True)}  Ctrl-C ends.", err=err)
    if not has_secret:
        click.echo("To register it:  " + click.style(f"tidings endpoints add {url}", bold=True), err=err)
        hint = "No secret, so nothing is verified: give the one that `endpoints add` shows, as --secret whsec_..."
        click.echo(click.style(hint, fg="yellow"), err=err)
    click.echo(err=err)


def _no_port(host: str, port: int, error: OSError) -> click.ClickException:
    if error.errno == errno.EADDRINUSE:
        return click.ClickException(f"port {port} of {host} is taken: choose another with --port, or 0 for a free one")
    if error.errno in (errno.EACCES, errno.EPERM):
        return click.ClickException(f"port {port} of {host} is not ours to open: choose one above 1023 with --port")
    return click.ClickException(f"cannot listen on {host}: choose an address of this machine with --host")


@click.command(cls=Act)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=8400, show_default=True, type=click.IntRange(0, 65_535), help="0 = one that is free.")
@keyed
@click.option("--status", type=click.IntRange(200, 599), help="Play trouble: answer every request so.")
@click.option("--delay", type=DURATION, default="0s", help="Play trouble: wait before answering, such as 2s.")
@click.option("--retry-after", type=click.IntRange(0), metavar="SECONDS", help="Send Retry-After along with --status.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
@click.option("--body", "with_body", is_flag=True, help="Print bodies too.")
def listen(
    host: str,
    port: int,
    secrets: tuple[str, ...],
    secret_file: Path | None,
    status: int | None,
    delay: timedelta,
    retry_after: int | None,
    as_json: bool,
    with_body: bool,
) -> None:
    """Receive webhooks here, verify and print them.

    A verified request is answered 204, any other 400 or 401. With --status, --delay and --retry-after it plays a
    receiver in trouble. Nothing is kept.
    """
    if retry_after is not None and status is None:
        raise click.UsageError("--retry-after goes with --status: 429 or 503")
    keys = key_texts(secrets, secret_file)
    verifier = verifier_of(keys) if keys else None
    trouble = Trouble(status=status, delay=delay, retry_after=retry_after)
    desk = Desk(verifier, trouble, as_json=as_json, with_body=with_body)
    introduce = partial(_introduce, has_secret=verifier is not None, err=as_json)
    try:
        with Stop() as stop:
            stop.run(_listen(desk, host=host, port=port, introduce=introduce))
    except Stopped as stopped:
        click.echo(f"\n{desk.summary()}", err=as_json)
        sys.exit(stopped.exit_code)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise _no_port(host, port, error) from None
