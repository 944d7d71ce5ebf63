from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from delivery.adapters.http import LOCAL, Guard, HttpChannel, Limits
from tests.delivery.adapters.http.authority import Authority

MakeChannel = Callable[..., HttpChannel]


@pytest.fixture
async def make_channel() -> AsyncIterator[MakeChannel]:
    """Make channels that may dial this machine, however long that takes, and close them at the end."""
    made: list[HttpChannel] = []

    def make(guard: Guard | None = None, limits: Limits | None = None, **options: object) -> HttpChannel:
        patient = replace(limits or Limits(), connect=timedelta(seconds=60))
        channel = HttpChannel(guard or Guard(allowed=LOCAL), limits=patient, **options)  # type: ignore[arg-type]  # as given
        made.append(channel)
        return channel

    yield make
    for channel in made:
        await channel.aclose()


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="session")
def other_authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("other-certificates"))
