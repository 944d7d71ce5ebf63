"""The key file of a state folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from delivery.adapters.keyfile import NAME, read_or_make
from delivery.errors import ConfigurationError


def test_a_key_is_made_once_and_for_its_account_only(tmp_path: Path) -> None:
    keys, made = read_or_make(tmp_path)
    again, made_again = read_or_make(tmp_path)
    assert (made, made_again) == (True, False)
    assert [key.id for key in keys] == [key.id for key in again]
    assert (tmp_path / NAME).stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == [NAME]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o666])
def test_a_file_that_is_open_to_others_is_refused(tmp_path: Path, mode: int) -> None:
    read_or_make(tmp_path)
    (tmp_path / NAME).chmod(mode)
    with pytest.raises(ConfigurationError, match=f"open to others: `chmod 600 {tmp_path / NAME}`"):
        read_or_make(tmp_path)


@pytest.mark.parametrize(
    ("content", "message"), [(b"", "is empty"), (b"\xff\xfe", "it is no text"), (b"tdk_nothing", "not 32 bytes long")]
)
def test_a_file_that_holds_something_else_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / NAME).touch(0o600)
    (tmp_path / NAME).write_bytes(content)
    with pytest.raises(ConfigurationError, match=message):
        read_or_make(tmp_path)


def test_a_folder_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / NAME).mkdir(0o700)
    with pytest.raises(ConfigurationError, match="cannot be used"):
        read_or_make(tmp_path)
