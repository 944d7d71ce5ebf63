"""Bad input ends in one clear line and exit code 1 or 2, never a traceback, and changes nothing."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import pytest

from .conftest import Cli, fingerprint

NOBODYS = UUID("01890000-0000-7000-8000-000000000000")
URL = "https://example.com/hook"


@pytest.fixture(scope="module")
def made(standing: Cli) -> Cli:
    """A type, so that what is refused is not refused for the lack of one."""
    standing("event-types", "declare", "invoice.paid", "--exposure", "webhook")
    standing("event-types", "declare", "staff.hired")
    return standing


def check(made: Cli, refused: Callable[..., str], args: list[object], code: int, says: str, **given: object) -> None:
    before = fingerprint(made.environment["TIDINGS_DATABASE_URL"])
    line = refused(made, *args, code=code, **given)
    assert re.search(says, line), line
    assert fingerprint(made.environment["TIDINGS_DATABASE_URL"]) == before


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("not a url", "URL|url"),
        ("ftp://example.com/", "http"),
        ("https://", "host"),
        ("https://example.com:99999/", "port"),
        ("https://user:pass@example.com/", "user|password|credential"),
        ("", "URL|url|empty"),
    ],
)
def test_a_malformed_url_is_refused(made, refused, url: str, says: str):
    check(made, refused, ["endpoints", "add", url], 1, says)


@pytest.mark.parametrize(
    ("url", "switches"),
    [
        ("http://10.0.0.1/", r"tidings up --allow-local.*TIDINGS_ALLOW"),
        ("http://[::1]/", r"tidings up --allow-local.*TIDINGS_ALLOW"),
        ("http://169.254.169.254/", r"metadata, .* which is never dialled$"),
    ],
)
def test_a_url_that_is_not_allowed_is_refused_and_names_what_would_allow_it(made, refused, url: str, switches: str):
    check(made, refused, ["endpoints", "add", url], 1, rf"not allowed.*{switches}")


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ("{", r"no JSON.*line 1, column 2"),
        ("", "no JSON"),
        ("{'a': 1}", "no JSON"),
        ('{"a": NaN}', "NaN"),
        ('"a" "b"', "no JSON"),
        ("[" * 100_000, "nested too deeply"),
        (r'"\u0000"', r"\\u0000|NUL|cannot"),
    ],
)
def test_malformed_json_is_refused(made, refused, data: str, says: str):
    check(made, refused, ["events", "record", "invoice.paid", "--data", data], 1, says)


def test_data_that_is_not_utf_8_is_refused(made, refused):
    args = ["events", "record", "invoice.paid", "--data-file", "-"]
    check(made, refused, args, 1, r"not UTF-8 \(byte 2\)", stdin=b'{"\xff": 1}')


def test_a_payload_that_is_too_large_is_refused(made, refused):
    args = ["events", "record", "invoice.paid", "--data-file", "-"]
    check(made, refused, args, 1, "larger than 262144 bytes", stdin='"' + "x" * 262_144 + '"')


def test_data_given_twice_or_not_at_all_is_refused(made, refused, tmp_path: Path):
    file = tmp_path / "data.json"
    file.write_text("1")
    check(made, refused, ["events", "record", "invoice.paid"], 2, "--data JSON or as --data-file")
    args = ["events", "record", "invoice.paid", "--data", "1", "--data-file", file]
    check(made, refused, args, 2, "--data JSON or as --data-file")


def test_a_data_file_that_is_not_there_is_refused(made, refused, tmp_path: Path):
    args = ["events", "record", "invoice.paid", "--data-file", tmp_path / "gone"]
    check(made, refused, args, 2, "No such file")


@pytest.mark.parametrize("pattern", ["", ".invoice", "invoice..paid", "inv*ice", "a b", "x" * 300])
def test_a_malformed_pattern_is_refused(made, refused, pattern: str):
    check(made, refused, ["subscriptions", "add", "s", "--endpoint", NOBODYS, pattern], 1, "pattern")


@pytest.mark.parametrize(
    ("filter", "says"),
    [
        ("", "empty"),
        ("amount > 100", "not understood at character 1.*as in"),
        ("$.amount >", "not understood"),
        ("$.items[*].qty == 1", "not understood"),
        ("match($.a, '(a+)+$')", r"regular expressions \(match\) are not available"),
        ("$.a == 1.0e400", "larger than"),
        ("(" * 300 + "$.a" + ")" * 300, "nested too deeply"),
        ("$.a" * 400, "shorten it to 1000"),
        ("$.a" + " && $.a" * 60, "more than 100 parts|nested too deeply"),
        ("$.a\n", "one line"),
    ],
)
def test_what_is_no_filter_is_refused(made, refused, filter: str, says: str):
    check(made, refused, ["subscriptions", "add", "s", "--endpoint", NOBODYS, "*", "--filter", filter], 2, says)
    check(made, refused, ["subscriptions", "test-filter", filter, "--data", "1"], 2, says)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ("{", "no JSON"),
        ('{"a": NaN}', "NaN"),
        ("[" * 100_000, "nested too deeply"),
        ('"' + "x" * 262_144 + '"', "larger than 262144 bytes"),
        ("[" + "1," * 120_000 + "1]", "looks at more than 100000 values"),
    ],
)
def test_a_filter_is_tried_over_what_could_be_an_event(made, refused, data: str, says: str):
    check(made, refused, ["subscriptions", "test-filter", "$[?@ == 'x']"], 1, says, stdin=data)


def test_the_data_to_try_a_filter_over_is_given_once(made, refused, tmp_path: Path):
    (tmp_path / "data.json").write_text("1")
    args = ["subscriptions", "test-filter", "$.a", "--data", "1", "--data-file", tmp_path / "data.json"]
    check(made, refused, args, 2, "give one of them")


@pytest.mark.parametrize("text", ["", "soon", "-5s", "5 weeks", "1e9s", "99999d", "5s5s"])
def test_a_malformed_duration_is_refused(made, refused, text: str):
    check(made, refused, ["endpoints", "add", URL, f"--timeout={text}"], 2, "no duration|too long")


@pytest.mark.parametrize("text", ["", "yesterday", "2026-13-01", "2026-01-31T25:00:00Z", "-2h"])
@pytest.mark.parametrize("option", ["--since", "--until"])
def test_a_malformed_instant_is_refused(made, refused, option: str, text: str):
    check(made, refused, ["deliveries", "list", f"{option}={text}"], 2, "no instant")


def test_a_range_that_ends_before_it_begins_is_refused(made, refused):
    for command in (
        ["events", "list"],
        ["deliveries", "list"],
        ["deliveries", "replay"],
        ["replays", "start"],
        ["jobs", "list"],
    ):
        check(made, refused, [*command, "--since", "1h", "--until", "2h"], 1, "--since is not before --until")


@pytest.mark.parametrize("text", ["", "1", "not-an-id", f"{NOBODYS}0", "g" * 32])
@pytest.mark.parametrize("command", ["endpoints show", "endpoints remove", "events show", "events requeue"])
def test_a_malformed_uuid_is_refused(made, refused, command: str, text: str):
    check(made, refused, [*command.split(), text], 2, "no id.*UUIDs")


@pytest.mark.parametrize("text", ["", "0", "-1", "1.5", "x", "9" * 19, "9" * 100, "\u0661", str(NOBODYS)])
@pytest.mark.parametrize("command", ["deliveries show", "deliveries cancel", "jobs show", "jobs retry"])
def test_a_malformed_number_is_refused(made, refused, command: str, text: str):
    check(made, refused, [*command.split(), "--", text], 2, "no id.*numbers")


@pytest.mark.parametrize("owner", ["a b", "ä", "a\tb", "x" * 129, "a\x1b[31m"])
@pytest.mark.parametrize(
    "command", ["endpoints list", "events list", "deliveries list", "subscriptions list", f"endpoints add {URL}"]
)
def test_a_malformed_owner_is_refused(made, refused, command: str, owner: str):
    check(made, refused, [*command.split(), "--owner", owner], 1, r"--owner.*printable ASCII")


def test_a_malformed_owner_in_the_environment_is_refused(made, refused):
    check(made.having(TIDINGS_OWNER="a b"), refused, ["endpoints", "list"], 1, r"TIDINGS_OWNER.*printable ASCII")


@pytest.mark.parametrize("option", ["--owner", "--dsn", "--home"])
def test_an_empty_option_does_not_mean_some_other_place(made, refused, option: str):
    check(made, refused, ["endpoints", "list", option, ""], 2, "it is empty")
    check(made, refused, [option, "", "endpoints", "list"], 2, "it is empty")


@pytest.mark.parametrize(
    ("header", "code", "says"),
    [
        ("Authorization", 2, "'Name: value'"),
        (": x", 2, "'Name: value'"),
        ("Webhook-Id: 1", 1, "webhook-id|ours|reserved"),
        ("Content-Length: 1", 1, "content-length|ours|reserved"),
        ("X y: 1", 1, "name"),
        ("X: a\nb", 1, "value"),
        ("X: ä\x00", 1, "value"),
    ],
)
def test_a_malformed_header_is_refused_and_its_value_not_repeated(made, refused, header: str, code: int, says: str):
    check(made, refused, ["endpoints", "add", URL, "--header", header], code, f"(?i){says}")


def test_the_value_of_a_refused_header_is_never_printed(made):
    result = made.run("endpoints", "add", URL, "--header", "sesame-open", "--header", "Bad Name: sesame-open")
    assert result.exit_code == 2
    assert "sesame" not in result.stderr


@pytest.mark.parametrize(
    ("override", "code"), [("http_409", 2), ("=x", 2), ("http_200=permanent", 1), ("nonsense=delivered", 1)]
)
def test_a_bad_override_is_refused(made, refused, override: str, code: int):
    check(made, refused, ["endpoints", "add", URL, "--override", override], code, "override")


@pytest.mark.parametrize(("option", "value"), [("--limit", "0"), ("--limit", "1001"), ("--timeout", "31s")])
def test_a_value_out_of_range_is_refused(made, refused, option: str, value: str):
    check(made, refused, ["endpoints", "add", URL, option, value], 1, f"{option[2:]} of .* is not allowed")


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        (["--rate", "10"], 2, "'10' is no rate: write 10/s for ten a second, or 100/m for a hundred a minute"),
        (["--rate", "-1/s"], 2, "'-1/s' is no rate"),
        (["--rate", "1/h"], 2, "'1/h' is no rate"),
        (["--rate", "0/s"], 1, "a rate of 0/s is not allowed: give 1/m to 10000/s, or --no-rate for none"),
        (["--rate", "10001/s"], 1, "a rate of 10001/s is not allowed: give 1/m to 10000/s"),
        (["--rate", "1/s", "--burst", "0"], 1, "a burst of 0 is not allowed: give 1 to 10000"),
        (["--rate", "1/s", "--burst", "10001"], 1, "give 1 to 10000"),
        (["--burst", "5"], 2, "--burst goes with --rate: give both"),
    ],
)
def test_a_rate_that_cannot_be_is_refused_with_what_may_be(made, refused, args: list[str], code: int, says: str):
    check(made, refused, ["endpoints", "add", URL, *args], code, says)


def test_a_rate_and_none_contradict_each_other(made, refused):
    check(made, refused, ["endpoints", "update", NOBODYS, "--rate", "1/s", "--no-rate"], 2, "contradict each other")


def test_an_unknown_policy_is_refused_with_those_there_are(made, refused):
    check(made, refused, ["endpoints", "add", URL, "--policy", "eager"], 1, "no policy 'eager'.*standard, patient")


@pytest.mark.parametrize(
    "args",
    [
        ["events", "record", "invoice.lost", "--data", "{}"],
        ["events", "list", "--type", "invoice.lost"],
        ["deliveries", "list", "--type", "invoice.lost"],
        ["deliveries", "replay", "--type", "invoice.lost"],
    ],
)
def test_an_unknown_type_is_refused(made, refused, args: list[object]):
    check(made, refused, args, 1, r"invoice\.lost")


@pytest.mark.parametrize("type", ["", "invoice..paid", "invoice paid", "tidings.mine", "x" * 300, "a\x1b[31m"])
def test_a_type_that_cannot_be_declared_is_refused(made, refused, type: str):
    check(made, refused, ["event-types", "declare", type], 1, "type")


@pytest.mark.parametrize(
    "args", [["events", "record", "invoice.payd", "--data", "1"], ["events", "list", "--type", "invoice.payd"]]
)
def test_a_type_that_was_mistyped_is_guessed(made, refused, args: list[object]):
    guess = r"did you mean 'invoice.paid'\?.*`tidings event-types declare invoice.payd --exposure webhook`"
    check(made, refused, args, 1, guess)


def test_a_url_without_a_scheme_is_told_with_one(made, refused):
    check(made, refused, ["endpoints", "add", "127.0.0.1:8400"], 1, r"write http://127\.0\.0\.1:8400/ or https")


def test_durations_are_told_as_they_are_written(made, refused):
    endpoint = made.json("endpoints", "add", URL)["id"]
    check(
        made, refused, ["endpoints", "rotate-secret", endpoint, "--overlap", "8d"], 1, "overlap of 8d .* give 0 to 7d"
    )
    check(made, refused, ["endpoints", "update", endpoint, "--timeout", "60s"], 1, "timeout of 60s .* 0.1s to 30s")


def test_a_type_is_not_changed_by_accident(made, refused):
    check(
        made, refused, ["event-types", "declare", "invoice.paid"], 1, "is declared as webhook: alter it with --change"
    )


def test_an_unknown_kind_is_refused_with_those_there_are(made, refused):
    check(made, refused, ["jobs", "list", "--kind", "webhook.sent"], 1, "no jobs of kind.*webhook.deliver")


def test_an_unknown_periodic_is_refused(made, refused):
    check(made, refused, ["periodic", "run", "nightly"], 1, "nightly")


@pytest.mark.parametrize(
    "args",
    [
        ["endpoints", "show", NOBODYS],
        ["endpoints", "update", NOBODYS, "--limit", "5"],
        ["endpoints", "enable", NOBODYS],
        ["endpoints", "disable", NOBODYS],
        ["endpoints", "remove", NOBODYS, "--yes"],
        ["endpoints", "test", NOBODYS],
        ["endpoints", "rotate-secret", NOBODYS],
        ["subscriptions", "add", "s", "--endpoint", NOBODYS, "invoice.*"],
        ["deliveries", "list", "--endpoint", NOBODYS],
        ["deliveries", "replay", "--endpoint", NOBODYS],
    ],
)
def test_an_unknown_endpoint_is_not_found(made, refused, args: list[object]):
    check(made, refused, args, 1, f"owner 'default' has no endpoint {NOBODYS}: `tidings endpoints list`")


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["events", "show", NOBODYS], "no event"),
        (["events", "requeue", NOBODYS], "no event"),
        (["deliveries", "show", "7"], "no delivery 7"),
        (["deliveries", "retry", "7"], "no delivery 7"),
        (["deliveries", "cancel", "7"], "no delivery 7"),
        (["jobs", "show", "7"], "no job 7"),
        (["jobs", "retry", "7"], "no job 7"),
        (["jobs", "cancel", "7"], "no job 7"),
        (["subscriptions", "remove", "mine", "--yes"], "no subscription 'mine'"),
    ],
)
def test_what_is_not_there_is_not_found(made, refused, args: list[object], says: str):
    check(made, refused, args, 1, says)


def test_a_pattern_that_nothing_matches_is_refused(made, refused):
    endpoint = made.json("endpoints", "add", URL)["id"]
    args = ["subscriptions", "add", "s", "--endpoint", endpoint]
    check(made, refused, [*args, "order.*"], 1, r"order\.\*")
    check(made, refused, [*args, "staff.hired"], 1, "internal|exposure|webhook")
    check(made, refused, args, 2, "PATTERN")
    check(made, refused, ["endpoints", "update", endpoint], 2, "nothing to change")
    check(made, refused, ["endpoints", "rotate-secret", endpoint, "--overlap", "8d"], 1, "overlap")
    check(made, refused, ["endpoints", "update", endpoint, "--url", "http://10.0.0.1/"], 1, "not allowed")


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["nonsense"], "No such command 'nonsense'"),
        (["event-type"], "No such command 'event-type': did you mean 'event-types'"),
        (["deliveries", "replai"], "No such command 'replai': did you mean 'replay'"),
        (["deliveries", "nonsense"], "No such command"),
        (["events", "list", "--nonsense"], "No such option"),
        (["events", "list", "--limit", "0"], "--limit"),
        (["events", "list", "--json", "--jsonl"], "one of them"),
        (["deliveries", "list", "--state", "parked"], "--state"),
        (["deliveries", "replay", "--state", "running"], "--state"),
        (["endpoints", "show"], "Missing argument"),
        (["subscriptions", "add", "s", "invoice.*"], "--endpoint"),
        (["migrate", "--check", "--grant-record", "x"], "without it"),
        (["endpoints", "update", str(NOBODYS), "--no-headers", "--header", "A: b"], "contradict"),
        (["endpoints", "update", str(NOBODYS), "--no-tls", "--ca", "/dev/null"], "contradict"),
        (["endpoints", "add", "https://example.com/", "--basic", "a:b", "--bearer", "c"], "contradict"),
        (["endpoints", "add", "https://example.com/", "--basic", "ann"], "written USER:PASSWORD"),
        (["endpoints", "add", "https://example.com/", "--bearer", "a b"], "bearer token"),
        (["endpoints", "add", "https://example.com/", "--client-key", "/dev/null"], "--client-certificate"),
        (["endpoints", "add", "https://example.com/", "--ca", "/nowhere"], "cannot be read"),
        (["endpoints", "add", "https://example.com/", "--ca", "/bin/ls"], "PEM"),
        (["endpoints", "add", "https://example.com/", "--ca", "/dev/zero"], "too large"),
    ],
)
def test_wrong_usage_is_one_line_that_names_the_help(made, refused, args: list[object], says: str):
    check(made, refused, args, 2, rf"{says}.*\(see `tidings.* --help`\)")


def test_a_setting_in_the_environment_that_cannot_be_is_refused(made, refused):
    check(made.having(TIDINGS_LEASE="soon"), refused, ["endpoints", "list"], 1, "TIDINGS_LEASE.*no duration")
    check(made.having(TIDINGS_SLOTS="many"), refused, ["endpoints", "list"], 1, "TIDINGS_SLOTS")
    check(made.having(TIDINGS_ALLOW="here"), refused, ["endpoints", "list"], 1, "TIDINGS_ALLOW.*'here'")
    check(made.having(TIDINGS_PORTS="all"), refused, ["endpoints", "list"], 1, "TIDINGS_PORTS.*'all'")
    check(made.having(TIDINGS_EGRESS_PROXY="socks5://p"), refused, ["endpoints", "list"], 1, "egress proxy")


def test_a_key_used_for_other_content_is_refused(made, refused):
    args = ["events", "record", "invoice.paid", "--key", "k1", "--data"]
    made(*args, "1")
    check(made, refused, [*args, "2"], 1, "idempotency key|k1")
