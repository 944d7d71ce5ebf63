"""A receiver and a platform for each journey."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from .platform import Platform, platform_on
from .receivers import Receiver, receiving


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving() as receiver:
        yield receiver


@pytest.fixture
async def platform(dsn: str, receiver: Receiver) -> AsyncIterator[Platform]:
    async with platform_on(dsn, receiver) as platform:
        yield platform
