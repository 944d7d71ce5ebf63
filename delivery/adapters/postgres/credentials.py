"""What an endpoint is sent with and keeps secret, as the bytes that are sealed: its headers and its TLS identity."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from uuid import UUID

from psycopg.rows import DictRow

from subscriptions.model import Endpoint, TlsIdentity, UnopenedHeaders

Headers = tuple[tuple[str, str], ...]
Credentials = tuple[Headers, TlsIdentity | None]

#: Seal or open the credentials of one endpoint: (bytes, owner_id, endpoint_id) -> bytes.
CredentialSeal = Callable[[bytes, str, UUID], bytes]


def sealed_credentials(endpoint: Endpoint, seal: CredentialSeal) -> bytes | None:
    """Seal what there is; what could not be opened is written back as it was."""
    if isinstance(endpoint.headers, UnopenedHeaders):
        return endpoint.headers.sealed
    if not endpoint.headers and not endpoint.tls:
        return None
    tls = asdict(endpoint.tls) if endpoint.tls else None
    plaintext = json.dumps({"headers": endpoint.headers, "tls": tls}).encode()
    return seal(plaintext, endpoint.owner_id, endpoint.id)


def opened_credentials(row: DictRow, open_sealed: CredentialSeal) -> Credentials:
    """Open what there is.

    Raises:
        SealError: the key is missing, or it does not belong there.
        ConfigurationError: there are no keys.
    """
    if row["credentials"] is None:
        return (), None
    found = json.loads(open_sealed(row["credentials"], row["owner_id"], row["id"]))
    headers = tuple((name, value) for name, value in found["headers"])
    return headers, None if found["tls"] is None else TlsIdentity(**found["tls"])
