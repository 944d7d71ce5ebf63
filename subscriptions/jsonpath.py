"""Read the expression of a filter, and make a function of it. Pure.

Why: `jsonpath-rfc9535` reads the text and refuses what the RFC does not allow, and what it read is worked out here. Its
own evaluation has no bound, takes 1 for `true` inside of lists, rounds large numbers, and is several times as slow.
Regular expressions (`match`, `search`) are refused: there is no engine here whose time is bounded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from math import isinf
from typing import Any

from jsonpath_rfc9535 import JSONPathEnvironment, JSONPathError, JSONPathQuery
from jsonpath_rfc9535.filter_expressions import (
    ComparisonExpression,
    Expression,
    FilterExpressionLiteral,
    FilterQuery,
    FunctionExtension,
    LogicalExpression,
    PrefixExpression,
    RootFilterQuery,
)
from jsonpath_rfc9535.segments import JSONPathChildSegment, JSONPathRecursiveDescentSegment, JSONPathSegment
from jsonpath_rfc9535.selectors import (
    FilterSelector,
    IndexSelector,
    JSONPathSelector,
    NameSelector,
    SliceSelector,
    WildcardSelector,
)

from subscriptions.comparing import Work, at_most, equal, less
from subscriptions.errors import InvalidFilter

#: How deep brackets, operators and filters in filters may nest, and of how many parts a filter may consist.
MAX_DEPTH, MAX_PARTS = 16, 100
#: Values that are only passed over cost a step for so many.
_SEEN_TOGETHER = 4
#: Before and behind a filter, to make a query of it.
_BEFORE, _BEHIND = "$[?", "]"
_BRACKETS = re.compile(r"[\[\]()]")
_QUOTED = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""")
_HOW = "compare places in the payload, as in '$.amount > 100 && $.currency == \"EUR\"'"
_DEEP = f"the filter is nested too deeply: write it with {MAX_DEPTH} levels at most"


class _Nothing:
    """What a place holds that is not there."""


_NOTHING = _Nothing()

# What is read becomes functions of `$`, of `@`, and of the work that is counted.
Test = Callable[[Any, Any, Work], bool]
_Value = Callable[[Any, Any, Work], Any]  # of JSON, or _NOTHING
_Nodes = Callable[[Any, Any, Work], Iterator[Any]]
_Select = Callable[[Any, Any, Work], Iterable[Any]]
_Segment = Callable[[Any, Iterator[Any], Work], Iterator[Any]]


def read_test(text: str) -> Test:
    """Read a filter.

    Raises:
        InvalidFilter: it is none, or it is too deep or of too many parts.
    """
    if _nesting(text) > MAX_DEPTH:  # before the library reads it, which it does by recursion
        raise InvalidFilter(_DEEP)
    try:
        query = JSONPathEnvironment().compile(f"{_BEFORE}{text}{_BEHIND}")
    except JSONPathError as error:
        place = "" if error.token is None else f" at character {max(error.token.index - len(_BEFORE) + 1, 1)}"
        what = str(error.args[0]).replace("unexpected", "not expected here:")
        raise InvalidFilter(f"the filter is not understood{place} ({what}): {_HOW}") from None
    except RecursionError:
        raise InvalidFilter(_DEEP) from None
    except OverflowError:
        raise InvalidFilter("a number is larger than a number of JSON should be: write a smaller one") from None
    except (ArithmeticError, AssertionError, LookupError, ValueError) as error:
        raise InvalidFilter(f"the filter is not understood ({type(error).__name__}: {error}): {_HOW}") from None
    match query.segments:
        case [JSONPathChildSegment(selectors=[FilterSelector(expression=whole)])]:
            return _Reading().test(whole.expression, 1)
        case _:
            raise InvalidFilter(f"the filter ends before its text does: {_HOW}")


def _nesting(text: str) -> int:
    """Count how deep brackets nest, but for those in quotes."""
    depth = deepest = 0
    for sign in _BRACKETS.findall(_QUOTED.sub("", text)):
        depth += 1 if sign in "([" else -1
        deepest = max(deepest, depth)
    return deepest


class _Reading:
    """One filter, within the bounds."""

    def __init__(self) -> None:
        self._parts = 0

    def _count(self, depth: int) -> None:
        self._parts += 1
        if self._parts > MAX_PARTS:
            raise InvalidFilter(f"the filter has more than {MAX_PARTS} parts: shorten it")
        if depth > MAX_DEPTH:
            raise InvalidFilter(_DEEP)

    # What is true or not ------------------------------------------------------------------------------------------

    def test(self, expression: Expression, depth: int) -> Test:
        """Make the function that says whether it holds."""
        self._count(depth)
        match expression:
            case LogicalExpression(operator=operator):
                return _joined(operator, [self.test(each, depth + 1) for each in _operands(expression, operator)])
            case PrefixExpression():
                denied = self.test(expression.right, depth + 1)
                return lambda root, here, work: not denied(root, here, work)
            case ComparisonExpression(operator=operator):
                return _compared(operator, self._value(expression.left, depth), self._value(expression.right, depth))
            case FilterQuery():
                return self._existence(expression, depth)
            case FunctionExtension(name="match" | "search" as name):
                raise _regular(name)
            case _:
                raise InvalidFilter(f"the filter has a part that is neither true nor false: {_HOW}")

    def _existence(self, query: FilterQuery, depth: int) -> Test:
        if query.query.singular_query():
            value = self._value(query, depth)
            return lambda root, here, work: value(root, here, work) is not _NOTHING
        nodes = self._nodes(query, depth)
        return lambda root, here, work: any(True for _ in nodes(root, here, work))

    # Values -------------------------------------------------------------------------------------------------------

    def _value(self, expression: Expression, depth: int) -> _Value:
        self._count(depth)
        match expression:
            case FilterExpressionLiteral():
                constant = _constant(expression)
                return lambda _root, _here, _work: constant
            case FilterQuery():
                return _place(expression)
            case FunctionExtension():
                return self._called(expression, depth)
            case _:
                raise InvalidFilter(f"the filter compares what has no value: {_HOW}")

    def _called(self, call: FunctionExtension, depth: int) -> _Value:
        match call.name, call.args:
            case "length", [argument]:
                value = self._value(argument, depth + 1)
                return lambda root, here, work: _length(value(root, here, work))
            case "count", [FilterQuery() as query]:
                counted = self._nodes(query, depth + 1)
                return lambda root, here, work: sum(1 for _ in counted(root, here, work))
            case "value", [FilterQuery() as query]:
                nodes = self._nodes(query, depth + 1)
                return lambda root, here, work: _only(nodes(root, here, work))
            case name, _:
                raise _regular(name)

    # Nodes --------------------------------------------------------------------------------------------------------

    def _nodes(self, query: FilterQuery, depth: int) -> _Nodes:
        is_root = isinstance(query, RootFilterQuery)
        segments = [self._segment(segment, depth) for segment in query.query.segments]

        def nodes(root: Any, here: Any, work: Work) -> Iterator[Any]:
            found: Iterator[Any] = iter([root if is_root else here])
            for segment in segments:
                found = segment(root, found, work)
            return found

        return nodes

    def _segment(self, segment: JSONPathSegment, depth: int) -> _Segment:
        selectors = [self._selector(selector, depth) for selector in segment.selectors]
        is_deep = isinstance(segment, JSONPathRecursiveDescentSegment)

        def children(root: Any, nodes: Iterator[Any], work: Work) -> Iterator[Any]:
            for node in nodes:
                for visited in _descendants(node, work) if is_deep else (node,):
                    work.spend(len(selectors) - 1)
                    for select in selectors:
                        for child in select(root, visited, work):
                            work.spend()
                            yield child

        return children

    def _selector(self, selector: JSONPathSelector, depth: int) -> _Select:
        self._count(depth)
        match selector:
            case NameSelector(name=name):
                return lambda _root, node, _work: (node[name],) if type(node) is dict and name in node else ()
            case IndexSelector(index=at):
                return lambda _root, node, _work: (node[at],) if type(node) is list and _is_in(at, node) else ()
            case SliceSelector(slice=cut):
                return lambda _root, node, work: _cut(node, cut, work)
            case WildcardSelector():
                return lambda _root, node, _work: _children(node)
            case FilterSelector(expression=inner):
                return _sifted(self.test(inner.expression, depth + 1))
            case _:
                raise InvalidFilter(f"the filter selects in a way that is not known here: {_HOW}")


def _operands(whole: Expression, operator: str) -> Iterator[Expression]:
    """List what one operator joins, in the order written, however it is bracketed."""
    waiting = [whole]
    while waiting:
        one = waiting.pop()
        if isinstance(one, LogicalExpression) and one.operator == operator:
            waiting += (one.right, one.left)
        else:
            yield one


def _joined(operator: str, tests: Sequence[Test]) -> Test:
    if operator == "&&":
        return lambda root, here, work: all(test(root, here, work) for test in tests)
    return lambda root, here, work: any(test(root, here, work) for test in tests)


def _compared(operator: str, left: _Value, right: _Value) -> Test:
    match operator:
        case "==":
            return lambda root, here, work: equal(work, left(root, here, work), right(root, here, work))
        case "!=":
            return lambda root, here, work: not equal(work, left(root, here, work), right(root, here, work))
        case "<":
            return lambda root, here, work: less(work, left(root, here, work), right(root, here, work))
        case ">":
            return lambda root, here, work: less(work, right(root, here, work), left(root, here, work))
        case "<=":
            return lambda root, here, work: at_most(work, left(root, here, work), right(root, here, work))
        case _:
            return lambda root, here, work: at_most(work, right(root, here, work), left(root, here, work))


def _constant(literal: FilterExpressionLiteral[Any]) -> Any:
    """Return a constant; a whole number as it is written, for the library rounds it."""
    written = literal.token.value
    if type(literal.value) is float and isinf(literal.value):
        raise InvalidFilter(f"the number {written[:60]} is larger than a number of JSON should be: write a smaller one")
    if type(literal.value) is int and written.removeprefix("-").isdigit():
        return int(written)
    return literal.value


def _place(query: FilterQuery) -> _Value:
    """Follow names and positions to the one value there."""
    is_root, steps = isinstance(query, RootFilterQuery), list(_steps(query.query))

    def value(root: Any, here: Any, work: Work) -> Any:
        work.spend()
        found = root if is_root else here
        for step in steps:
            if type(step) is str and type(found) is dict:
                found = found.get(step, _NOTHING)
            elif type(step) is int and type(found) is list and _is_in(step, found):
                found = found[step]
            else:
                return _NOTHING
        return found

    return value


def _steps(query: JSONPathQuery) -> Iterator[str | int]:
    for segment in query.segments:
        for selector in segment.selectors:
            if isinstance(selector, NameSelector):
                yield selector.name
            elif isinstance(selector, IndexSelector):
                yield selector.index


def _sifted(test: Test) -> _Select:
    return lambda root, node, work: (child for child in _children(node) if _counted(test, root, child, work))


def _counted(test: Test, root: Any, child: Any, work: Work) -> bool:
    work.spend()
    return test(root, child, work)


def _regular(name: str) -> InvalidFilter:
    return InvalidFilter(
        f"regular expressions ({name}) are not available in filters: compare with ==, or with >= and < for a beginning"
    )


def _is_in(at: int, node: list[Any]) -> bool:
    return -len(node) <= at < len(node)


def _length(value: Any) -> Any:
    return len(value) if isinstance(value, str | list | dict) else _NOTHING


def _only(nodes: Iterator[Any]) -> Any:
    found = next(nodes, _NOTHING)
    return found if next(nodes, _NOTHING) is _NOTHING else _NOTHING


def _cut(node: Any, cut: slice, work: Work) -> Sequence[Any]:
    if type(node) is not list or cut.step == 0:
        return ()
    work.spend(len(node) // _SEEN_TOGETHER)
    return node[cut]


def _children(node: Any) -> Collection[Any]:
    if type(node) is dict:
        return node.values()
    return node if type(node) is list else ()


def _descendants(node: Any, work: Work) -> Iterator[Any]:
    """Go through a value and all lists and objects that it holds, in whatever order."""
    waiting = [node]
    while waiting:
        work.spend()
        found = waiting.pop()
        yield found
        children = _children(found)
        work.spend(len(children) // _SEEN_TOGETHER)
        waiting.extend(child for child in children if type(child) in (dict, list))
