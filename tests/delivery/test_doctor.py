"""What the doctor makes of each fact."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from delivery.doctor import Finding, Mark, Room, Surroundings, diagnose, worst

SECOND = timedelta(seconds=1)
FIT = Surroundings(
    server="PostgreSQL 18.1",
    settings={
        "fsync": "on",
        "full_page_writes": "on",
        "synchronous_commit": "on",
        "autovacuum": "on",
        "track_counts": "on",
    },
    room=Room(left=80, needed=18, whose="server"),
    skew=0.1 * SECOND,
    is_pooled=False,
    heard_after=0.002 * SECOND,
    days_ahead=7,
    missing_keys={},
    keys=None,
    names={"example.com": None},
    workers=1,
    relays=1,
    files=65_536,
)


def found(seen: Surroundings, check: str) -> list[Finding]:
    return [finding for finding in diagnose(seen) if finding.check == check]


def test_all_is_well() -> None:
    findings = diagnose(FIT)
    assert {finding.mark for finding in findings} == {Mark.FINE}
    assert worst(findings) is Mark.FINE
    assert not any(finding.advice for finding in findings)
    checks = [finding.check for finding in findings]
    assert checks == [
        "database",
        "settings",
        "connections",
        "clock",
        "notifications",
        "partitions",
        "keys",
        "names",
        "processes",
        "files",
    ]


BAD = {
    "fsync": ("settings", replace(FIT, settings={"fsync": "off"}), Mark.WRONG, "fsync is off"),
    "torn pages": ("settings", replace(FIT, settings={"full_page_writes": "off"}), Mark.WRONG, "full_page_writes is"),
    "lost commits": (
        "settings",
        replace(FIT, settings={"synchronous_commit": "off"}),
        Mark.WRONG,
        "synchronous_commit",
    ),
    "autovacuum": ("settings", replace(FIT, settings={"autovacuum": "off"}), Mark.DOUBTFUL, "autovacuum is off"),
    "counts": ("settings", replace(FIT, settings={"track_counts": "off"}), Mark.DOUBTFUL, "track_counts is off"),
    "no room": (
        "connections",
        replace(FIT, room=Room(left=17, needed=18, whose="role")),
        Mark.DOUBTFUL,
        "the role has room for 17 more, a process opens up to 18",
    ),
    "clock ahead": ("clock", replace(FIT, skew=2 * SECOND), Mark.DOUBTFUL, "2.0 s ahead of"),
    "clock behind": ("clock", replace(FIT, skew=-240 * SECOND), Mark.WRONG, "240.0 s behind"),
    "pooled": ("notifications", replace(FIT, is_pooled=True, heard_after=None), Mark.DOUBTFUL, "polling"),
    "deaf": ("notifications", replace(FIT, heard_after=None), Mark.WRONG, "was not heard"),
    "slow": ("notifications", replace(FIT, heard_after=1.5 * SECOND), Mark.DOUBTFUL, "took 1.5 s"),
    "a day ahead": ("partitions", replace(FIT, days_ahead=1), Mark.DOUBTFUL, "1 days ahead"),
    "no partition": ("partitions", replace(FIT, days_ahead=-1), Mark.DOUBTFUL, "today's are missing"),
    "no key": ("keys", replace(FIT, keys="there are no keys"), Mark.WRONG, "there are no keys"),
    "lost key": ("keys", replace(FIT, missing_keys={"k1": 3}), Mark.WRONG, "3 secrets are sealed with key k1"),
    "no name server": ("names", replace(FIT, names={"a.example": "dns_temporary"}), Mark.WRONG, "a.example: dns_temp"),
    "a wrong name": (
        "names",
        replace(FIT, names={"a.example": "dns_not_found", "b.example": None}),
        Mark.DOUBTFUL,
        "a.example: dns_not_found",
    ),
    "no relay": ("processes", replace(FIT, relays=0), Mark.DOUBTFUL, "0 relaying"),
    "nobody": ("processes", replace(FIT, relays=0, workers=0), Mark.DOUBTFUL, "0 delivering"),
    "few files": ("files", replace(FIT, files=256), Mark.DOUBTFUL, "256"),
}


@pytest.mark.parametrize("what", BAD)
def test_what_is_not_fit_is_told_with_what_to_do(what: str) -> None:
    check, seen, mark, text = BAD[what]
    [finding] = found(seen, check)
    assert finding.mark is mark
    assert text in finding.text
    assert finding.advice
    assert worst(diagnose(seen)) is mark
    others = [each.mark for each in diagnose(seen) if each.check != check]
    assert set(others) == {Mark.FINE}


@pytest.mark.parametrize("value", ["on", "local", "remote_write", "remote_apply"])
def test_a_commit_that_waits_for_the_disk_is_durable_however_it_is_called(value: str) -> None:
    [finding] = found(replace(FIT, settings={"synchronous_commit": value}), "settings")
    assert finding.mark is Mark.FINE


def test_several_settings_are_told_each() -> None:
    seen = replace(FIT, settings={"fsync": "off", "autovacuum": "off"})
    assert [finding.text for finding in found(seen, "settings")] == ["fsync is off", "autovacuum is off"]


def test_without_endpoints_there_is_no_name_to_look_up() -> None:
    [finding] = found(replace(FIT, names={}), "names")
    assert finding.mark is Mark.FINE
