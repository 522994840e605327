"""A copy of a frozen value with some fields changed."""

from __future__ import annotations

from typing import Any, TypeVar

T = TypeVar("T")
_new = object.__new__


def evolve(value: T, **changes: Any) -> T:
    """As `dataclasses.replace`, which costs ten times as much and would be half of a step.

    For frozen dataclasses without slots and without `__post_init__`.
    """
    copy = _new(type(value))
    known = value.__dict__
    fields = copy.__dict__
    fields.update(known, **changes)
    assert len(fields) == len(known), f"{type(value).__name__} has no {set(changes) - set(known)}"
    return copy
