"""What one try of a job looked like (port)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from delivery.values import valueclass


@valueclass
class Report:
    """What a handler has to say of one try."""

    outcome: str | None = None  #: as `Attempt.outcome`; None = what follows from how the handler ended
    code: str | None = None  #: short and stable, such as `http_503` or `timeout`
    rule: str | None = None  #: the classifier's row that decided
    status: int | None = None  #: of the response
    head: bytes | None = None  #: response head as received; hostile
    body: bytes | None = None  #: first bytes of the response body, raw; hostile
    detail: str | None = None  #: one line for a person, or a handler's output
    hung: bool = False  #: the other side let the try run into its timeout; not kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One try, as it was kept."""

    number: int  #: from 1, over the job's whole life
    started_at: datetime
    took_ms: int
    #: of deliveries `delivered`, `retryable`, `snoozed`, `permanent`, `ours`; of any job `completed`, `failed`,
    #: `discarded`, `cancelled`, `interrupted` (the process stopped), `lost` (it died)
    outcome: str
    report: Report
    next_at: datetime | None  #: when the next try was planned for
