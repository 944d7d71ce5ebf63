"""What can go wrong, as a caller sees it.

::

    TidingsError
    ├── InvalidInput            a value was refused; nothing was changed
    │   ├── InvalidEvent        ... of an event: type, subject, key, payload
    │   │   └── PayloadTooLarge
    │   └── UnknownEventType    nobody declared this type
    ├── NotFound                no such thing for this owner (another owner's thing is "not found" too)
    ├── Conflict                the thing is in a state that does not allow this
    │   ├── IdempotencyConflict the key was used for other content
    │   └── TransactionConflict run the whole transaction again
    ├── UnknownKind             no job kind of this name was declared to this runtime
    ├── ConfigurationError      settings, keys, schema or state folder are not fit to start
    │   ├── SchemaPending       migrations have not been run
    │   └── SchemaTooNew        the database was migrated by a newer release
    ├── SealError               what is sealed at rest cannot be opened (`delivery.sealing`)
    ├── Refused                 the database refused a statement as such: trying again as it is will not help
    └── Unavailable             the database did not answer, or answered that it cannot now

Every message is one line that says what to do next and holds no secret.
"""


class TidingsError(Exception):
    """Base of everything that the platform raises on purpose."""


class InvalidInput(TidingsError, ValueError):
    """A value was refused; nothing was changed."""


class InvalidEvent(InvalidInput):
    """An event cannot be recorded as given."""


class PayloadTooLarge(InvalidEvent):
    """The payload is over the limit of 256 KiB of JSON text."""


class UnknownEventType(InvalidInput):
    """The event type was never declared."""


class NotFound(TidingsError, LookupError):
    """No such thing for this owner."""


class Conflict(TidingsError):
    """The thing is in a state that does not allow this."""


class IdempotencyConflict(Conflict):
    """The idempotency key was used before, for an event with other content."""


class TransactionConflict(Conflict):
    """The database refused the transaction to keep it isolated: run the whole transaction again."""


class UnknownKind(TidingsError, LookupError):
    """No job kind of this name was declared to this runtime."""


class ConfigurationError(TidingsError):
    """Settings, keys, schema or state folder are not fit to start with."""


class SchemaPending(ConfigurationError):
    """The schema lacks migrations that this release needs."""


class SchemaTooNew(ConfigurationError):
    """The schema was migrated by a release newer than this one."""


class Refused(TidingsError):
    """The database refused a statement as such; trying again as it is will not help."""


class Unavailable(TidingsError):
    """The database did not answer, or cannot do this now; trying again later may help."""
