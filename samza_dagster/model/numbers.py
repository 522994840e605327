"""Whole numbers in untrusted input."""

from __future__ import annotations

JAVA_LONG_MAX = 2**63 - 1
_DIGITS = len(str(JAVA_LONG_MAX))


def long_or_none(value: object) -> int | None:
    """Return a number from 0 in a Java long's range, also from its digits; None for anything else.

    JSON and `int` know larger ones, infinity and the digits of other alphabets, which break
    later computations.
    """
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= _DIGITS:
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if 0 <= value <= JAVA_LONG_MAX else None
