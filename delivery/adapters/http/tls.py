"""What connections are made with: whom to trust, and what to show. One context for each identity."""

from __future__ import annotations

import asyncio
import os
import ssl
import tempfile
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager

import certifi

from delivery.errors import InvalidInput
from subscriptions.model import TlsIdentity

#: A context takes some 20 ms and a megabyte where the system's authorities are loaded, so some are kept, not all.
_KEPT = 64


def trusted_context(identity: TlsIdentity | None = None) -> ssl.SSLContext:
    """Make a context that trusts the system's certificates, or certifi's where the system has none.

    An identity's authorities are trusted in their place. `SSL_CERT_FILE`, `SSL_CERT_DIR` and `SSLKEYLOGFILE` are not
    consulted: trust is a setting, not an accident of a shell. TLS is 1.2 at least (source: RFC 8996).

    Raises:
        InvalidInput: certificate, key or authorities cannot be used; the message does not repeat them.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2  # some builds of Python leave that to the system's configuration
    context.hostname_checks_common_name = False  # source: RFC 9525
    context.set_alpn_protocols(["http/1.1"])
    if identity is None or identity.authorities is None:
        context.load_verify_locations(*_system())
    else:
        _trust(context, identity.authorities)
    if identity is not None and (identity.certificate is not None or identity.key is not None):
        _show(context, identity.certificate or "", identity.key or "")
    return context


def check_identity(identity: TlsIdentity) -> None:
    """Refuse an identity that no connection could be made with.

    Raises:
        InvalidInput: says what is wrong with it.
    """
    trusted_context(identity)


class Contexts:
    """Contexts by identity, the latest used kept. `standard` replaces ours for connections without an identity."""

    def __init__(self, standard: ssl.SSLContext | None = None) -> None:
        self._standard = standard
        self._kept: OrderedDict[TlsIdentity, ssl.SSLContext] = OrderedDict()

    async def get(self, identity: TlsIdentity | None) -> ssl.SSLContext:
        """Return the one context of an identity.

        Raises:
            InvalidInput: none can be made with it.
        """
        if identity is None:
            if self._standard is None:
                self._standard = trusted_context()
            return self._standard
        context = self._kept.pop(identity, None)
        if context is None:
            context = await asyncio.to_thread(trusted_context, identity)
        self._kept[identity] = context
        if len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        return context


def _system() -> tuple[str | None, str | None]:
    paths = ssl.get_default_verify_paths()
    cafile = paths.openssl_cafile if os.path.isfile(paths.openssl_cafile) else None
    capath = paths.openssl_capath if os.path.isdir(paths.openssl_capath) else None
    if cafile is None and (capath is None or not os.listdir(capath)):
        return certifi.where(), None
    return cafile, capath


def _trust(context: ssl.SSLContext, authorities: str) -> None:
    try:
        context.load_verify_locations(cadata=authorities)
    except (ssl.SSLError, ValueError):
        raise InvalidInput("the authorities cannot be read: give their certificates as PEM") from None


def _show(context: ssl.SSLContext, certificate: str, key: str) -> None:
    with _as_file(f"{certificate}\n{key}\n") as path:
        try:
            context.load_cert_chain(path, password=_refuse_to_ask)
        except (ssl.SSLError, OSError, ValueError):
            raise InvalidInput(
                "certificate and key cannot be used: give both as PEM, the key as the certificate's and not encrypted"
            ) from None


def _refuse_to_ask() -> str:
    """Answer in the place of a person, whom OpenSSL would ask at the terminal."""
    raise ValueError


@contextmanager
def _as_file(text: str) -> Iterator[str]:
    """Lend a path to a text that reaches no disk where the system can do so: `ssl` reads keys from paths only."""
    if hasattr(os, "memfd_create"):
        held = os.memfd_create("tidings", os.MFD_CLOEXEC)
        try:
            os.write(held, text.encode())
            yield f"/proc/self/fd/{held}"
        finally:
            os.close(held)
    else:
        with tempfile.NamedTemporaryFile("w") as file:
            file.write(text)
            file.flush()
            yield file.name
