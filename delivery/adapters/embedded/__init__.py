"""A private PostgreSQL 18 from a wheel, for when nobody gave a database.

::

    server.py      EmbeddedPostgres: start or attach, take over, stop
    home.py        the state folder: whose it is, what is in it, where the socket lies, who may connect
    running.py     is a server alive on it, may I start one, and what did a dead one leave behind
    programs.py    PostgreSQL's programs: where they are, making a cluster, its settings
    account.py     the system account that the server runs as
    supervisor.py  the small process between owner and server (only ever run, as a script)
"""

from delivery.adapters.embedded.server import EmbeddedPostgres

__all__ = ["EmbeddedPostgres"]
