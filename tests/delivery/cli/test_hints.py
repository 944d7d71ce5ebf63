"""Commands that are named in what is printed repeat the options of the one that printed them."""

from __future__ import annotations

import re
import shlex

import pytest

from delivery.cli.hints import complete, forget, repeat

from .conftest import Cli

SHOW = "next: `tidings deliveries show 17` tells its story"


@pytest.mark.parametrize(
    ("given", "text", "printed"),
    [
        ({}, SHOW, SHOW),
        ({"owner": "acme"}, "`tidings events list`", "`tidings events list --owner acme`"),
        ({"owner": "a'b"}, "`tidings events list`", "`tidings events list --owner 'a'\"'\"'b'`"),
        ({"owner": "acme"}, "`tidings events list --owner x`", "`tidings events list --owner x`"),
        ({"owner": "acme"}, "`tidings jobs show 7 --any-owner`", "`tidings jobs show 7 --any-owner`"),
        ({"owner": "acme"}, "`tidings up --allow-local`", "`tidings up --allow-local`"),
        ({"home": "/h"}, "`tidings up --allow-local`", "`tidings up --allow-local --home /h`"),
        ({"home": "/h"}, "`tidings keys generate`", "`tidings keys generate`"),
        ({"home": "/h", "owner": "a"}, "`tidings events list`", "`tidings events list --owner a --home /h`"),
        ({"database_url": "dbname=x"}, "`tidings migrate`", "`tidings migrate --dsn dbname=x`"),
        ({"database_url": "postgresql://u:sesame@h/d"}, "`tidings migrate`", "`tidings migrate --dsn DSN`"),
        ({"database_url": "password=sesame"}, "`tidings migrate`", "`tidings migrate --dsn DSN`"),
        ({"owner": "acme"}, "tidings events list", "tidings events list"),
    ],
)
def test_what_was_given_is_added_where_it_is_taken(given: dict[str, str], text: str, printed: str):
    token = repeat(given)
    try:
        assert complete(text) == printed
        assert complete(complete(text)) == printed
    finally:
        forget(token)


def test_nothing_is_kept_for_the_next_command(standing: Cli):
    empty = standing("endpoints", "list", "--owner", "acme")
    assert "`tidings endpoints add URL --owner acme`" in empty
    assert "--owner" not in standing("endpoints", "list")


def test_a_hint_can_be_copied(cli: Cli):
    cli("event-types", "declare", "invoice.paid", "--exposure", "webhook")
    told = cli("events", "record", "invoice.paid", "--data", "1", "--owner", "acme")
    (hint,) = re.findall(r"`tidings (.*?)`", told)
    assert "invoice.paid" in cli(*shlex.split(hint))


def test_an_error_repeats_them_too(standing: Cli):
    result = standing.run("--owner", "acme", "deliveries", "show", "7")
    assert result.stderr == (
        "tidings: owner 'acme' has no delivery 7: `tidings deliveries list --owner acme` shows those it has\n"
    )
