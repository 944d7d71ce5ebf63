"""What happens to bodies between signing and verifying, and what they were before it happened."""

import ast
import base64
import json
import unicodedata
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

_BOM = b"\xef\xbb\xbf"
_MOST_INFLATED = 4 * 1024 * 1024
_GO_ESCAPES = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}


@dataclass(frozen=True, slots=True)
class Altered:
    """One thing that may have happened to a body."""

    code: str
    message: str
    original: bytes  #: the body as it was before, if this did happen


def undone(body: bytes) -> Iterator[Altered]:
    """Yield every alteration that can be undone on this body, the likeliest first."""
    for code, message, undo in _ALTERATIONS:
        try:
            original = undo(body)
        except (ValueError, SyntaxError, RecursionError, MemoryError, zlib.error):
            continue
        if original != body:
            yield Altered(code, message, original)
    yield from _rewritten(body)


def restored(value: object) -> Iterator[Altered]:
    """Yield what the bytes may have been of which a framework made this value."""
    if isinstance(value, bytearray | memoryview):
        yield Altered("body_buffered", "the body is a buffer: pass bytes(buffer)", bytes(value))
    elif isinstance(value, str):
        for encoding in ("utf-8", "latin-1"):
            message = f"the body was decoded as {encoding}: pass the raw bytes instead"
            try:
                yield Altered("body_decoded", message, value.encode(encoding))
            except ValueError:
                continue
    else:
        for what, original in _written(value):
            message = f"the body was parsed, and had come {what}: verify the raw bytes before anything parses them"
            yield Altered("body_parsed", message, original)


def _rewritten(body: bytes) -> Iterator[Altered]:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return
    for what, original in _written(value):
        if original != body:
            message = (
                f"the body was parsed and written again; signed was JSON {what}: verify the raw bytes as they came"
            )
            yield Altered("body_rewritten", message, original)


def _written(value: Any) -> Iterator[tuple[str, bytes]]:
    for what, write in _WRITERS:
        try:
            yield what, write(value).encode("utf-8", "surrogatepass")
        except (TypeError, ValueError, RecursionError):
            continue


def _writer(*, ascii_only: bool, spaced: bool, sort: bool = False) -> Callable[[Any], str]:
    separators = None if spaced else (",", ":")
    return lambda value: json.dumps(value, ensure_ascii=ascii_only, separators=separators, sort_keys=sort)


#: How JSON is written here and there, the likeliest first.
_WRITERS: tuple[tuple[str, Callable[[Any], str]], ...] = (
    ("without spaces", _writer(ascii_only=False, spaced=False)),
    ("with spaces and \\u escapes (json.dumps)", _writer(ascii_only=True, spaced=True)),
    ("without spaces, with \\u escapes", _writer(ascii_only=True, spaced=False)),
    ("with spaces", _writer(ascii_only=False, spaced=True)),
    ("as PHP writes it", lambda value: _writer(ascii_only=True, spaced=False)(value).replace("/", "\\/")),
    ("as Go writes it", lambda value: _writer(ascii_only=False, spaced=False)(value).translate(_GO_ESCAPES)),
    ("without spaces, keys sorted", _writer(ascii_only=False, spaced=False, sort=True)),
    ("with spaces and \\u escapes, keys sorted", _writer(ascii_only=True, spaced=True, sort=True)),
    ("indented by 2", lambda value: json.dumps(value, ensure_ascii=False, indent=2)),
    ("indented by 4", lambda value: json.dumps(value, ensure_ascii=False, indent=4)),
)


def _normalised(form: Any) -> Callable[[bytes], bytes]:
    return lambda body: unicodedata.normalize(form, body.decode("utf-8")).encode("utf-8")


def _unwrapped(body: bytes) -> bytes:
    text = json.loads(body)
    return text.encode("utf-8") if isinstance(text, str) else body


def _unprinted(body: bytes) -> bytes:
    value = ast.literal_eval(body.decode("ascii")) if body.startswith((b"b'", b'b"')) else body
    return value if isinstance(value, bytes) else body


def _inflated(body: bytes) -> bytes:
    return zlib.decompressobj(wbits=47).decompress(body, _MOST_INFLATED)  # 47: gzip or zlib, by its head


_ADDED_END = "something added a line break at the end of the body (an editor, echo, a template): verify it as it came"
_LOST_END = "the body lost the line break at its end: something stripped it; verify it as it came"
#: (code, message, what the body was before)
_ALTERATIONS: tuple[tuple[str, str, Callable[[bytes], bytes]], ...] = (
    ("body_newline_added", _ADDED_END, lambda body: body.removesuffix(b"\n")),
    ("body_newline_added", _ADDED_END, lambda body: body.removesuffix(b"\r\n")),
    ("body_newline_lost", _LOST_END, lambda body: body + b"\n"),
    ("body_newline_lost", _LOST_END, lambda body: body + b"\r\n"),
    ("body_space_added", "the body has white space around it that was not signed", lambda body: body.strip()),
    (
        "body_bom_added",
        "the body begins with a byte order mark that was not signed: something saved it as text",
        lambda body: body.removeprefix(_BOM),
    ),
    (
        "body_bom_lost",
        "the body lost its byte order mark: something read it as text (utf-8-sig)",
        lambda body: body if body.startswith(_BOM) else _BOM + body,
    ),
    (
        "body_line_ends_changed",
        "the line ends of the body became CRLF: something handled it as text",
        lambda body: body.replace(b"\r\n", b"\n"),
    ),
    (
        "body_line_ends_changed",
        "the line ends of the body became LF: something handled it as text",
        lambda body: body.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n"),
    ),
    (
        "body_charset_changed",
        "the body was read as latin-1 and written as UTF-8: pass the raw bytes",
        lambda body: body.decode("utf-8").encode("latin-1"),
    ),
    (
        "body_charset_changed",
        "the body was read as UTF-8 and written as latin-1: pass the raw bytes",
        lambda body: body.decode("latin-1").encode("utf-8"),
    ),
    ("body_normalised", "the Unicode of the body was composed (NFC): pass the raw bytes", _normalised("NFD")),
    ("body_normalised", "the Unicode of the body was decomposed (NFD): pass the raw bytes", _normalised("NFC")),
    ("body_wrapped", "the body is a JSON string that holds what was signed: it was encoded twice", _unwrapped),
    (
        "body_base64",
        "the body is in base64, as gateways hand binary bodies over: decode it first",
        lambda body: base64.b64decode(body, validate=True),
    ),
    ("body_printed", "the body is how Python prints bytes, b'...': it went through str() or a log", _unprinted),
    (
        "body_printed_when_signed",
        "what was signed is how Python prints bytes, b'...': the sender must sign text, or use another library",
        lambda body: repr(body).encode("ascii"),
    ),
    ("body_compressed", "the body is compressed, and was signed before: decompress it first", _inflated),
)
