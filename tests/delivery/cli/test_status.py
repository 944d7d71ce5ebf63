"""`tidings status` as a person and as monitoring read it."""

from __future__ import annotations

from pathlib import Path

from tests.delivery.cli.conftest import Cli, eventually, lines, the_line

RECORD = "SELECT tidings.record('default', 'invoice.paid', NULL, '1') FROM generate_series(1, %s)"
#: That no relay runs is an alert as well, once an event has waited for a while, as it has where the machine is slow.
RELAY = "INSERT INTO tidings.relay VALUES (1, now() + interval '1 hour')"


def codes(cli: Cli) -> list[str]:
    return [each["code"] for each in cli.json("status")["alerts"]]


def test_all_is_well_where_nothing_waits(standing: Cli):
    result = standing.run("status", "--check")
    assert result.exit_code == 0
    assert "alert" not in result.stdout
    told = lines(result.stdout)
    assert told["running"] == "0 relays, 0 workers"
    assert told["outbox"] == "no event waits for the relay"
    assert told["poisoned"] == "0 events that the relay gave up"
    assert told["due"] == "no job waits for a worker"
    assert told["discarded"] == "0 of 0 deliveries that ended within the last hour"
    assert told["clock"].startswith("the database's is ")
    assert "--json lists every table" in told["space"]


def test_the_document_has_every_figure(standing: Cli):
    status = standing.json("status")
    assert set(status) >= {"at", "clock_skew_s", "workers", "relays", "is_led", "holders", "default_partitions"}
    assert status["alerts"] == []
    tables = {each["name"]: each for each in status["tables"]}
    assert {"event", "job", "job_done", "attempt", "outbox"} <= set(tables)
    for table in tables.values():
        assert table["bytes"] == table["heap_bytes"] + table["index_bytes"] + table["toast_bytes"]
    [deliver] = [each for each in status["jobs"] if each["kind"] == "webhook.deliver"]
    assert deliver == {
        "kind": "webhook.deliver",
        "due": 0,
        "oldest_due": None,
        "last_hour": {"completed": 0, "discarded": 0, "cancelled": 0},
    }


def test_an_alert_is_a_line_and_an_exit_code_of_its_own(declared: Cli, connection):
    connection.execute(RELAY)
    connection.execute(RECORD, [1001])
    connection.execute(
        "UPDATE tidings.outbox SET failures = 5 WHERE event_id = (SELECT min(event_id::text) FROM tidings.outbox)::uuid"
    )
    assert codes(declared) == ["poisoned_events"]
    connection.execute(RECORD, [1])
    plain, checked = declared.run("status"), declared.run("status", "--check")
    assert (plain.exit_code, checked.exit_code) == (0, 3)
    assert checked.stderr == ""
    first, second = checked.stdout.splitlines()[:2]
    assert first.startswith("alert  waiting for the relay: 1001 events, the oldest for ")
    assert second.startswith("alert  given up by the relay: 1 event: `tidings events list --poisoned --any-owner`")
    document = declared.run("status", "--check", "--json")
    assert document.exit_code == 3
    assert document.stdout.startswith("{")


def test_work_that_nobody_comes_for_is_an_alert(declared: Cli, connection):
    connection.execute(RELAY)
    connection.execute(RECORD, [1])
    connection.execute("INSERT INTO tidings.lane (key) VALUES ('x')")
    connection.execute(
        "INSERT INTO tidings.job (kind, lane, args, max_attempts, run_at)"
        " SELECT 'webhook.deliver', id * 8 + 4, '{}', 1, now() - interval '1 min' FROM tidings.lane"
    )
    assert codes(declared) == ["no_worker"]
    assert lines(declared("status"))["due"].startswith("1 job waits for a worker, the oldest for 1 min")


def test_who_could_not_look_is_told_apart(cli: Cli):
    away = cli.having(TIDINGS_DATABASE_URL="postgresql://127.0.0.1:1/nowhere").run("status", "--check")
    assert away.exit_code == 1
    assert away.stdout == ""


def test_a_platform_that_runs_is_told(declared: Cli):
    with declared.running():
        status = eventually(
            lambda: declared.json("status"), lambda status: status["workers"] and status["relays"] and status["is_led"]
        )
        assert (status["workers"], status["relays"]) == (1, 1)
        told = "1 relay, 1 worker, one of them leads the periodic jobs"
        eventually(
            lambda: declared.run("status", "--check"),
            lambda result: (result.exit_code, lines(result.stdout)["running"]) == (0, told),
        )
        looks = eventually(
            lambda: {each["name"]: each["last_state"] for each in declared.json("status")["upkeep"]},
            lambda states: states and set(states.values()) == {"completed"},
        )
        assert {"tidings.outbox_sweep", "tidings.expired_leases", "tidings.endpoint_health"} <= set(looks)
    status = declared.json("status")
    assert (status["workers"], status["relays"], status["is_led"]) == (0, 0, False)
    assert status["alerts"] == []


def test_how_long_vacuum_may_be_held_back_is_a_setting(cli: Cli, connection):
    connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    connection.execute("SELECT count(*) FROM tidings.lane")
    try:
        assert codes(cli) == []
        [alert] = cli.having(TIDINGS_XMIN_ALERT="10ms").json("status")["alerts"]
        assert alert["code"] == "xmin_held"
        assert f"session {connection.info.backend_pid} of " in alert["message"]
        assert lines(cli("status"))["vacuum"].startswith("held back by session ")
    finally:
        connection.execute("ROLLBACK")


def test_a_folder_without_a_database_is_no_platform_that_is_well(home: Path):
    cli = Cli(environment={"TIDINGS_HOME": str(home)})
    assert f"there is no database in {home} yet" in the_line(asked := cli.run("status", "--check"))
    assert (asked.exit_code, home.exists()) == (1, False)
