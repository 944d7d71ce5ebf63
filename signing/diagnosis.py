"""Say why a request does not verify, by trying what usually goes wrong.

Each trial undoes one mistake, then one of the body and one of the key together, and looks whether a signature
matches; if one does, that was it. What no trial can undo is told from the headers: clocks, lengths, other senders.
"""

import base64
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain, product
from typing import Generic, TypeVar

from signing import alterations
from signing.errors import VerificationError
from signing.headers import MAX_SIGNATURE_CHARS, MAX_SIGNATURES, HeadersLike, pairs
from signing.keys import SigningSecret
from signing.readers import GITHUB, SHOPIFY, SLACK, STRIPE, SVIX, Claim, Key, Reader, TextSecret, standard
from signing.verifier import Diagnosis

T = TypeVar("T")

_STANDARD = standard()
_KNOWN = (_STANDARD, SVIX, STRIPE, GITHUB, SLACK, SHOPIFY)
#: Things that went wrong together; more is as likely to be another key.
_MOST_CHANGES = 2
#: Beyond this a number is no count of seconds: they reach it in the year 5138.
_MILLISECONDS = 10**11
#: What may be a signature, however it is introduced.
_SIGNATURE = re.compile(r"[A-Za-z0-9+/_-]{40,}={0,2}")
_COMPRESSED = {"gzip", "x-gzip", "deflate", "br", "zstd"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What is to be explained."""

    body: object  #: the bytes, or what a framework made of them
    headers: HeadersLike
    reader: Reader
    find_keys: Callable[[str | None, HeadersLike], Sequence[Key]]
    others: Mapping[str, Key]  #: keys that are not meant to match, by name
    now: float  #: seconds since 1970
    tolerance: float  #: in seconds


@dataclass(frozen=True, slots=True)
class _Try(Generic[T]):
    """One thing to try; with a reason where it is not what was given."""

    it: T
    why: Diagnosis | None = None


_Content = Callable[[bytes], bytes]


def diagnose(case: Case) -> list[Diagnosis]:
    """Return the reasons, the surest first, of a request that is known not to verify."""
    claim, reader, found = _claimed(case)
    if isinstance(case.body, bytes):
        found += _length(len(case.body), case.headers)
    else:
        found.append(
            _said("body_not_bytes", f"the body is {type(case.body).__name__}: pass the raw bytes as they came")
        )
    if claim is not None and reader is not None:
        found += _clock(claim, case)
        found += _matched(case, claim, reader)
    return sorted(dict.fromkeys(found), key=lambda each: not each.is_proven)


# What the headers show --------------------------------------------------------------------------------------------


def _claimed(case: Case) -> tuple[Claim | None, Reader | None, list[Diagnosis]]:
    """Read the headers by this reader; else as WSGI spells them, else as another sender's."""
    try:
        return case.reader.read(case.headers), case.reader, []
    except VerificationError as error:
        refused = _said(error.code, str(error))
    try:
        plain = [(_plain(name), value) for name, value in pairs(case.headers)]
    except VerificationError:
        return None, None, [refused]
    for reader in (case.reader, *_KNOWN):
        for headers, spelled in ((case.headers, []), (plain, [_SPELLED])):
            with suppress(VerificationError):
                claim = reader.read(headers)  # type: ignore[arg-type] # names that are no text stay as they are
                return (
                    claim,
                    reader if reader.name == case.reader.name else None,
                    [*spelled, *_other(reader, case.reader)],
                )
    return None, None, [refused]


def _plain(name: object) -> object:
    text = name.decode("latin-1") if isinstance(name, bytes) else name
    return text.lower().removeprefix("http_").replace("_", "-") if isinstance(text, str) else name


def _other(reader: Reader, wanted: Reader) -> list[Diagnosis]:
    if reader is wanted:
        return []
    if reader.name == wanted.name:
        how = 'header_prefixes=("webhook-", "svix-")'
        return [_said("other_family", f"the headers are of the other family, webhook- or svix-: verify with {how}")]
    how = "no reader" if reader.name == _STANDARD.name else f"reader={reader.name.upper()}"
    return [_said("other_sender", f"these are the headers of {reader.name}: verify with {how}")]


def _clock(claim: Claim, case: Case) -> Iterator[Diagnosis]:
    if claim.timestamp is None:
        return
    seconds = int(claim.timestamp)
    if seconds >= _MILLISECONDS:
        yield _said("timestamp_in_milliseconds", "the timestamp counts milliseconds: the sender must send seconds")
    elif case.now - seconds > case.tolerance:
        yield _said(
            "timestamp_too_old",
            f"it was signed {_span(case.now - seconds)} ago: it came late (a saved or repeated request),"
            " or this clock is ahead by as much",
        )
    elif seconds - case.now > case.tolerance:
        yield _said(
            "timestamp_too_new",
            f"it was signed {_span(seconds - case.now)} in the future: your clock is behind by as much,"
            " or the sender's is ahead",
        )


def _length(size: int, headers: HeadersLike) -> Iterator[Diagnosis]:
    said = _value(headers, "content-length")
    length = int(said) if re.fullmatch("[0-9]{1,15}", said, re.ASCII) else None
    if not size and length:
        yield _said(
            "body_consumed",
            f"the body is empty, and Content-Length says {length}: a form parser or middleware read it before",
        )
    elif length is not None and length != size:
        yield _said(
            "body_length_differs", f"the body has {size} bytes, and Content-Length says {length}: it was changed"
        )
    elif not size and "form" in _value(headers, "content-type"):
        yield _said("body_consumed", "the body is empty: a form parser may have read it before", is_proven=False)
    if _value(headers, "content-encoding").strip().lower() in _COMPRESSED:
        why = "the request came compressed: verify what the sender signed, which may be the body before or after"
        yield _said("body_decompressed", why, is_proven=False)


def _value(headers: HeadersLike, name: str) -> str:
    with suppress(VerificationError):
        for each, value in pairs(headers):
            if _plain(each) == name:
                return value.decode("latin-1") if isinstance(value, bytes) else str(value)
    return ""


# What a trial shows -----------------------------------------------------------------------------------------------


def _matched(case: Case, claim: Claim, reader: Reader) -> Iterator[Diagnosis]:
    own = case.find_keys(claim.id, case.headers)
    signatures = [*dict.fromkeys(chain.from_iterable(map(_rewritten, _signatures(case.headers))))]
    trials = product(_bodies(case.body), _ways(claim, reader), _candidates(own, case.others))
    for body, way, candidate in sorted((each for each in trials if _changes(each) <= _MOST_CHANGES), key=_changes):
        content = way.it(body.it)
        if candidate.it.verifies(content, signatures):
            undone = [why for why in (body.why, way.why, candidate.why) if why is not None]
            if not candidate.it.verifies(content, claim.of(candidate.it.scheme)):
                undone.append(_SIGNATURE_FORMAT)
            yield from undone or [_said("signature_matches", "the signature itself is right, for this body and key")]
            return
    yield from _unmatched(claim, own)


def _changes(trial: tuple[_Try[bytes], _Try[_Content], _Try[Key]]) -> int:
    return sum(each.why is not None for each in trial)


def _bodies(body: object) -> Iterator[_Try[bytes]]:
    if isinstance(body, bytes):
        yield _Try(body)
    altered = alterations.undone(body) if isinstance(body, bytes) else alterations.restored(body)
    for each in altered:
        yield _Try(each.original, _said(each.code, each.message))


def _ways(claim: Claim, reader: Reader) -> Iterator[_Try[_Content]]:
    yield _Try(lambda body: reader.content(claim, body))
    if claim.id is None or claim.timestamp is None:
        return
    stamp = claim.timestamp.encode("ascii")
    yield _Try(
        lambda body: stamp + b"." + body,
        _said("signed_without_id", "the sender signed the time and the body without the id: it must sign id.time.body"),
    )
    yield _Try(
        lambda body: body,
        _said("signed_body_only", "the sender signed the body alone: it must sign id.time.body"),
    )
    if int(stamp) >= _MILLISECONDS:
        in_seconds = replace(claim, timestamp=str(int(stamp) // 1000))
        yield _Try(
            lambda body: reader.content(in_seconds, body),
            _said("timestamp_in_milliseconds", "the sender signed seconds, and sent milliseconds along"),
        )


def _candidates(own: Iterable[Key], others: Mapping[str, Key]) -> Iterator[_Try[Key]]:
    for key in own:
        yield _Try(key)
    for name, key in others.items():
        yield _Try(key, _said("other_key", f"it was signed with the key of {name}, not with the one given"))
    for key in own:
        if isinstance(key, SigningSecret):
            yield from _misread(key)


def _misread(key: SigningSecret) -> Iterator[_Try[Key]]:
    text = key.reveal()
    how = "as it is written, without decoding it: it must decode the base64 after whsec_"
    for secret, code, what in (
        (text.removeprefix(key.prefix), "key_not_decoded", "the secret"),
        (text, "key_prefix_kept", "the secret, whsec_ included,"),
    ):
        yield _Try(TextSecret(secret, key.scheme, _base64), _said(code, f"the sender used {what} {how}"))


def _signatures(headers: HeadersLike) -> Iterator[str]:
    """Find all that may be a signature in the headers that are for signatures."""
    with suppress(VerificationError):
        for name, value in pairs(headers):
            plain = _plain(name)
            if isinstance(plain, str) and ("signature" in plain or "hmac" in plain):
                text = value.decode("latin-1") if isinstance(value, bytes) else str(value)
                yield from _SIGNATURE.findall(text[:MAX_SIGNATURE_CHARS])[:MAX_SIGNATURES]


def _rewritten(text: str) -> Iterator[str]:
    """Write a signature as it is found, and as it would be in the standard form."""
    yield text
    padded = text.replace("-", "+").replace("_", "/").rstrip("=")
    yield padded + "=" * (-len(padded) % 4)
    if re.fullmatch("[0-9a-fA-F]{64}", text):
        yield text.lower()
        yield _base64(bytes.fromhex(text))


def _unmatched(claim: Claim, own: Sequence[Key]) -> Iterator[Diagnosis]:
    theirs = {scheme for scheme, _ in claim.signatures}
    ours = {key.scheme for key in own}
    if theirs and ours and not theirs & ours:
        which = {"v1": "its shared secret (whsec_)", "v1a": "its public key (whpk_)"}
        wanted = " or ".join(which[scheme] for scheme in sorted(theirs) if scheme in which) or "another key"
        yield _said("other_scheme", f"no signature is of the scheme of the keys given: ask the sender for {wanted}")
    elif not own:
        yield _said("no_keys", "no key was found for this request: is its sender known?")
    else:
        what = "nothing that was tried makes a signature match: the key is another sender's, or the body was changed"
        yield _said("no_match", what, is_proven=False)


def _base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode("ascii")


def _span(seconds: float) -> str:
    for unit, size in (("days", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 10 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def _said(code: str, message: str, *, is_proven: bool = True) -> Diagnosis:
    return Diagnosis(code=code, message=message, is_proven=is_proven)


_SPELLED = _said(
    "header_names_altered", "the headers are named as WSGI names them (HTTP_...): pass the request's headers"
)
_SIGNATURE_FORMAT = _said(
    "signature_format", "the signature is right, but not written as the scheme, a comma and padded standard base64"
)
