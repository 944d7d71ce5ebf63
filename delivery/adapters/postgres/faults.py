"""Map what psycopg raises to errors of ours; no library exception crosses a port."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg
from psycopg import errors as pg
from psycopg_pool import PoolClosed, PoolTimeout

from delivery.errors import (
    ConfigurationError,
    Conflict,
    IdempotencyConflict,
    InvalidEvent,
    InvalidInput,
    PayloadTooLarge,
    Refused,
    SchemaPending,
    TidingsError,
    TransactionConflict,
    Unavailable,
    UnknownEventType,
)

#: SQLSTATEs that the schema's own functions raise; their text is written for people.
OWN_STATES: dict[str, type[TidingsError]] = {
    "TD001": UnknownEventType,
    "TD002": IdempotencyConflict,
    "TD003": InvalidEvent,
    "TD004": PayloadTooLarge,
}


@contextmanager
def mapped(refused: type[InvalidInput] = InvalidInput) -> Iterator[None]:
    """Raise our errors for the database's; `refused` for a value that it cannot keep."""
    try:
        yield
    except (psycopg.Error, PoolTimeout, PoolClosed) as error:
        raise translate(error, refused) from error
    except UnicodeEncodeError as error:
        raise refused(_unencodable(error)) from error
    except RecursionError as error:
        raise refused("a value is nested too deeply: flatten it") from error


def translate(error: Exception, refused: type[InvalidInput] = InvalidInput) -> TidingsError:
    """Return our error for one of psycopg's."""
    if isinstance(error, psycopg.DataError | pg.ProgramLimitExceeded):  # of any kind, or longer than an index takes
        return refused(f"the database cannot keep this value: {_primary(error)}")
    state = getattr(error, "sqlstate", None) or ""
    if state in OWN_STATES:
        return OWN_STATES[state](_primary(error))
    if isinstance(error, psycopg.InternalError) and not state:
        return _unreachable(error)  # psycopg's own: no answer is like this, but where a pooler's server went
    for classes, make in _TABLE:
        if isinstance(error, classes):
            return make(error)
    return Refused(f"the database answered: {_primary(error)}")


def _primary(error: Exception) -> str:
    diag = getattr(error, "diag", None)
    text = (diag.message_primary if diag is not None else None) or str(error) or type(error).__name__
    return " ".join(text.split())[:300]


def _unreachable(error: Exception) -> TidingsError:
    return Unavailable(
        f"the database cannot be reached: {_primary(error)}; check that it runs, and --dsn / TIDINGS_DATABASE_URL"
        " where that is given"
    )


def _unencodable(error: UnicodeEncodeError) -> str:
    if error.encoding.startswith("utf"):
        return "text holds half of a surrogate pair, which is no character: repair the text"
    return (
        f"text holds a character that the connection's client_encoding ({error.encoding}) lacks:"
        " SET client_encoding TO 'UTF8'"
    )


_TABLE: list[tuple[tuple[type[Exception], ...], Callable[[Exception], TidingsError]]] = [
    (
        (pg.UndefinedTable, pg.InvalidSchemaName, pg.UndefinedFunction, pg.UndefinedColumn),
        lambda _: SchemaPending("the schema lacks migrations: run `tidings migrate`"),
    ),
    (
        (pg.SerializationFailure, pg.DeadlockDetected),
        lambda e: TransactionConflict(f"run the whole transaction again: {_primary(e)}"),
    ),
    (
        (pg.ReadOnlySqlTransaction,),
        lambda _: ConfigurationError(
            "this transaction is read-only: use one that may write, on a database that may, on the primary server"
        ),
    ),
    (
        (pg.InFailedSqlTransaction,),
        lambda _: Conflict("an earlier statement of this transaction failed: roll it back, then run it again"),
    ),
    (
        (pg.LockNotAvailable,),
        lambda e: Unavailable(
            f"another transaction holds a lock for too long ({_primary(e)}); nothing was changed: try again"
        ),
    ),
    (
        (pg.UndefinedObject,),
        lambda e: InvalidInput(f"{_primary(e)}: correct the name, or create it first"),
    ),
    (
        (pg.InsufficientPrivilege,),
        lambda e: ConfigurationError(
            f"{_primary(e)}: connect as the role that ran `tidings migrate`, or grant with --grant-record"
        ),
    ),
    (
        (pg.IdleInTransactionSessionTimeout, pg.TransactionTimeout),
        lambda e: Unavailable(
            f"the database ended the session ({_primary(e)}) and kept nothing of the transaction: do what is slow"
            " before it begins, and try again"
        ),
    ),
    ((pg.StatementTooComplex,), lambda _: InvalidEvent("data is nested too deeply: flatten it")),
    (
        (PoolTimeout,),
        lambda _: Unavailable(
            "no connection was free in time: the database cannot be reached, or TIDINGS_POOL_SIZE is too small for"
            " what this process does at once"
        ),
    ),
    ((PoolClosed, pg.ConnectionException, psycopg.InterfaceError), _unreachable),
    (
        (psycopg.OperationalError,),
        lambda e: (
            _unreachable(e)
            if not getattr(e, "sqlstate", None)
            else Unavailable(f"the database cannot do this now: {_primary(e)}")
        ),
    ),
]
