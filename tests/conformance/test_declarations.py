"""Declarations: what cannot work is refused before anything starts."""

from __future__ import annotations

import pytest

from delivery.errors import ConfigurationError
from delivery.jobs import JobKind, Periodic, default_backoff

from .engine import Engine, Pace, seconds
from .kinds import kind

PULSE = Periodic(name="pulse", kind="work", every=seconds(1))


@pytest.mark.parametrize(
    ("kinds", "periodics"),
    [
        ((kind(), kind()), ()),
        ((kind(name=""),), ()),
        ((kind(limit=0),), ()),
        ((kind(max_attempts=0),), ()),
        ((kind(limit=2**31),), ()),
        ((kind(limit=True),), ()),
        ((kind(limit=1.0),), ()),
        ((kind(max_attempts=40_000),), ()),
        ((kind(max_attempts="5"),), ()),
        ((kind(name="x" * 256),), ()),
        ((kind(queue="x" * 256),), ()),
        ((kind(timeout=seconds(0)),), ()),
        ((kind(max_age=seconds(0)),), ()),
        ((kind(),), (PULSE, PULSE)),
        ((kind(name="other"),), (PULSE,)),
        ((kind(),), (Periodic(name="pulse", kind="work", every=seconds(0)),)),
        ((kind(),), (Periodic(name="", kind="work", every=seconds(1)),)),
    ],
    ids=[
        "kind-twice",
        "no-name",
        "limit",
        "max-attempts",
        "limit-too-high",
        "limit-no-int",
        "limit-float",
        "max-attempts-too-high",
        "max-attempts-no-int",
        "long-name",
        "long-queue",
        "timeout",
        "max-age",
        "periodic-twice",
        "no-kind",
        "every",
        "periodic-no-name",
    ],
)
async def test_a_bad_declaration_is_refused(
    engine: Engine, kinds: tuple[JobKind, ...], periodics: tuple[Periodic, ...]
):
    with pytest.raises(ConfigurationError):
        await engine.runtime(*kinds, periodics=periodics)


@pytest.mark.parametrize("pace", [Pace(slots=0), Pace(connections=1), Pace(lease=0.0), Pace(share_lease=0.0)])
async def test_settings_that_cannot_work_are_refused(engine: Engine, pace: Pace):
    with pytest.raises(ConfigurationError):
        await engine.running(kind(), pace=pace)


def test_the_default_backoff_doubles_from_a_second_to_a_quarter_of_an_hour():
    table = [default_backoff(spent).total_seconds() for spent in range(1, 13)]
    assert table == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900]
    assert default_backoff(1_000_000).total_seconds() == 900
