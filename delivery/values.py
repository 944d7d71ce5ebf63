"""Values that are made by the thousand a second."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def valueclass(cls: type[T]) -> type[T]:
    """Make a slotted, keyword-only dataclass that nobody changes: the type checker sees to it, and not each new one.

    Why: one that is frozen at run time takes two and a half times as long to make, which was a tenth of a delivery.
    """
    return dataclass(slots=True, kw_only=True, unsafe_hash=True)(cls)
