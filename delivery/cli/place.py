"""Where the database is, as a connection string that can be copied: never with a password."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

if TYPE_CHECKING:
    from delivery.app import App

#: How the platform itself uses a connection, which is nobody else's matter, and what an older libpq cannot read.
_OURS = {
    "connect_timeout",
    "fallback_application_name",
    "keepalives_idle",
    "keepalives_interval",
    "keepalives_count",
    "options",
    "passfile",
    "password",
    "sslcertmode",
    "sslpassword",
    "tcp_user_timeout",
}


async def place(app: App) -> str:
    """Return the connection string of the database that the app is on, without a password."""
    async with app.transaction() as tx:
        return connection_string(tx.info.get_parameters())


def connection_string(parameters: dict[str, str]) -> str:
    """Write libpq's parameters as a URL, without those that are secret or the platform's own."""
    left = {name: value for name, value in parameters.items() if name not in _OURS}
    user, database, host = left.pop("user", ""), left.pop("dbname", ""), left.pop("host", "")
    if host and not host.startswith(("/", "@")) and not set(host) & set(",:"):
        port = left.pop("port", "")
        where = quote(host, safe="") + (f":{port}" if port else "")
    else:  # a socket, several hosts, an IPv6 address: those stand in the query
        where, left = "", {"host": host} | left if host else left
    name = f"{quote(user, safe='')}@" if user else ""
    query = f"?{urlencode(left, quote_via=quote, safe='/')}" if left else ""
    return f"postgresql://{name}{where}/{quote(database, safe='')}{query}"
