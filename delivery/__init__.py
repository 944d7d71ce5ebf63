"""Tidings: event-driven webhook delivery on PostgreSQL.

`recorder()` is what an application records events with; `open_app()` opens the whole platform.

Why: names are imported when they are first asked for, so that `tidings --help` does not load a database driver
and an HTTP client for nothing (0.2 s instead of 0.6 s).
"""

import importlib as _importlib
import typing as _typing

if _typing.TYPE_CHECKING:
    from delivery.app import App, open_app, recorder
    from delivery.errors import (
        ConfigurationError,
        Conflict,
        IdempotencyConflict,
        InvalidEvent,
        InvalidInput,
        NotFound,
        PayloadTooLarge,
        SchemaPending,
        SchemaTooNew,
        TidingsError,
        TransactionConflict,
        Unavailable,
        UnknownEventType,
        UnknownKind,
    )
    from delivery.events import Event, JsonText, Recorder
    from delivery.handlers import EventHandler
    from delivery.jobs import Cancel, Discard, Job, Retry, Snooze
    from delivery.settings import Settings, read_settings

__all__ = [
    "App",
    "Cancel",
    "ConfigurationError",
    "Conflict",
    "Discard",
    "Event",
    "EventHandler",
    "IdempotencyConflict",
    "InvalidEvent",
    "InvalidInput",
    "Job",
    "JsonText",
    "NotFound",
    "PayloadTooLarge",
    "Recorder",
    "Retry",
    "SchemaPending",
    "SchemaTooNew",
    "Settings",
    "Snooze",
    "TidingsError",
    "TransactionConflict",
    "Unavailable",
    "UnknownEventType",
    "UnknownKind",
    "open_app",
    "read_settings",
    "recorder",
]

#: Where each name lives; all others are errors.
_HOMES = {
    "app": ("App", "open_app", "recorder"),
    "events": ("Event", "JsonText", "Recorder"),
    "handlers": ("EventHandler",),
    "jobs": ("Cancel", "Discard", "Job", "Retry", "Snooze"),
    "settings": ("Settings", "read_settings"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(_importlib.import_module(f"delivery.{_HOME_OF.get(name, 'errors')}"), name)
