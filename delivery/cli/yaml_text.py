"""Read YAML that a person wrote, and know on which line each part of it stands. Imported where it is needed."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, NoReturn

import yaml

from delivery.errors import InvalidInput

Steps = tuple[str | int, ...]

_TEXT = "tag:yaml.org,2002:str"


class _Loader(yaml.SafeLoader):
    """Takes no aliases, which could make much of little, and no name that is there twice in one mapping."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            event: yaml.Event = self.peek_event()  # type: ignore[no-untyped-call] # the stubs say nothing of it
            _refuse(event.start_mark, "it is an alias (*): write it out")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen = set[str]()
        for key, _ in node.value:
            if key.tag != _TEXT:
                _refuse(key.start_mark, "it is no name: put it in quotes")
            if key.value in seen:
                _refuse(key.start_mark, f"the name {key.value[:60]!r} is there twice: write it once")
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def read_yaml(text: str) -> tuple[Any, Callable[[Steps], int]]:
    """Return what it holds, and what tells the line on which something in it stands, or what holds that.

    Raises:
        InvalidInput: it is no YAML, or has an alias, a name that is no text, or one that is there twice.
    """
    try:
        loader = _Loader(text)
        root = loader.get_single_node()
        data = None if root is None else loader.construct_document(root)
    except InvalidInput:
        raise
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = "" if mark is None else f"line {mark.line + 1}, column {mark.column + 1}: "
        raise InvalidInput(f"{where}it is no YAML ({error.problem})") from None
    except (yaml.YAMLError, ValueError) as error:  # a character that may not be, a date that is none
        raise InvalidInput(f"it is no YAML ({error})") from None
    return data, _Lines(root).line


def write_yaml(document: Any) -> str:
    """Write it in the order that it has."""
    text: str = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120)
    return text


def _refuse(mark: Any, why: str) -> NoReturn:
    raise InvalidInput(f"line {mark.line + 1}, column {mark.column + 1}: {why}")


class _Lines:
    """Tells lines; each mapping is read once, however many of its names are asked for."""

    def __init__(self, root: yaml.Node | None) -> None:
        self._root = root
        self._named: dict[yaml.Node, dict[str, yaml.Node]] = {}

    def line(self, steps: Steps) -> int:
        """Return the line of what is there, or of what holds it."""
        node, line = self._root, 1
        for step in (*steps, None):
            if node is None:
                break
            line = node.start_mark.line + 1
            node = self._below(node, step)
        return line

    def _below(self, node: yaml.Node, step: str | int | None) -> yaml.Node | None:
        match node, step:
            case yaml.SequenceNode(), int() if step < len(node.value):
                found: yaml.Node = node.value[step]
                return found
            case yaml.MappingNode(), str():
                if node not in self._named:
                    self._named[node] = {key.value: value for key, value in reversed(node.value)}
                return self._named[node].get(step)
            case _:
                return None
