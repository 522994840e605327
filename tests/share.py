"""A part of what a long suite goes through: `SAMZA_DAGSTER_TEST_SHARE=2/5` is its second fifth.

Each share takes every fifth element, so that all of them together are the whole, and each
has something of every kind. Without the variable a suite goes through all of it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

VARIABLE = "SAMZA_DAGSTER_TEST_SHARE"
T = TypeVar("T")


class Share(NamedTuple):
    """The `number`th of `of` shares, counted from 1."""

    number: int = 1
    of: int = 1

    @classmethod
    def told(cls) -> Share:
        """By the environment. Raises `ValueError` that names the variable."""
        text = os.environ.get(VARIABLE) or "1/1"
        number, slash, of = text.partition("/")
        if not (slash and number.isdecimal() and of.isdecimal() and 1 <= int(number) <= int(of)):
            raise ValueError(f"{VARIABLE}={text}: a share is written as 2/5")
        return cls(int(number), int(of))

    def part(self, whole: Sequence[T]) -> list[T]:
        """Every `of`th element, from the `number`th on."""
        return list(whole[self.number - 1 :: self.of])


WHOLE = Share()
