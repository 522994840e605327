"""Waiting for a condition, never for a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from tests.rig.pace import PACE

Value = TypeVar("Value")


def until(
    what: str,
    condition: Callable[[], Value | None],
    *,
    seconds: float = 30.0,
    every: float = 0.2,
) -> Value:
    """The condition's first value that is true, asked `every` so many seconds in the end.

    Fails with `what` at the deadline, which a slow machine puts off.
    """
    seconds *= PACE
    deadline = time.monotonic() + seconds
    pause = 0.01
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds:.0f} s: {what}; last seen {value!r}")
        time.sleep(pause)
        pause = min(pause * 1.5, every)
