"""The zoo, open for the session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .open import Zoo


@pytest.fixture(scope="session")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zoo]:
    made = Zoo(tmp_path_factory.mktemp("zoo"))
    yield made
    made.close()
