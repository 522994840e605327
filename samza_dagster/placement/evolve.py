"""A copy of a frozen record with some fields changed."""

from __future__ import annotations

from typing import Any, TypeVar

T = TypeVar("T")
_new = object.__new__
_set = object.__setattr__


def evolve(value: T, **changes: Any) -> T:
    """As `dataclasses.replace`, which costs ten times as much and would be half of a step.

    For frozen dataclasses without slots and without `__post_init__`. The dict is made in one
    go and given to the copy whole: half the instructions of filling the copy's own.
    """
    known = value.__dict__
    fields = known | changes
    assert len(fields) == len(known), f"{type(value).__name__} has no {set(changes) - set(known)}"
    copy = _new(type(value))
    _set(copy, "__dict__", fields)
    return copy
