"""What was handled, remembered over Django's own connection."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from django.db.utils import ConnectionHandler

from signing import DuplicateWebhookError, ReplayGuard, WebhookInProgressError
from signing.contrib.postgres import CREATE_TABLE, PostgresReplayStore

from .receivers import set_django_up


@pytest.fixture
def connection(empty_dsn: str) -> Iterator[Any]:
    set_django_up()
    info = psycopg.conninfo.conninfo_to_dict(empty_dsn)
    place = {"NAME": info.pop("dbname"), "USER": info.pop("user", ""), "PASSWORD": info.pop("password", "")}
    place |= {"HOST": info.pop("host", ""), "PORT": info.pop("port", ""), "OPTIONS": info}
    handler = ConnectionHandler({"default": {"ENGINE": "django.db.backends.postgresql", **place}})
    opened = handler["default"]
    with opened.cursor() as cursor:
        cursor.execute(CREATE_TABLE)
    yield opened
    opened.close()


def test_a_webhook_is_handled_once_over_django_s_connection(connection: Any) -> None:
    guard = ReplayGuard(PostgresReplayStore(connection, source="a"))
    with guard.once("1"), pytest.raises(WebhookInProgressError), guard.once("1"):
        pytest.fail("it was let in twice")
    with pytest.raises(DuplicateWebhookError), guard.once("1"):
        pytest.fail("it was let in twice")


def test_what_is_rolled_back_was_not_handled(connection: Any) -> None:
    guard = ReplayGuard(PostgresReplayStore(connection, source="a"))
    connection.set_autocommit(False)
    with guard.once("1"):
        pass
    connection.rollback()
    with guard.once("1"):
        pass
    connection.commit()
    with pytest.raises(DuplicateWebhookError), guard.once("1"):
        pytest.fail("it was let in twice")
