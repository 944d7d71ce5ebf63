"""Metrics and health over HTTP: real processes, asked by clients of every sort."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import urllib.error
import urllib.request
from contextlib import closing
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from delivery.cli.beside import Heard
from delivery.cli.serving import LIMITS
from delivery.metrics import SLOTS, STALE, gauges

from .conftest import PATIENCE_S, Cli, Receiver, eventually, read_until
from .test_processes import children, gone
from .test_running import end, subscribed


def served(process: subprocess.Popen[str]) -> str:
    """Return the URL that a process says it serves at, once it is ready."""
    [line] = [line for line in read_until(process, "ready") if line.startswith("serve")]
    return line.split()[1].removesuffix("metrics")


def get(url: str, method: str = "GET") -> tuple[int, str, str]:
    """Return status, content type and text."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, method=method), timeout=PATIENCE_S) as answer:
            return answer.status, answer.headers["content-type"], answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers["content-type"], error.read().decode()


def samples(url: str) -> dict[tuple[str, ...], float]:
    """Scrape; returns every sample by its name and what its labels hold."""
    status, _, text = get(f"{url}metrics")
    assert status == 200
    families = text_string_to_metric_families(text)
    return {(each.name, *each.labels.values()): each.value for family in families for each in family.samples}


def ready(url: str) -> tuple[int, Any]:
    status, kind, text = get(f"{url}readyz")
    assert kind == "application/json"
    return status, json.loads(text)


@pytest.mark.parametrize("command", ["up", "relay", "worker"])
def test_a_process_tells_that_it_lives_and_is_ready(cli: Cli, command: str):
    process = cli.start(command, "--serve", "127.0.0.1:0")
    url = served(process)
    assert get(f"{url}healthz") == (200, "application/json", '{"alive": true}\n')
    assert eventually(lambda: ready(url), lambda said: said[0] == 200)[1] == {"ready": True, "reasons": []}
    assert get(f"{url}healthz", "HEAD")[::2] == (200, "")
    end(process, signal.SIGTERM)


def test_one_that_stops_is_not_ready_and_lives(cli: Cli, receiver: Receiver):
    subscribed(cli, receiver.url)
    receiver.hold.clear()
    process = cli.having(TIDINGS_GRACE="60s", TIDINGS_SERVE="127.0.0.1:0").start("up")
    url = served(process)
    cli("events", "record", "invoice.paid", "--data", "1")
    eventually(lambda: receiver.received)
    process.send_signal(signal.SIGTERM)
    status, said = eventually(lambda: ready(url), lambda said: said[0] == 503)
    assert (status, [reason["code"] for reason in said["reasons"]]) == (503, ["stopping"])
    assert get(f"{url}healthz")[0] == 200
    receiver.hold.set()
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0


def test_one_scrape_tells_of_all_processes_and_forgets_none_that_ended(cli: Cli, receiver: Receiver):
    subscribed(cli, receiver.url)
    process = cli.having(TIDINGS_GRACE="60s").start("up", "--processes", "3", "--serve", "127.0.0.1:0")
    url = served(process)
    eventually(lambda: samples(url)["tidings_processes",] == 3)
    assert samples(url)["tidings_slots",] == 600
    for _ in range(5):
        cli("events", "record", "invoice.paid", "--data", "1")
    delivered = ("tidings_attempts_total", "http_2xx", "delivered")
    eventually(lambda: samples(url).get(delivered) == 5)
    for pid in children(process.pid):
        os.kill(pid, signal.SIGKILL)
        eventually(lambda pid=pid: gone(pid))
    eventually(lambda: samples(url)["tidings_processes",] < 3)
    assert samples(url)[delivered] == 5
    eventually(lambda: samples(url)["tidings_processes",] == 3)
    assert samples(url)[delivered] == 5
    _, stderr = end(process, signal.SIGTERM)
    assert "unexpected" not in stderr


def test_no_worker_beside_another_takes_its_place(cli: Cli):
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        place = f"127.0.0.1:{free.getsockname()[1]}"
    process = cli.having(TIDINGS_SERVE=place).start("worker", "--processes", "2")
    url = served(process)
    assert url == f"http://{place}/"
    eventually(lambda: samples(url)["tidings_processes",] == 2)
    end(process, signal.SIGTERM)


def test_nothing_is_delivered_to_what_a_process_serves(cli: Cli):
    cli("event-types", "declare", "invoice.paid", "--exposure", "webhook")
    process = cli.start("up", "--serve", "localhost:0")
    url = served(process)
    endpoint = cli.json("endpoints", "add", f"{url}metrics", "--policy", "demo")["id"]  # this one cannot know of it
    cli("subscriptions", "add", "all", "invoice.*", "--endpoint", endpoint)
    cli("events", "record", "invoice.paid", "--data", "1")
    (delivery,) = eventually(lambda: cli.json("deliveries", "list", "--state", "discarded"))
    end(process, signal.SIGTERM)
    (attempt,) = cli.json("deliveries", "show", delivery["id"])["attempts"]
    assert attempt["code"] == "blocked_address"
    assert "a door of this platform itself" in attempt["detail"]


def test_an_endpoint_there_is_refused_where_the_place_is_known(cli: Cli):
    knowing = cli.having(TIDINGS_SERVE="127.0.0.1:9464")
    refused = knowing.run("endpoints", "add", "http://127.0.0.1:9464/metrics")
    assert (refused.exit_code, "a door of this platform itself" in refused.stderr) == (1, True)


def test_nothing_is_served_unless_it_is_asked_for(cli: Cli):
    process = cli.start("up")
    assert not [line for line in read_until(process, "ready") if line.startswith("serve")]
    end(process, signal.SIGTERM)


def test_a_place_that_is_taken_is_said_in_a_line(cli: Cli):
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        refused = cli.run("relay", "--serve", f"127.0.0.1:{port}")
    assert refused.exit_code == 1
    assert refused.stderr.startswith(f"tidings: cannot serve on 127.0.0.1 port {port} (")
    assert refused.stderr.endswith("): name another place\n")


@pytest.mark.parametrize("place", ["9464", ":9464", "127.0.0.1", "127.0.0.1:65536", "::1:9464", "http://x:1", "a b:1"])
def test_a_place_that_is_none_is_refused(cli: Cli, place: str):
    refused = cli.run("up", "--serve", place)
    assert refused.exit_code == 2
    assert "is no place to listen: write HOST:PORT" in refused.stderr
    by_environment = cli.having(TIDINGS_SERVE=place).run("relay")
    assert by_environment.exit_code == 1
    assert by_environment.stderr.startswith("tidings: TIDINGS_SERVE: ")


@pytest.mark.parametrize(
    ("request_text", "status"),
    [
        (b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", 200),
        (b"GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n", 404),
        (b"POST /metrics HTTP/1.1\r\nHost: x\r\n\r\n", 405),
        (b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx", 413),
        (b"POST /metrics HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n", 413),
        (b"GET /metrics HTTP/1.1\r\nX: " + b"x" * 40_000 + b"\r\n\r\n", 431),
        (b"\x16\x03\x01", 400),
        (b"nonsense\r\n\r\n", 400),
    ],
)
def test_a_request_of_any_sort_gets_one_answer_and_the_end(cli: Cli, request_text: bytes, status: int):
    with cli.running("relay", "--quiet", "--serve", "127.0.0.1:0") as process:
        [port] = ports(process)
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as client:
            client.sendall(request_text)
            answer = b""
            while read := client.recv(65_536):
                answer += read
        assert answer.startswith(b"HTTP/1.1 %d " % status)
        assert answer.count(b"HTTP/1.1 ") == 1
        assert b"connection: close\r\n" in answer


def ports(process: subprocess.Popen[str]) -> list[int]:
    """Return the ports that a process listens on, by the kernel's own record."""
    inodes = set()
    for name in os.listdir(f"/proc/{process.pid}/fd"):
        link = os.readlink(f"/proc/{process.pid}/fd/{name}")
        inodes |= {link[8:-1]} if link.startswith("socket:[") else set()
    with open(f"/proc/{process.pid}/net/tcp", encoding="ascii") as table:
        rows = [line.split() for line in table.readlines()[1:]]
    return [int(row[1].partition(":")[2], 16) for row in rows if row[3] == "0A" and row[9] in inodes]


def test_those_who_hold_on_keep_nobody_out_and_hold_nothing_up(cli: Cli, receiver: Receiver):
    subscribed(cli, receiver.url)
    process = cli.start("up", "--serve", "127.0.0.1:0")
    url = served(process)
    [port] = ports(process)
    held = [socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) for _ in range(4 * LIMITS.connections)]
    try:
        for number, each in enumerate(held[: len(held) // 2]):
            each.sendall(b"GET /metrics HTTP/1.1\r\nX-" if number % 2 else b"G")
    except OSError:
        pass  # it was cut for one who came later
    assert get(f"{url}healthz")[0] == 200
    eventually(lambda: ready(url)[0] == 200)
    cli("events", "record", "invoice.paid", "--data", "1")
    eventually(lambda: cli.json("deliveries", "list", "--state", "completed"))
    assert len(os.listdir(f"/proc/{process.pid}/fd")) < 4 * LIMITS.connections
    for each in held:
        each.close()
    end(process, signal.SIGTERM)


def test_gauges_of_a_process_that_went_silent_are_not_believed_and_its_counts_are():
    heard = Heard()
    heard._told[1] = (-1000.0, gauges((SLOTS, 100)) | {STALE.name: {"": [3.0]}})
    assert heard.numbers() == [{}, {STALE.name: {"": [3.0]}}]
