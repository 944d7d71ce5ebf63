"""Every outcome has one row, and every row says what the design says."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delivery.channels import Fault, FaultCode, PermanentError, Reply, RetryableError
from delivery.classifier import (
    OVERRIDES,
    TABLE,
    Again,
    Delivered,
    Ours,
    Permanent,
    Retryable,
    Snoozed,
    Verdict,
    check_overrides,
    classify,
)
from delivery.errors import InvalidInput
from subscriptions.model import ClientErrors

STATUSES = range(100, 1000)


def reply(status: int, **headers: str) -> Reply:
    pairs = ((name.replace("_", "-").encode(), value.encode()) for name, value in headers.items())
    return Reply(status=status, headers=tuple(pairs))


def shape(verdict: Verdict) -> str:
    """Name what a verdict asks for, without its code and rule."""
    match verdict:
        case Delivered(disable=disable):
            return "delivered+disable" if disable else "delivered"
        case Retryable(ladder=ladder, counts=counts):
            return f"{ladder}{'' if counts else ' uncounted'}"
        case Permanent(disable=disable):
            return "permanent+disable" if disable else "permanent"
        case _:
            return type(verdict).__name__.lower()


#: The table of the design, written once more by hand: status -> class.
PERMANENT = {400, 402, 405, 406, *range(411, 419), 422, 426, 428, 431, 451, 501, 505}


def expected(status: int) -> str:
    if status < 200 or status >= 600 or status in {408, 425}:
        return "full"
    if status == 429:
        return "snoozed"
    if status == 410:
        return "permanent+disable"
    if status in PERMANENT:
        return "permanent"
    return {2: "delivered", 3: "permanent", 4: "short", 5: "full"}[status // 100]


@pytest.mark.parametrize("hundred", range(100, 1000, 100))
def test_every_status_has_the_class_of_the_design(hundred: int) -> None:
    for status in range(hundred, hundred + 100):
        verdict = classify(reply(status))
        assert (status, shape(verdict)) == (status, expected(status))
        assert verdict.code == f"http_{status}"


FAULTS = {
    FaultCode.TIMEOUT: "full",
    FaultCode.CONNECT_TIMEOUT: "full",
    FaultCode.CONNECTION_REFUSED: "full",
    FaultCode.CONNECTION_CLOSED: "full",
    FaultCode.CONNECTION_RESET: "full",
    FaultCode.CONNECTION_REUSED_CLOSED: "again",
    FaultCode.UNREACHABLE: "full",
    FaultCode.DNS_NOT_FOUND: "full",
    FaultCode.DNS_TEMPORARY: "full uncounted",
    FaultCode.TLS_EXPIRED: "full",
    FaultCode.TLS_HOSTNAME: "full",
    FaultCode.TLS_UNTRUSTED: "full",
    FaultCode.TLS_ERROR: "full",
    FaultCode.PROTOCOL_ERROR: "full",
    FaultCode.HTTP2_ANSWERED: "full",
    FaultCode.UPGRADE_ANSWERED: "full",
    FaultCode.INTERIM_FLOOD: "full",
    FaultCode.HEAD_TOO_LARGE: "full",
    FaultCode.HEAD_INCOMPLETE: "full",
    FaultCode.BLOCKED_ADDRESS: "permanent",
    FaultCode.INVALID_URL: "permanent",
    FaultCode.INVALID_HEADERS: "permanent",
    FaultCode.PROXY_REFUSED: "full uncounted",
    FaultCode.PROXY_FAILED: "ours",
    FaultCode.CHANNEL_BUSY: "ours",
    FaultCode.UNREADABLE_KEY: "ours",
    FaultCode.INTERNAL_ERROR: "ours",
}


@pytest.mark.parametrize("code", FaultCode)
def test_every_fault_has_the_class_of_the_design(code: FaultCode) -> None:
    verdict = classify(Fault(code=code))
    assert shape(verdict) == FAULTS[code]
    assert verdict.code == code.value
    assert type(verdict.code) is str


@pytest.mark.parametrize("hinted", [True, False])
def test_every_outcome_is_in_exactly_one_row(hinted: bool) -> None:
    rows = Counter(str(code) for row in TABLE if row.retry_after in {None, hinted} for code in row.codes)
    assert set(rows) == {f"http_{status}" for status in STATUSES} | {code.value for code in FaultCode}
    assert set(rows.values()) == {1}


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.rule)
def test_each_row_names_itself_in_the_verdicts_it_decides(row) -> None:  # type: ignore[no-untyped-def]
    for code in row.codes:
        if code.startswith("http_"):
            answer = reply(int(code[5:]), **({"retry_after": "7"} if row.retry_after else {}))
            assert classify(answer).rule == row.rule
        else:
            assert classify(Fault(code=FaultCode(code))).rule == row.rule


def test_rule_names_are_unique() -> None:
    assert len({row.rule for row in TABLE}) == len(TABLE)


@pytest.mark.parametrize("status", [0, 99, 1000, -1])
def test_a_status_out_of_all_ranges_is_retried(status: int) -> None:
    assert shape(classify(reply(status))) == "full"


# Retry-After


def test_503_is_snoozed_only_with_retry_after() -> None:
    assert classify(reply(503)) == Retryable(code="http_503", rule="503")
    assert classify(reply(503, Retry_After="120")) == Snoozed(
        code="http_503", rule="503 with Retry-After", retry_after="120"
    )
    assert shape(classify(reply(503, Retry_After="  "))) == "full"


def test_429_is_snoozed_with_and_without_retry_after() -> None:
    assert classify(reply(429)) == Snoozed(code="http_429", rule="429")
    assert classify(reply(429, retry_after="x")) == Snoozed(code="http_429", rule="429", retry_after="x")


def test_retry_after_says_nothing_elsewhere() -> None:
    assert shape(classify(reply(500, retry_after="5"))) == "full"
    assert shape(classify(reply(400, retry_after="5"))) == "permanent"


# The receiver's word


@pytest.mark.parametrize("word", ["disable", " Disable ", "DISABLE"])
@pytest.mark.parametrize("status", [199, 302, 404, 410, 429, 500, 503, 600])
def test_disable_stops_the_message_and_the_endpoint(word: str, status: int) -> None:
    verdict = classify(reply(status, Webhook_Delivery=word, retry_after="5"))
    assert verdict == Permanent(code=f"http_{status}", rule="header webhook-delivery: disable", disable=True)


@pytest.mark.parametrize("word", ["abort-message", " Abort-Message\t"])
@pytest.mark.parametrize("status", [302, 404, 410, 429, 500, 503])
def test_abort_message_stops_this_message_only(word: str, status: int) -> None:
    verdict = classify(reply(status, webhook_delivery=word))
    assert verdict == Permanent(code=f"http_{status}", rule="header webhook-delivery: abort-message")


def test_an_accepted_message_is_delivered_whatever_the_header_says() -> None:
    assert classify(reply(204, webhook_delivery="abort-message")) == Delivered(code="http_204", rule="2xx")
    assert classify(reply(200, webhook_delivery="disable")) == Delivered(code="http_200", rule="2xx", disable=True)


@pytest.mark.parametrize("word", ["", "enable", "disabled", "abort", "disable, abort-message", "\xff"])
def test_any_other_word_is_ignored(word: str) -> None:
    assert classify(reply(500, webhook_delivery=word)) == classify(reply(500))


# Overrides


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("delivered", "delivered"),
        ("retryable", "full"),
        ("short", "short"),
        ("snoozed", "snoozed"),
        ("permanent", "permanent"),
        ("disable", "permanent+disable"),
    ],
)
def test_an_endpoint_can_move_an_outcome_to_another_class(name: str, wanted: str) -> None:
    overrides = {"http_409": name}
    check_overrides(overrides)
    verdict = classify(reply(409), overrides)
    assert shape(verdict) == wanted
    assert (verdict.code, verdict.rule) == ("http_409", f"override http_409: {name}")
    assert classify(reply(404), overrides) == classify(reply(404))


def test_a_fault_can_be_overridden_but_never_into_delivered() -> None:
    check_overrides({"dns_not_found": "disable", "timeout": "short"})
    assert shape(classify(Fault(code=FaultCode.DNS_NOT_FOUND), {"dns_not_found": "disable"})) == ("permanent+disable")
    with pytest.raises(InvalidInput, match="'timeout': nobody accepted"):
        check_overrides({"timeout": "delivered"})


def test_an_override_of_503_holds_with_and_without_retry_after() -> None:
    overrides = {"http_503": "permanent"}
    assert shape(classify(reply(503), overrides)) == "permanent"
    assert shape(classify(reply(503, retry_after="5"), overrides)) == "permanent"


def test_a_snoozing_override_passes_retry_after_on() -> None:
    verdict = classify(reply(500, retry_after="9"), {"http_500": "snoozed"})
    assert verdict == Snoozed(code="http_500", rule="override http_500: snoozed", retry_after="9")


def test_the_receivers_word_stands_above_an_override() -> None:
    assert shape(classify(reply(404, webhook_delivery="disable"), {"http_404": "retryable"})) == ("permanent+disable")
    assert shape(classify(reply(409, webhook_delivery="disable"), {"http_409": "delivered"})) == ("delivered+disable")


FIXED = [
    "http_200",
    "http_204",
    "connection_reused_closed",
    "blocked_address",
    "invalid_url",
    "invalid_headers",
    "channel_busy",
    "unreadable_key",
    "internal_error",
]


@pytest.mark.parametrize("code", FIXED)
@pytest.mark.parametrize("name", OVERRIDES)
def test_a_fixed_outcome_is_refused_at_the_check_and_ignored_when_it_was_kept(code: str, name: str) -> None:
    with pytest.raises(InvalidInput, match=f"'{code}': this outcome cannot be overridden"):
        check_overrides({code: name})
    answer = reply(int(code[5:])) if code.startswith("http_") else Fault(code=FaultCode(code))
    assert classify(answer, {code: name}) == classify(answer)


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("http_099", "short"),
        ("http_1000", "short"),
        ("http_", "short"),
        ("404", "short"),
        ("HTTP_404", "short"),
        ("nonsense", "short"),
        ("http_404", "ours"),
        ("http_404", "again"),
        ("http_404", "Short"),
        ("http_404", ""),
        ("http_101", "delivered"),
        ("http_600", "delivered"),
        ("connection_reset", "delivered"),
    ],
)
def test_an_override_that_makes_no_sense_is_refused(code: str, name: str) -> None:
    with pytest.raises(InvalidInput, match="override") as caught:
        check_overrides({"http_500": "short", code: name})
    assert repr(code) in str(caught.value)


@given(st.dictionaries(st.text(max_size=80), st.text(max_size=80), min_size=1))
def test_no_kept_override_breaks_a_verdict(overrides: dict[str, str]) -> None:
    for answer in (reply(200), reply(404), Fault(code=FaultCode.TIMEOUT)):
        assert classify(answer, overrides) == classify(answer)
    with pytest.raises(InvalidInput) as caught:
        check_overrides(overrides)
    assert str(caught.value).isprintable()


# Channels of one's own


@pytest.mark.parametrize(
    ("client_errors", "wanted"),
    [(ClientErrors.SHORT, "short"), (ClientErrors.FULL, "full"), (ClientErrors.DISCARD, "permanent")],
)
def test_a_policy_decides_on_what_a_deploy_may_explain_and_on_nothing_else(
    client_errors: ClientErrors, wanted: str
) -> None:
    for status in STATUSES:
        verdict = classify(reply(status), client_errors=client_errors)
        assert (status, shape(verdict)) == (status, wanted if expected(status) == "short" else expected(status))
        is_otherwise = expected(status) == "short" and client_errors is not ClientErrors.SHORT
        assert ("client errors" in verdict.rule) == is_otherwise, status


def test_the_rule_says_that_a_policy_decided() -> None:
    verdict = classify(reply(404), client_errors=ClientErrors.DISCARD)
    assert verdict.rule == "401/403/404/407/409/421/423/424, client errors discard"
    assert classify(reply(499), client_errors=ClientErrors.FULL).rule == "other 4xx, client errors full"


def test_an_override_and_the_receivers_word_stand_above_a_policy() -> None:
    strict = ClientErrors.DISCARD
    assert shape(classify(reply(404), {"http_404": "short"}, strict)) == "short"
    assert shape(classify(reply(404), {"http_404": "delivered"}, strict)) == "delivered"
    assert shape(classify(reply(404, webhook_delivery="disable"), {}, strict)) == "permanent+disable"


def test_a_channel_of_ones_own_is_judged_by_what_it_raises() -> None:
    assert classify(RetryableError("smtp_451")) == Retryable(code="smtp_451", rule="channel: retryable")
    assert classify(RetryableError("smtp_450", retry_after=timedelta(seconds=1.2))) == Snoozed(
        code="smtp_450", rule="channel: retry after", retry_after="2"
    )
    assert classify(PermanentError("smtp_550", disable_endpoint=True)) == Permanent(
        code="smtp_550", rule="channel: permanent", disable=True
    )


def test_a_verdict_is_ours_or_again_for_its_own_reasons_only() -> None:
    assert isinstance(classify(Fault(code=FaultCode.UNREADABLE_KEY)), Ours)
    assert isinstance(classify(Fault(code=FaultCode.CONNECTION_REUSED_CLOSED)), Again)


def test_each_verdict_has_the_word_that_its_attempt_is_kept_with() -> None:
    words = {type(verdict).__name__: verdict.outcome for verdict in map(classify, map(reply, STATUSES))}
    words |= {type(v).__name__: v.outcome for v in (classify(Fault(code=code)) for code in FaultCode)}
    assert words == {
        "Delivered": "delivered",
        "Retryable": "retryable",
        "Snoozed": "snoozed",
        "Again": "retryable",
        "Permanent": "permanent",
        "Ours": "ours",
    }
