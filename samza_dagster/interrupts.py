"""How a signal becomes an exception, and isn't lost in a client of Kafka nor in a destructor."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Generator
from types import FrameType
from typing import Any


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


@contextlib.contextmanager
def interrupts_deferred() -> Generator[None]:
    """Keeps SIGINT and SIGTERM until the block has ended; nothing outside the main thread.

    What makes a client of Kafka does so within it: the constructor takes an interrupt for a
    setting that isn't text (`TypeError`, confluent_kafka 2.16).
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before: dict[signal.Signals, Any] = {}

    def note(number: int, _frame: FrameType | None) -> None:
        came.append(number)

    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            handler = signal.getsignal(number)
            if handler is not None:  # one that isn't Python's couldn't be put back
                before[number] = handler
                signal.signal(number, note)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for number in came:
            signal.raise_signal(number)


_AGAIN_S = 0.1


class _SentAgain:
    """A hook for what Python ignores: an interrupt comes once more, all is told to the hook before."""

    def __init__(self, before: Callable[[sys.UnraisableHookArgs], object]) -> None:
        self._before = before

    def __call__(self, ignored: sys.UnraisableHookArgs) -> None:
        self._before(ignored)
        if not issubclass(ignored.exc_type, Exception | GeneratorExit | SystemExit):
            timer = threading.Timer(_AGAIN_S, os.kill, (os.getpid(), signal.SIGINT))
            timer.daemon = True
            timer.start()


def ignored_interrupts_come_again() -> None:
    """From now on SIGINT is sent again when Python has ignored what its handler raised.

    It ignores whatever is raised within a destructor or a weak reference's callback ("Exception
    ignored in"): a run that was told to end, by Dagster's handler, would go on and hold its place.
    """
    if not isinstance(sys.unraisablehook, _SentAgain):
        sys.unraisablehook = _SentAgain(sys.unraisablehook)
