from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest

from delivery.adapters.http import LOCAL, Guard, HttpChannel
from tests.delivery.adapters.http.authority import Authority

MakeChannel = Callable[..., HttpChannel]


@pytest.fixture
async def make_channel() -> AsyncIterator[MakeChannel]:
    """Make channels that may dial this machine, and close them at the end."""
    made: list[HttpChannel] = []

    def make(guard: Guard | None = None, **options: object) -> HttpChannel:
        made.append(HttpChannel(guard or Guard(allowed=LOCAL), **options))  # type: ignore[arg-type]  # as given
        return made[-1]

    yield make
    for channel in made:
        await channel.aclose()


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="session")
def other_authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("other-certificates"))
