"""Record events at a steady rate, in a process of its own: one event a transaction, its types in turn.

`python -m benchmarks.load DSN OWNER TYPES RATE SECONDS` prints as JSON how many were recorded, and how far it fell
behind. Its pace does not depend on how fast the platform is.
"""

from __future__ import annotations

import json
import re
import sys
import time

import psycopg

#: Where a payload says when it was recorded, on the clock that all processes of a machine share.
SENT_AT = re.compile(rb'"sent_at": ?([0-9.]+)')
_RECORD = "SELECT tidings.record(%s, %s, NULL, %s::json)"


def payload(sent_at: float) -> str:
    """Write a payload of about 500 bytes."""
    return json.dumps({"sent_at": sent_at, "text": "x" * 460})


def event_type(number: int) -> str:
    """Name the type that goes to one endpoint alone."""
    return f"bench.to_{number}"


def run(dsn: str, owner_id: str, types: int, rate: float, seconds: float) -> dict[str, float]:
    """Record until the time is over."""
    names = [event_type(number) for number in range(types)]
    behind = 0.0
    with psycopg.connect(dsn, autocommit=True) as connection:
        began = time.monotonic()
        for number in range(max(int(rate * seconds), 1)):
            due = began + number / rate
            if (early := due - time.monotonic()) > 0:
                time.sleep(early)
            now = time.monotonic()
            behind = max(behind, now - due)
            connection.execute(_RECORD, (owner_id, names[number % types], payload(now)), prepare=True)
    return {"recorded": number + 1, "behind_s": behind}


if __name__ == "__main__":
    print(json.dumps(run(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), float(sys.argv[5]))))
