"""Public: what a package says it offers is there, sorted, complete and documented."""

from __future__ import annotations

import importlib
import inspect
from types import ModuleType

import pytest

OFFERING = ("signing", "subscriptions", "delivery")


def order(name: str) -> tuple[int, str]:
    """Sort as ruff writes it (RUF022): CONSTANTS, Classes, functions."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2, name)


def shortcomings(module: ModuleType) -> list[str]:
    """List what is wrong with a module's `__all__`; one that offers nothing yet has nothing wrong."""
    offered: list[str] = getattr(module, "__all__", [])
    if not offered:
        return []
    missing = [name for name in offered if not hasattr(module, name)]
    own = {name for name, value in vars(module).items() if not name.startswith("_") and not inspect.ismodule(value)}
    silent = [
        name
        for name in offered
        if (inspect.isclass(value := getattr(module, name, None)) or inspect.isroutine(value)) and not value.__doc__
    ]
    return [
        *(
            []
            if offered == sorted(set(offered), key=order)
            else ["sort __all__: CONSTANTS, Classes, functions, each once"]
        ),
        *(f"{name} is in __all__ and nowhere else" for name in missing),
        *(
            f"add {name} to __all__, or give it a leading underscore"
            for name in sorted(own - set(offered) - {"annotations"})
        ),
        *(f"give {name} a docstring" for name in silent),
    ]


@pytest.mark.parametrize("package", OFFERING)
def test_what_is_offered_is_there(package: str):
    found = shortcomings(importlib.import_module(package))
    assert not found, f"{package}/__init__.py: " + "; ".join(found)


@pytest.mark.parametrize(
    ("offered", "what"),
    [
        (["b", "A"], "sort"),
        (["A", "A"], "sort"),
        (["A", "gone"], "nowhere"),
        (["A"], "add b"),
        (["A", "b"], "docstring"),
    ],
)
def test_a_bad_offer_is_refused(offered: list[str], what: str):
    module = ModuleType("bad")
    module.__dict__.update(A=type("A", (), {"__doc__": "An A."}), b=lambda: None, __all__=offered)
    assert any(what in line for line in shortcomings(module))
