"""Filters on the command line: added, shown, tried, exported and imported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from .conftest import Cli, Receiver, eventually, lines, the_line

URL = "https://example.com/hook"
LARGE = "$.amount > 100 && $.currency == 'EUR'"


@pytest.fixture
def filtered(declared: Cli) -> Cli:
    """A subscription with a filter, and one without."""
    endpoint = declared.json("endpoints", "add", URL)["id"]
    declared("subscriptions", "add", "large", "*", "--endpoint", endpoint, "--filter", LARGE)
    declared("subscriptions", "add", "all", "*", "--endpoint", endpoint)
    return declared


def test_a_filter_is_shown_wherever_its_subscription_is(filtered: Cli, connection):
    every, large = filtered.json("subscriptions", "list")
    assert (every["filter"], large["filter"]) == (None, LARGE)
    assert LARGE in filtered("subscriptions", "list")
    endpoint = large["endpoint_id"]
    again = filtered("subscriptions", "add", "large", "*", "--endpoint", endpoint, "--filter", LARGE)
    assert lines(again)["filter"] == LARGE
    assert "filter" not in lines(filtered("subscriptions", "add", "all", "*", "--endpoint", endpoint))
    result = filtered.run("subscriptions", "add", "large", "*", "--endpoint", endpoint, "--filter", "$.amount")
    assert result.exit_code == 1
    assert "the name 'large' is taken" in the_line(result)
    assert filtered.json("subscriptions", "remove", "large", "--yes")["filter"] == LARGE
    kept = "SELECT what, after->>'filter', before->>'filter' FROM tidings.change WHERE subject = %s ORDER BY id"
    assert connection.execute(kept, [large["id"]]).fetchall() == [
        ("subscription.added", LARGE, None),
        ("subscription.removed", None, LARGE),
    ]


@pytest.mark.parametrize(("amount", "matches"), [(150, True), (50, False)])
def test_a_filter_is_tried_without_a_database(cli: Cli, tmp_path: Path, amount: int, matches: bool):
    data, file = f'{{"amount": {amount}, "currency": "EUR"}}', tmp_path / "data.json"
    file.write_text(data)
    offline = cli.having(TIDINGS_DATABASE_URL="host=/nowhere")
    args = ("subscriptions", "test-filter", LARGE)
    assert offline.json(*args, "--data", data) == {"filter": LARGE, "matches": matches}
    assert offline.json(*args, "--data-file", file)["matches"] is matches
    said = offline(*args, stdin=data)
    assert said.startswith("matches" if matches else "does not match")


def test_a_filter_goes_into_the_file_and_comes_back_from_it(filtered: Cli, tmp_path: Path):
    file, other = tmp_path / "setup.yaml", tmp_path / "other.yaml"
    filtered("endpoints", "export", file)
    document: dict[str, Any] = yaml.safe_load(file.read_text())
    [endpoint] = document["owners"]["default"]["endpoints"]
    assert [each.get("filter") for each in endpoint["subscriptions"]] == [None, LARGE]
    assert filtered.json("endpoints", "import", file)["changes"] == []

    def imported(**large: str) -> list[tuple[str, Any, Any]]:
        endpoint["subscriptions"][1] = {"name": "large", "patterns": ["*"]} | large
        other.write_text(yaml.safe_dump(document))
        found = filtered.json("endpoints", "import", other)["changes"]
        return [(each["action"], each["before"]["filter"], each["after"]["filter"]) for each in found]

    assert imported() == [], "what is not there stays as it is"
    assert imported(filter="$.amount > 5") == [("change", LARGE, "$.amount > 5")]
    assert imported(filter="") == [("change", "$.amount > 5", None)]
    assert imported(filter=LARGE) == [("change", None, LARGE)]
    endpoint["subscriptions"][1]["filter"] = "$.amount >"
    other.write_text(yaml.safe_dump(document))
    result = filtered.run("endpoints", "import", other)
    assert result.exit_code == 1
    assert "subscriptions[1]: the filter is not understood" in the_line(result)
    assert filtered.json("subscriptions", "list")[1]["filter"] == LARGE


def test_what_a_filter_wants_is_sent_and_the_rest_is_not(declared: Cli, receiver: Receiver):
    endpoint = declared.json("endpoints", "add", receiver.url)["id"]
    declared("subscriptions", "add", "large", "invoice.*", "--endpoint", endpoint, "--filter", "$.amount > 100")
    small, large = (
        declared.json("events", "record", "invoice.paid", "--data", f'{{"amount": {n}}}')["id"] for n in (50, 150)
    )
    with declared.running():
        eventually(lambda: [each["state"] for each in declared.json("deliveries", "list")] == ["completed"])
        eventually(lambda: declared.json("events", "show", small)["state"] == "relayed")
    assert [headers["webhook-id"] for headers, _ in receiver.received] == [large]
    assert "relayed; nobody subscribed to it, or no filter" in declared("events", "show", small)
