"""Frozen records that cost little to make: one step of the heart makes a dozen of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(kind: type[T]) -> type[T]:
    """As `dataclass(frozen=True)`, but `__init__` writes to the instance's dict.

    That of `dataclasses` calls `object.__setattr__` for each field, which was a sixth of a
    step: 1.7 µs for eight fields against 0.6 µs (Python 3.11). attrs does it this way too.
    For classes without slots, `__post_init__` and default factories.
    """
    made: Any = dataclass(frozen=True)(kind)
    init = _init(made)
    init.__qualname__, init.__annotations__ = (
        made.__init__.__qualname__,
        made.__init__.__annotations__,
    )
    made.__init__ = init
    return made


def _init(kind: Any) -> Callable[..., None]:
    arguments: list[str] = []
    lines: list[str] = []
    defaults: dict[str, Any] = {}
    for place, known in enumerate(fields(kind)):
        assert known.default_factory is MISSING, f"{kind.__name__}.{known.name} has a factory"
        arguments.append(known.name)
        if known.default is not MISSING:
            defaults[f"_{place}"] = known.default
            arguments[-1] = f"{known.name}=_{place}"
        lines.append(f"    __dict[{known.name!r}] = {known.name}")
    signature = ", ".join(["self", *arguments])
    source = f"def __init__({signature}):\n    __dict = self.__dict__\n" + "\n".join(lines)
    made: dict[str, Any] = {}
    # As `dataclasses` does: a loop over the names at run time would cost what is saved.
    exec(source, defaults, made)  # noqa: S102
    return made["__init__"]
