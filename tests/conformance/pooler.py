"""PgBouncer in front of a server, where it is installed: each transaction gets whichever session is next."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

PGBOUNCER = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin")
WHY_NOT = "PgBouncer is not installed (Debian: apt install pgbouncer)"

#: Names its socket, in a place of its own: no port that somebody else may take meanwhile.
PORT = 6432
#: The clients' user name is ignored, everybody is the server's one; who comes next gets another session.
CONFIGURATION = """
[databases]
* = {server}
[pgbouncer]
listen_addr =
listen_port = {port}
unix_socket_dir = {home}
auth_type = any
pool_mode = {mode}
server_round_robin = 1
min_pool_size = 3
default_pool_size = 30
max_client_conn = 1000
"""


@contextmanager
def pooling(dsn: str, *, mode: str = "transaction") -> Iterator[str]:
    """Run PgBouncer before the server of a connection string; yields the same string by way of it."""
    assert PGBOUNCER, WHY_NOT
    parts = conninfo_to_dict(dsn)
    home = Path(tempfile.mkdtemp(prefix="tidings-pgbouncer-"))
    as_whom: dict[str, Any] = {}
    if os.geteuid() == 0:  # it refuses to run as root
        nobody = pwd.getpwnam("nobody")
        os.chown(home, nobody.pw_uid, nobody.pw_gid)
        as_whom = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
    server = " ".join(f"{name}={parts[name]}" for name in ("host", "port", "user", "password") if parts.get(name))
    configuration = home / "pgbouncer.ini"
    configuration.write_text(CONFIGURATION.format(server=server, home=home, port=PORT, mode=mode))
    through = make_conninfo("", host=str(home), port=PORT, user=parts.get("user"), dbname=parts.get("dbname"))
    with (home / "log").open("wb") as log:
        pgbouncer = subprocess.Popen([PGBOUNCER, configuration], stdout=log, stderr=log, cwd=home, **as_whom)
    try:
        _await_pooler(through, pgbouncer, home / "log")
        yield through
    finally:
        pgbouncer.send_signal(signal.SIGTERM)
        pgbouncer.wait(90)
        shutil.rmtree(home, ignore_errors=True)


def _await_pooler(dsn: str, pgbouncer: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 90
    while True:
        try:
            psycopg.connect(dsn).close()
        except psycopg.OperationalError:
            if time.monotonic() > deadline or pgbouncer.poll() is not None:
                raise AssertionError(log.read_text()) from None
            time.sleep(0.05)
        else:
            return
