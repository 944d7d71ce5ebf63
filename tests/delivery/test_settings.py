from __future__ import annotations

import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from delivery.errors import ConfigurationError, InvalidInput
from delivery.settings import LONGEST, Settings, default_home, duration, read_settings

SECRET = "swordfish"
DURATIONS = [name for name, field in Settings.model_fields.items() if isinstance(field.default, timedelta)]
NOBODY = 65534


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment that sets nothing of ours."""
    for name in Settings.model_fields:
        monkeypatch.delenv(f"TIDINGS_{name.upper()}", raising=False)


# Durations ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("5m", 300),
        ("2h", 7200),
        ("7d", 604_800),
        ("250ms", 0.25),
        ("30", 30),
        ("0", 0),
        ("1.5h", 5400),
        (" 10 s ", 10),
        ("3650d", LONGEST.total_seconds()),
    ],
)
def test_a_duration_is_read(text: str, seconds: float):
    assert duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "text", ["", " ", "s", "5x", "-5s", "+5s", "5 minutes", "1e3", "1h30m", "P1D", "00:05", "٣s", "nan", "5.s", ".5s"]
)
def test_what_is_no_duration_is_refused_with_an_example(text: str):
    with pytest.raises(InvalidInput, match="is no duration: write 90s, 5m, 2h, 7d or 250ms"):
        duration(text)


@pytest.mark.parametrize("text", ["3651d", "999999999999999999s"])
def test_a_duration_beyond_ten_years_is_refused(text: str):
    with pytest.raises(InvalidInput, match="ten years is the most"):
        duration(text)


def test_a_long_text_is_not_quoted_whole():
    with pytest.raises(InvalidInput) as refused:
        duration("9" * 100_000)
    assert len(str(refused.value)) < 200


# From the environment -----------------------------------------------------------------------------


def test_without_an_environment_the_defaults_hold():
    assert read_settings().lease == timedelta(seconds=30)


@pytest.mark.parametrize("name", DURATIONS)
def test_every_duration_is_read_from_its_variable(monkeypatch: pytest.MonkeyPatch, name: str):
    monkeypatch.setenv(f"TIDINGS_{name.upper()}", "1h")
    assert getattr(read_settings(), name) == timedelta(hours=1)


def test_every_state_is_kept_as_long_as_retention_says_unless_it_is_told_apart(monkeypatch: pytest.MonkeyPatch):
    month, week = timedelta(days=30), timedelta(days=7)
    assert set(read_settings().retention_by_state.values()) == {month}
    monkeypatch.setenv("TIDINGS_RETENTION", "7d")
    assert set(read_settings().retention_by_state.values()) == {week}
    monkeypatch.setenv("TIDINGS_RETENTION_DISCARDED", "never")
    monkeypatch.setenv("TIDINGS_RETENTION_CANCELLED", "")
    assert read_settings().retention_by_state == {"completed": week, "discarded": None, "cancelled": week}
    given = read_settings(retention="30d").retention_by_state
    assert given == {"completed": month, "discarded": None, "cancelled": month}
    assert read_settings().retention_jobs == timedelta(days=1)


@pytest.mark.parametrize("name", [name for name in DURATIONS if name.startswith("retention")])
@pytest.mark.parametrize("text", ["never", "Never", " NEVER "])
def test_never_is_for_good(monkeypatch: pytest.MonkeyPatch, name: str, text: str):
    monkeypatch.setenv(f"TIDINGS_{name.upper()}", text)
    assert getattr(read_settings(), name) is None


@pytest.mark.parametrize("name", sorted(Settings.model_fields))
def test_an_empty_variable_is_as_if_it_were_not_there(monkeypatch: pytest.MonkeyPatch, name: str):
    monkeypatch.setenv(f"TIDINGS_{name.upper()}", "")
    assert read_settings() == Settings()


def test_what_is_given_wins(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TIDINGS_OWNER", "environment")
    assert read_settings(owner="given").owner == "given"


def test_none_is_as_if_it_were_not_given(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TIDINGS_OWNER", "environment")
    assert read_settings(owner=None).owner == "environment"


def test_a_variable_without_our_prefix_is_not_read(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OWNER", "somebody else")
    assert read_settings().owner == "default"


def test_a_variable_of_ours_that_is_no_setting_is_left_alone(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TIDINGS_TEST_DATABASE_URL", "postgresql:///tests")
    assert read_settings().dsn is None


# Refusals -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        *((f"TIDINGS_{name.upper()}", "soon") for name in DURATIONS),
        *((f"TIDINGS_{name.upper()}", "0") for name in DURATIONS if name not in ("grace", "cooldown")),
        *((f"TIDINGS_{name.upper()}", "3651d") for name in DURATIONS),
        ("TIDINGS_SLOTS", "many"),
        ("TIDINGS_SLOTS", "0"),
        ("TIDINGS_SLOTS", "10001"),
        ("TIDINGS_POOL_SIZE", "3"),
        ("TIDINGS_POOL_SIZE", "1.5"),
    ],
)
def test_a_bad_value_is_refused_by_the_name_of_its_variable(monkeypatch: pytest.MonkeyPatch, variable: str, text: str):
    monkeypatch.setenv(variable, text)
    with pytest.raises(ConfigurationError, match=rf"^{variable}: "):
        read_settings()


def test_a_switch_that_is_neither_is_told_the_two_words(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TIDINGS_HTTPS_ONLY", "maybe")
    with pytest.raises(ConfigurationError, match=r"^TIDINGS_HTTPS_ONLY: it is neither true nor false"):
        read_settings()


def test_a_grace_of_nothing_is_accepted():
    assert read_settings(grace="0s").grace == timedelta()


@pytest.mark.parametrize("value", [timedelta(seconds=-1), timedelta(days=3651), timedelta()])
def test_a_duration_that_is_given_has_the_same_bounds(value: timedelta):
    with pytest.raises(ConfigurationError, match=r"^TIDINGS_LEASE: "):
        read_settings(lease=value)


def test_an_unknown_setting_is_refused_by_name():
    with pytest.raises(ConfigurationError, match=r"^TIDINGS_NO_SUCH: "):
        read_settings(no_such=1)


def test_settings_cannot_be_changed():
    with pytest.raises(ValueError, match="frozen"):
        read_settings().owner = "other"  # type: ignore[misc]


# Secrets ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["database_url", "keys", "egress_proxy"])
def test_a_secret_is_not_shown(name: str):
    found = read_settings(**{name: SECRET})
    assert SECRET not in f"{found!r} {found} {found.model_dump()} {found.model_dump_json()}"


@pytest.mark.parametrize("name", ["database_url", "keys", "egress_proxy"])
@pytest.mark.parametrize("wrong", [[SECRET], {SECRET: 1}, SECRET.encode() + b"\xff"])
def test_a_secret_that_is_refused_is_named_and_not_shown(name: str, wrong: Any):
    with pytest.raises(ConfigurationError, match=rf"^TIDINGS_{name.upper()}: ") as refused:
        read_settings(**{name: wrong})
    assert SECRET not in str(refused.value)


def test_a_secret_is_not_shown_when_another_value_is_refused():
    with pytest.raises(ConfigurationError) as refused:
        read_settings(database_url=f"postgresql://u:{SECRET}@h/d", slots=0)
    assert SECRET not in f"{refused.value} {refused.value.__cause__}"


def test_the_connection_string_is_there_for_connecting():
    assert read_settings(database_url="postgresql:///app").dsn == "postgresql:///app"
    assert read_settings(egress_proxy="http://p:3128").egress["proxy"] == "http://p:3128"


# Where the state lies -----------------------------------------------------------------------------


def home_of(user: int | None, **environment: str) -> str:
    """Return the state folder of an account with this environment, or why it has none."""
    script = (
        "import os, sys\n"
        "from delivery.errors import ConfigurationError\n"
        "from delivery.settings import default_home\n"
        "if sys.argv[1] != 'None': os.setuid(int(sys.argv[1]))\n"
        "try: print(default_home())\n"
        "except ConfigurationError as error: print(error)"
    )
    root = str(Path(__file__).parents[2])
    ended = subprocess.run(
        [sys.executable, "-c", script, str(user)],
        env={"PYTHONPATH": root, **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.strip()


@pytest.fixture
def user() -> int | None:
    """An account that is not root's: another one where the tests run as root, else ours."""
    return NOBODY if os.geteuid() == 0 else None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can ask as root")
def test_the_state_of_root_lies_in_var_lib():
    assert home_of(None, HOME="/somewhere/root", XDG_DATA_HOME="/elsewhere") == "/var/lib/tidings"


def test_the_state_of_a_user_lies_in_the_data_folder(user: int | None):
    assert home_of(user, HOME="/somewhere/ann") == "/somewhere/ann/.local/share/tidings"


def test_a_data_folder_of_the_users_choice_is_taken(user: int | None):
    assert home_of(user, HOME="/somewhere/ann", XDG_DATA_HOME="/data") == "/data/tidings"


def test_a_data_folder_that_is_not_absolute_is_passed_over(user: int | None):
    assert home_of(user, HOME="/somewhere/ann", XDG_DATA_HOME="data") == "/somewhere/ann/.local/share/tidings"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become an account that has no home")
def test_an_account_without_a_home_is_told_what_to_set():
    assert home_of(54_321).startswith("TIDINGS_HOME: ")


def test_a_folder_that_is_given_wins(tmp_path: Path):
    assert read_settings(home=tmp_path).home == tmp_path != default_home()
