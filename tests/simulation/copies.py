"""An independent copy of a mutable record: worlds are forked a million times."""

from __future__ import annotations

from collections import Counter
from typing import Any, TypeVar

T = TypeVar("T")
_CONTAINERS = frozenset({dict, set, list, Counter})


def copied(value: T, **changes: Any) -> T:
    """A copy with containers of its own, as `dataclasses.replace` at a fifth of its cost.

    For a dataclass with slots. What its containers hold is shared with the original: what may
    change in place there is among the `changes`.
    """
    kind = type(value)
    copy = object.__new__(kind)
    names: tuple[str, ...] = vars(kind)["__slots__"]
    for name in names:
        held = changes[name] if name in changes else getattr(value, name)
        setattr(copy, name, held.copy() if type(held) in _CONTAINERS else held)
    return copy
