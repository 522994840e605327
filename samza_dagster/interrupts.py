"""How a signal becomes `KeyboardInterrupt` and isn't lost in a client of Kafka."""

from __future__ import annotations

import signal
from types import FrameType


def interrupts_raise(*numbers: signal.Signals) -> None:
    """From now on these signals raise `KeyboardInterrupt` in the main thread.

    Also where a shell had them ignored. Not by `signal.default_int_handler`: what that raises
    has no value yet, and confluent_kafka loses it in a callback ("error return without
    exception set", 2.16 on Python 3.11). Raises `ValueError` outside the main thread.
    """
    for number in numbers:
        signal.signal(number, _interrupt)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
