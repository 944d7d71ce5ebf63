"""Steps that concern shards: who owns one, for how long, and who takes it over."""

from __future__ import annotations

from .lines import Call, Line, Outcome, Rows
from .state import Shard
from .table import HOUR, MARGIN, Table

#: Each of a shard of its own.
QUEUES = ("first", "second")
SET_SHARD = "UPDATE tidings.shard SET until = now() + %s WHERE id = %s"


class Owners(Table):
    """Workers that own shards, keep them, give them back, and fall silent."""

    def grab(self, worker: int, queue: int, *, hold: bool) -> None:
        shard = self.shards[queue]
        parameters = {"worker": worker, "lease_for": HOUR, "queues": [QUEUES[queue]], "want": 64}

        def judge(rows: Rows) -> Outcome:
            free = self.told.shards[shard].lease == "lapsed" and self.store.holder(("shard", shard)) is None
            assert [row["id"] for row in rows] == [shard] * free, "a shard was taken that was not free, or not taken"
            return self._own(shard, worker) if free else Outcome()

        self.start(Call(lambda line: line.rows("grab_shards", parameters), None, judge), hold=hold)

    def _own(self, shard: int, worker: int, lease: str = "fresh") -> Outcome:
        return Outcome(frozenset([("shard", shard)]), lambda: self.told.shards.update({shard: Shard(worker, lease)}))

    def keep(self, worker: int, queue: int, *, gives_back: bool, hold: bool) -> None:
        """Renew the lease of a shard, or give it back."""
        shard = self.shards[queue]
        parameters = {"worker": worker, "shards": [shard], "lease_for": HOUR}

        def run(line: Line) -> Rows:
            if not gives_back:
                return line.rows("renew_shards", parameters)
            return [{"count": line.connection.execute(line.texts("release_shards"), parameters).rowcount}]

        def judge(rows: Rows) -> Outcome:
            told = self.told.shards[shard]
            if gives_back:
                return self._own(shard, worker, "lapsed") if told.owner == worker else Outcome()
            can = told.owner == worker and told.lease != "lapsed"
            assert len(rows) == can, "a shard was renewed by another, or after its lease"
            return self._own(shard, worker) if can else Outcome()

        self.start(Call(run, ("shard", shard), judge), hold=hold)

    def age(self, queue: int, lease: str) -> None:
        """The owner of a shard is silent for almost as long as its lease, or for longer."""
        shard = self.shards[queue]
        if self.told.shards[shard].lease != "lapsed" and self.store.holder(("shard", shard)) is None:
            left = MARGIN / 2 if lease == "waning" else -MARGIN
            self.store.aside.execute(SET_SHARD, [left, shard])
            self.told.shards[shard] = Shard(self.told.shards[shard].owner, lease)
