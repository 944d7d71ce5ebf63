"""The zoo, opened: the receivers in a process of their own, and the authority that they are known by."""

from __future__ import annotations

import datetime
import json
import subprocess
import sys
from pathlib import Path

from tests.delivery.adapters.http.authority import Authority

TOP = Path(__file__).parents[2]


class Zoo:
    """The receivers, each behind its port, in a process of their own; and the authority that they are known by."""

    def __init__(self, folder: Path) -> None:
        self.authority = Authority(folder)
        (folder / "authority.pem").write_text(self.authority.pem)
        self.authority.issue("127.0.0.1", file="good.pem")
        self.authority.issue("127.0.0.1", ends=-datetime.timedelta(days=1), file="expired.pem")
        self.authority.issue("other.example.com", file="other_name.pem")
        others = folder / "others"
        others.mkdir()
        Authority(others).issue("127.0.0.1", file="untrusted.pem").rename(folder / "untrusted.pem")
        self._keeper = subprocess.Popen(
            [sys.executable, "-W", "ignore::DeprecationWarning", "-m", "tests.zoo.keeper", str(folder)],
            cwd=TOP,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.ports: dict[str, int] = self._answer()

    def seen(self) -> dict[str, dict[str, int]]:
        """Return what each receiver saw so far: connections, requests, secrets, and connections open now."""
        assert self._keeper.stdin is not None
        self._keeper.stdin.write("\n")
        self._keeper.stdin.flush()
        return self._answer()

    def close(self) -> None:
        """Close it."""
        self._keeper.kill()
        self._keeper.wait()
        for stream in (self._keeper.stdin, self._keeper.stdout):
            assert stream is not None
            stream.close()

    def _answer(self) -> dict[str, dict[str, int]]:
        assert self._keeper.stdout is not None
        return json.loads(self._keeper.stdout.readline())
