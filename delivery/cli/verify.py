"""`tidings verify`: does this request verify, and if not, why?"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click

from delivery.cli.failures import Failed
from delivery.cli.options import Act, printed
from delivery.cli.output import Form, instant_shown, moment, shown, write_fields, write_json, write_line
from delivery.cli.parameters import DURATION, HEADER, MOMENT
from delivery.cli.verifying import key_texts, keyed, verifier_of
from signing import (
    GITHUB,
    SHOPIFY,
    SLACK,
    STRIPE,
    SVIX,
    Diagnosis,
    InvalidKeyError,
    VerificationError,
    VerifiedWebhook,
    WebhookVerifier,
)

Pairs = tuple[tuple[str, str], ...]

_SENDERS = {"standard": None, "svix": SVIX, "stripe": STRIPE, "github": GITHUB, "slack": SLACK, "shopify": SHOPIFY}
#: Reasons whose remedy, in code, is an argument that is an option here.
_SAID_BY_FROM = ("other_family", "other_sender")
#: Bytes that are read of a request.
_MOST_READ = 64 * 1024 * 1024
#: So many seconds are any time.
_ANY_TIME = 1e12

_REQUEST_LINE = re.compile(rb"[A-Z]{3,10} \S+ HTTP/[0-9.]+")
_HEADER_LINE = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):(.*)")


@click.command(cls=Act)
@click.argument("request_file", type=click.Path(path_type=Path), required=False, metavar="[REQUEST]")
@keyed
@click.option("--from", "sender", type=click.Choice(list(_SENDERS)), default="standard", help="Who signed (standard).")
@click.option("-H", "--header", "headers", type=HEADER, multiple=True, metavar="'NAME: VALUE'", help="As in curl.")
@click.option("--header-file", type=click.Path(path_type=Path), help="Read the headers from a file, one a line.")
@click.option("-d", "--body", metavar="TEXT", help="The body, or @FILE, whose bytes are taken as they are.")
@click.option("--other", "others", multiple=True, metavar="KEY", help="Say if this key fits instead; repeatable.")
@click.option("--tolerance", type=DURATION, default="5m", help="How far its time may lie from ours (5m).")
@click.option("--at", type=MOMENT, metavar="WHEN", help="Verify as at that time.")
@click.option("--any-time", is_flag=True, help="Take any time: the request is an old one.")
@printed
def verify(
    request_file: Path | None,
    secrets: tuple[str, ...],
    secret_file: Path | None,
    sender: str,
    headers: Pairs,
    header_file: Path | None,
    body: str | None,
    others: tuple[str, ...],
    tolerance: timedelta,
    at: datetime | None,
    any_time: bool,
    form: Form,
) -> None:
    """Verify a request that was kept, and say why it does not verify, by trying.

    REQUEST is a file (or standard input) with headers, an empty line and the body, as a log or `curl -v` has them.
    With --header or --header-file it is the body alone, if --body does not give it. Exit code 1: it does not verify.
    """
    keys = key_texts(secrets, secret_file)
    if not keys:
        raise click.UsageError("give a key: --secret or --secret-file")
    tolerated = _ANY_TIME if any_time else max(0.0, tolerance.total_seconds())
    try:
        verifier = verifier_of(keys, reader=_SENDERS[sender], tolerance=tolerated, max_body_bytes=_MOST_READ)
    except click.BadParameter as error:
        if sender != "standard":
            raise
        more = "a secret of Stripe, GitHub, Slack or Shopify goes with --from"
        raise click.BadParameter(f"{error.message}; {more}", param_hint=error.param_hint) from None
    pairs, content = _request(request_file, headers, header_file, body)
    now = (at or datetime.now(UTC)).timestamp()
    try:
        webhook = verifier.verify(content, pairs, now=now)
    except VerificationError as error:
        _write_refused(error, _explained(verifier, content, pairs, others, now), form)
        raise Failed(f"the request does not verify ({error.code})") from None
    _write_verified(webhook, len(keys), form)


def _explained(
    verifier: WebhookVerifier, body: bytes, pairs: Pairs, others: Sequence[str], now: float
) -> list[Diagnosis]:
    named = {f"--other number {number}": key for number, key in enumerate(others, start=1)}
    try:
        return verifier.explain(body, pairs, now=now, other_keys=named)
    except InvalidKeyError as error:
        raise click.BadParameter(str(error), param_hint="--other") from None


# Reading ----------------------------------------------------------------------------------------------------------


def _request(file: Path | None, given: Pairs, header_file: Path | None, body: str | None) -> tuple[Pairs, bytes]:
    if not given and header_file is None:
        if body is not None:
            raise click.UsageError("--body goes with --header or --header-file: a whole request has its own")
        return parted(_read(file, "REQUEST"))
    pairs = given if header_file is None else (*given, *parted(_read(header_file, "--header-file"))[0])
    if body is None:
        return pairs, _read(file, "REQUEST")
    if file is not None:
        raise click.UsageError("REQUEST and --body are two bodies: give one of them")
    return pairs, _read(Path(body[1:]), "--body") if body.startswith("@") else body.encode("utf-8", "surrogateescape")


def parted(raw: bytes) -> tuple[Pairs, bytes]:
    """Part a request as it is written down into headers and body.

    A request line, and what `curl -v` puts in front of lines, is left out.

    Raises:
        BadParameter: a line before the first empty one is no header.
    """
    pairs: list[tuple[str, str]] = []
    at, number = 0, 0
    while at < len(raw):
        end = raw.find(b"\n", at)
        line, at = (raw[at:], len(raw)) if end < 0 else (raw[at:end], end + 1)
        number += 1
        line = re.sub(rb"^> ?", b"", line.rstrip(b"\r"))
        if not line:
            break
        if line.startswith((b"* ", b"< ", b"{ ", b"} ")) or _REQUEST_LINE.fullmatch(line):
            continue
        header = _HEADER_LINE.fullmatch(line)
        if header is None:
            raise click.BadParameter(
                f"line {number} is no header: an empty line stands before the body", param_hint="REQUEST"
            )
        pairs.append((header[1].decode("ascii"), header[2].strip().decode("latin-1")))
    return tuple(pairs), raw[at:]


def _read(file: Path | None, what: str) -> bytes:
    if file is None or str(file) == "-":
        if sys.stdin.isatty():
            raise click.UsageError(f"give {what} as a file, or on standard input")
        raw = sys.stdin.buffer.read(_MOST_READ + 1)
    else:
        try:
            with file.open("rb") as opened:
                raw = opened.read(_MOST_READ + 1)
        except OSError as error:
            raise click.BadParameter(f"{file} cannot be read: {error.strerror}", param_hint=what) from None
    if len(raw) > _MOST_READ:
        raise click.BadParameter(f"it is over {_MOST_READ} bytes", param_hint=what)
    return raw


# Printing ---------------------------------------------------------------------------------------------------------


def _write_verified(webhook: VerifiedWebhook, keys: int, form: Form) -> None:
    if form is Form.JSON:
        at = moment(webhook.timestamp)
        about = {"id": webhook.id, "timestamp": at, "scheme": webhook.scheme, "key": webhook.key_index + 1}
        write_json({"verified": True, **about})
        return
    which = f"number {webhook.key_index + 1} of {keys}" if keys > 1 else None
    at = None if webhook.timestamp is None else instant_shown(webhook.timestamp)
    write_line(click.style("✓ verified", fg="green"))
    write_fields([("id", webhook.id), ("signed", at), ("scheme", webhook.scheme), ("key", which)])


def _write_refused(error: VerificationError, reasons: Sequence[Diagnosis], form: Form) -> None:
    if form is Form.JSON:
        listed = [{"code": each.code, "message": each.message, "is_proven": each.is_proven} for each in reasons]
        write_json({"verified": False, "code": error.code, "message": str(error), "reasons": listed})
        return
    write_line(click.style(f"✗ {error.code}", fg="red") + f"  {shown(error)}")
    for each in reasons:
        if each.message != str(error):
            here = " (here: --from)" if each.code in _SAID_BY_FROM else ""
            write_line(f"  {'' if each.is_proven else 'perhaps: '}{shown(each.message)}{here}")
