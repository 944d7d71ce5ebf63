"""Handle each webhook once, though it may come many times.

In two phases: a webhook is *claimed* before it is handled and *completed* after, so that one whose handler failed
or crashed is handled when it comes again. Marked in one step it would be lost.
"""

import inspect
import logging
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Literal, Protocol, Self, TypeVar

from signing.errors import DuplicateWebhookError, WebhookInProgressError
from signing.payload import VerifiedWebhook

T = TypeVar("T")

#: What a claim finds: `new` (it is ours now), `in_progress` (somebody else's), or `done`.
ClaimState = Literal["new", "in_progress", "done"]

_DAY_S = 86_400.0

log = logging.getLogger("signing")


class ReplayStore(Protocol):
    """Remember what is being handled and what is done. One store is for one sender: ids are unique within it."""

    def claim(self, key: str, *, lease: float) -> ClaimState:
        """Claim a webhook for `lease` seconds; after that whoever asks first may have it, unless it is done."""

    def complete(self, key: str, *, ttl: float) -> None:
        """Remember for `ttl` seconds that it is done."""

    def release(self, key: str) -> None:
        """Give a claim back at once; does nothing to what is done."""


class AsyncReplayStore(Protocol):
    """The same, awaited."""

    async def claim(self, key: str, *, lease: float) -> ClaimState:
        """Claim a webhook for `lease` seconds."""

    async def complete(self, key: str, *, ttl: float) -> None:
        """Remember for `ttl` seconds that it is done."""

    async def release(self, key: str) -> None:
        """Give a claim back at once."""


class MemoryReplayStore:
    """Remember within this process, and until it ends. Safe to share between threads and tasks.

    Beyond `max_entries` the oldest are forgotten. `clock` returns seconds and never goes back.
    """

    def __init__(self, *, max_entries: int = 100_000, clock: Callable[[], float] = time.monotonic) -> None:
        self._max_entries, self._clock = max_entries, clock
        self._lock = threading.Lock()
        self._entries: OrderedDict[str, tuple[bool, float]] = OrderedDict()  # key -> is done, until when

    def claim(self, key: str, *, lease: float) -> ClaimState:
        """Claim a webhook for `lease` seconds."""
        with self._lock:
            is_done, until = self._entries.get(key, (False, -math.inf))
            if until > self._clock():
                return "done" if is_done else "in_progress"
            self._put(key, is_done=False, seconds=lease)
            return "new"

    def complete(self, key: str, *, ttl: float) -> None:
        """Remember for `ttl` seconds that it is done."""
        with self._lock:
            self._put(key, is_done=True, seconds=ttl)

    def release(self, key: str) -> None:
        """Give a claim back at once."""
        with self._lock:
            is_done, _ = self._entries.get(key, (True, 0.0))
            if not is_done:
                del self._entries[key]

    def __len__(self) -> int:
        return len(self._entries)

    def _put(self, key: str, *, is_done: bool, seconds: float) -> None:
        now = self._clock()
        self._entries.pop(key, None)
        while self._entries:
            _, oldest_until = next(iter(self._entries.values()))
            if oldest_until > now and len(self._entries) < self._max_entries:
                break
            self._entries.popitem(last=False)
        self._entries[key] = (is_done, now + seconds)


class ReplayGuard:
    """Let each webhook be handled once.

    ::

        with guard.once(webhook):  # or `async with`
            handle(webhook)

    An error within lets it be handled again. `lease` (seconds) must be longer than handling takes: beyond it a
    repeat is let in beside the first. `ttl` (seconds; 30 days) must be longer than the sender goes on retrying.
    `retry_after` (seconds) is what a sender is told whose webhook is being handled.
    """

    def __init__(
        self,
        store: ReplayStore | AsyncReplayStore,
        *,
        lease: float = 60,
        ttl: float = 30 * _DAY_S,
        retry_after: int = 5,
    ) -> None:
        self.store, self.lease, self.ttl, self.retry_after = store, lease, ttl, retry_after

    def once(self, webhook: VerifiedWebhook | str) -> "Turn":
        """Return a context in which the webhook (or the one of this id) is handled; plain or asynchronous.

        Entering it raises:
            DuplicateWebhookError: it is done: acknowledge it.
            WebhookInProgressError: it is being handled, or was when a crash ended that: have it sent again.
            TypeError: the store is asynchronous, and the context is not.
        """
        return Turn(self, webhook.id if isinstance(webhook, VerifiedWebhook) else webhook)


class Turn:
    """The context of one webhook: claimed on entering; on leaving completed, or after an error released."""

    __slots__ = ("_guard", "_is_released", "_key")

    def __init__(self, guard: ReplayGuard, key: str) -> None:
        self._guard, self._key = guard, key
        self._is_released = False

    def release(self) -> None:
        """Have it handled again when it comes again, though no error is raised: its answer says that it failed."""
        self._is_released = True

    def __enter__(self) -> Self:
        self._enter(_now(self._guard.store.claim(self._key, lease=self._guard.lease)))
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if error is None and not self._is_released:
            _now(self._guard.store.complete(self._key, ttl=self._guard.ttl))
            return
        try:
            _now(self._guard.store.release(self._key))
        except Exception as trouble:
            self._not_released(error, trouble)

    async def __aenter__(self) -> Self:
        self._enter(await _awaited(self._guard.store.claim(self._key, lease=self._guard.lease)))
        return self

    async def __aexit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if error is None and not self._is_released:
            await _awaited(self._guard.store.complete(self._key, ttl=self._guard.ttl))
            return
        try:
            await _awaited(self._guard.store.release(self._key))
        except Exception as trouble:
            self._not_released(error, trouble)

    def _enter(self, state: ClaimState) -> None:
        if state == "done":
            raise DuplicateWebhookError("this webhook was handled before")
        if state == "in_progress":
            what = "this webhook is being handled: send it again later"
            raise WebhookInProgressError(what, retry_after=self._guard.retry_after)

    def _not_released(self, error: BaseException | None, trouble: Exception) -> None:
        """Leave the claim to its lease, or to the rollback of the transaction that it was made in."""
        if error is None:
            raise trouble
        log.warning("a claim could not be released (%s) after %s", type(trouble).__name__, type(error).__name__)


def _now(result: T | Awaitable[T]) -> T:
    if not inspect.isawaitable(result):
        return result
    if inspect.iscoroutine(result):
        result.close()
    raise TypeError("this store is asynchronous: write `async with guard.once(...)`")


async def _awaited(result: T | Awaitable[T]) -> T:
    return await result if inspect.isawaitable(result) else result
