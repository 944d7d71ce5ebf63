"""The options that choose deliveries, for whatever is done with them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import wraps
from typing import Any

import click

from delivery.cli.completing import event_types
from delivery.cli.ids import Id
from delivery.cli.options import any_owner
from delivery.cli.parameters import ENDPOINT, MOMENT, check_range
from delivery.cli.session import Session
from delivery.jobs import JobState
from delivery.replay import DeliveryFilter

Command = Callable[..., None]

ERROR = click.option("--error", metavar="CODE", help="Last code or reason, as in http_503, timeout, exhausted.")
SINCE = click.option(
    "--since", type=MOMENT, metavar="WHEN", help="Made from then on: 2026-01-31T12:00:00Z, or 2h (ago)."
)
UNTIL = click.option("--until", type=MOMENT, metavar="WHEN", help="Made before then.")
TO_ENDPOINT = click.option("--endpoint", "endpoint_id", type=ENDPOINT, metavar="ID", help="To this endpoint.")


def chosen(states: click.Choice[str]) -> Callable[[Command], Command]:
    """Add the options that choose deliveries; it takes `which`, and `endpoint_id` as it was given."""

    def decorate(command: Command) -> Command:
        @wraps(command)
        def with_filter(
            session: Session,
            *args: Any,
            owner_id: str | None,
            state: tuple[str, ...],
            endpoint_id: Id | None,
            type: str | None,
            since: datetime | None,
            until: datetime | None,
            error: str | None,
            **given: Any,
        ) -> None:
            check_range(since, until)
            which = DeliveryFilter(
                owner_id=owner_id,
                event_type=type,
                states=tuple(JobState(each) for each in state),
                since=since,
                until=until,
                error=error,
            )
            command(session, *args, which=which, endpoint_id=endpoint_id, **given)

        wrapped: Command = with_filter
        for option in (
            ERROR,
            UNTIL,
            SINCE,
            click.option("--type", metavar="TYPE", shell_complete=event_types, help="Of events of exactly this type."),
            TO_ENDPOINT,
            click.option("--state", type=states, multiple=True, help="In this state; repeatable."),
        ):
            wrapped = option(wrapped)
        return any_owner(wrapped)

    return decorate
