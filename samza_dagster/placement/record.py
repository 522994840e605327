"""Frozen records of the reducer's state."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Self, TypeVar, cast, dataclass_transform

T = TypeVar("T")


class Evolving:
    """A record with `evolve`."""

    __slots__ = ()

    def evolve(self, **changes: Any) -> Self:
        """Return a copy with some fields changed; raises `TypeError` for a field that it hasn't."""
        return replace(cast("Any", self), **changes)


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(kind: type[T]) -> type[T]:
    """Make a class a frozen dataclass with slots."""
    return dataclass(frozen=True, slots=True)(kind)
