"""What the demo prints: lines as things happen, tables in the end."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import timedelta

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from delivery.cli.demo.promises import Facts, Promise
from delivery.cli.demo.receivers import Received, Receiver
from delivery.jobs import JobRow, JobState
from subscriptions.model import Endpoint

_INDENT = 12
_STYLES = {JobState.COMPLETED: "green", JobState.DISCARDED: "red"}


class Stage:
    """Print the story on a console, with the time since it began."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._began = time.monotonic()

    @property
    def took(self) -> timedelta:
        """Return how long the story has taken until now."""
        return timedelta(seconds=time.monotonic() - self._began)

    def title(self, text: str) -> None:
        """Print the story's name."""
        self._put(Text(text, style="bold"))

    def act(self, number: int, text: str) -> None:
        """Begin an act."""
        self._put(Text())
        self._put(Text(f"{number}  {text}", style="bold"))

    def say(self, text: str | Text) -> None:
        """Print what happened just now."""
        self._put(Text.assemble((f"{self.took.total_seconds():>8.2f} s  ", "dim"), text))

    def cast(self, receiver: Receiver) -> None:
        """Introduce a receiver."""
        self._put(
            Text.assemble(" " * _INDENT, f"{receiver.name:<8}", receiver.url, ("  " + receiver.role.temper, "dim"))
        )

    def request(self, receiver: Receiver, received: Received) -> None:
        """Print a request, as its receiver saw it."""
        verdict = ("signature verified", "dim") if received.refusal is None else (received.refusal, "red")
        style = "green" if received.status < 300 else "yellow"
        number = "request refused" if received.refusal else f"request {len(receiver.received)}"
        line = Text.assemble(f"{receiver.name:<8}", ("← ", "dim"), (f"{number}, ", "dim"), verdict)
        line.append(f"{'':{max(1, 34 - len(line.plain) + 8)}}")
        self.say(line.append("answers ", style="dim").append(str(received.status), style=style))

    def ended(self, name: str, job: JobRow, *, waits: bool = False) -> None:
        """Print how a delivery stands once nothing more happens to it."""
        state = "parked" if job.parked else job.state.value
        tries = ", never sent" if not job.attempt else f" after {job.attempt} attempt{'' if job.attempt == 1 else 's'}"
        why = f": {job.reason}" if job.reason and job.state is JobState.DISCARDED else ""
        unsettled = "" if job.state.is_final or waits else " (still under way)"
        line = Text.assemble(f"{name:<8}", ("= ", "dim"), "delivery ", (state, _STYLES.get(job.state, "yellow")))
        self.say(line.append(f"{tries}{why}{unsettled}"))

    def disabled(self, name: str, endpoint: Endpoint) -> None:
        """Print that nothing is sent to an endpoint any more."""
        line = Text.assemble(f"{name:<8}", ("= ", "dim"), "endpoint ", ("disabled", "red"))
        self.say(line.append(f": {endpoint.state_reason}"))

    def finish(self, facts: Facts, promises: Sequence[Promise]) -> None:
        """Print what each endpoint got, and which promises were kept."""
        self._put(Text())
        self._table(_deliveries(facts))
        self._put(Text())
        self._table(_promises(promises))

    def end(self, text: str, *, good: bool) -> None:
        """Print the last line."""
        self._put(Text())
        self._put(Text(text, style="bold green" if good else "bold red"))

    def note(self, text: str) -> None:
        """Print an aside."""
        self._put(Text(text, style="dim"))

    def _table(self, table: Table) -> None:
        with self._console.capture() as capture:
            self._console.print(table)
        for line in capture.get().splitlines():
            text = Text.from_ansi(line)
            text.rstrip()
            self._put(text)

    def _put(self, line: Text) -> None:
        self._console.print(line, soft_wrap=True)


def _deliveries(facts: Facts) -> Table:
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    table.add_column("Endpoint")
    for placed in facts.placed:
        table.add_column(f"Order {placed.order_id}: answers")
        table.add_column("delivery")
    for name in facts.receivers:
        cells = [cell for placed in facts.placed for cell in (placed.answers(name) or "-", placed.state(name))]
        table.add_row(name, *cells)
    return table


def _promises(promises: Sequence[Promise]) -> Table:
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    table.add_column("Promise")
    table.add_column("", no_wrap=True)
    table.add_column("Seen", overflow="fold")
    for promise in promises:
        kept = Text("kept", style="green") if promise.kept else Text("broken", style="bold red")
        table.add_row(promise.says, kept, Text(promise.seen, style="" if promise.kept else "red"))
    return table
