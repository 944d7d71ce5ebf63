"""Tidings: event-driven webhook delivery on PostgreSQL.

`recorder()` is what an application records events with; `open_app()` opens the whole platform.
"""

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
