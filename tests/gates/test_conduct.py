"""Conduct: what no module does, whatever it is for."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from .source import PACKAGES, Rule, Source, calls, check, dotted, imports, python, refused

#: Place -> why a task may live outside a TaskGroup there.
LOOSE_TASKS: dict[str, str] = {
    "delivery/adapters/postgres/runtime.py": "start and stop are calls, not a context: stop awaits what start began",
    "delivery/adapters/postgres/crew.py": "each try lands by itself, and the crew ends when the last one has",
    "delivery/adapters/postgres/ending.py": "an ending outlives the cancelled task that asked for it, and is awaited",
    "delivery/adapters/postgres/parcels.py": "a batch is loaded for many who wait, and outlives each of them",
}
#: Place -> why it may block.
BLOCKS: dict[str, str] = {
    "delivery/adapters/embedded": "starts a server before there is a loop, or in a thread",
}
#: The one that starts the loop.
STARTS_THE_LOOP = ("delivery/cli",)
EVERYTHING = {"Exception", "BaseException"}
EVENT_LOOPS = {"asyncio", "loop", "_loop", "get_running_loop", "get_event_loop"}


def swallows(handler: ast.ExceptHandler) -> bool:
    caught = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    everything = any(kind is None or dotted(kind) in EVERYTHING for kind in caught)
    idle = (ast.Pass, ast.Continue, ast.Break)
    return everything and all(
        isinstance(step, idle) or (isinstance(step, ast.Expr) and isinstance(step.value, ast.Constant))
        for step in handler.body
    )


def swallow_nothing(source: Source) -> Iterator[str]:
    """Refuse a handler that catches everything and does nothing."""
    for node in source.nodes:
        if isinstance(node, ast.ExceptHandler) and swallows(node):
            yield source.at(node, "swallows every error: name the one you expect, or log and go on")
    for call, name in calls(source):
        if name.rpartition(".")[2] == "suppress" and EVERYTHING & set(map(dotted, call.args)):
            yield source.at(call, "suppresses every error: name the one you expect")


def keep_tasks(source: Source) -> Iterator[str]:
    """Refuse a task that nobody waits for; a TaskGroup's own are waited for."""
    for call, name in calls(source):
        owner, _, verb = name.rpartition(".")
        if isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Call):
            owner = dotted(call.func.value.func)
        loose = verb == "ensure_future" or (
            verb == "create_task" and (owner.rpartition(".")[2] in EVENT_LOOPS or not owner)
        )
        if loose and not source.within(LOOSE_TASKS):
            yield source.at(call, f"a loose task: use a TaskGroup, or say in {__name__}.LOOSE_TASKS why not")


def keep_the_loop(source: Source) -> Iterator[str]:
    """Refuse what blocks the event loop, or starts a second one."""
    for node, name in (*calls(source), *imports(source)):
        if name == "time.sleep" and not source.within(BLOCKS):
            yield source.at(node, "blocks the event loop: await asyncio.sleep, or wait for an event")
        if name == "asyncio.run" and not source.within(STARTS_THE_LOOP):
            yield source.at(node, f"only {' and '.join(STARTS_THE_LOOP)} starts the loop: be async and awaited")


@pytest.mark.parametrize("rule", [swallow_nothing, keep_tasks, keep_the_loop])
def test_every_module_behaves(rule: Rule):
    check(rule, python(*PACKAGES))


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (swallow_nothing, "try: f()\nexcept Exception: pass"),
        (
            swallow_nothing,
            "while True:\n    try: f()\n    except (OSError, BaseException):\n        'why'\n        break",
        ),
        (swallow_nothing, "try: f()\nexcept: ..."),
        (swallow_nothing, "with contextlib.suppress(Exception): f()"),
        (keep_tasks, "asyncio.create_task(f())"),
        (keep_tasks, "create_task(f())"),
        (keep_tasks, "asyncio.get_running_loop().create_task(f())"),
        (keep_tasks, "self._loop.create_task(f())"),
        (keep_tasks, "asyncio.ensure_future(f())"),
        (keep_the_loop, "time.sleep(1)"),
        (keep_the_loop, "from time import sleep"),
        (keep_the_loop, "asyncio.run(f())"),
    ],
)
def test_misconduct_is_refused(rule: Rule, text: str):
    assert refused(rule, "delivery/relay.py", text)


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (swallow_nothing, "try: f()\nexcept ValueError: pass"),
        (swallow_nothing, "try: f()\nexcept Exception:\n    log.exception('relay pass failed')"),
        (keep_tasks, "group.create_task(f())"),
        (keep_the_loop, "await_(asyncio.sleep(1))"),
    ],
)
def test_good_conduct_is_accepted(rule: Rule, text: str):
    assert not refused(rule, "delivery/relay.py", text)
