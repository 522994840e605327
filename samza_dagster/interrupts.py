"""Turns signals into exceptions that survive Kafka's clients and destructors."""

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
    """Let these signals raise `KeyboardInterrupt` in the main thread from now on.

    This also applies to signals that a shell had ignored. Raises `ValueError` outside the main
    thread.
    """
    # Not by `signal.default_int_handler`: its exception has no value yet, and confluent_kafka loses
    # it in a callback ("error return without exception set", 2.16 on Python 3.11).
    for number in numbers:
        signal.signal(number, _interrupt)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


@contextlib.contextmanager
def interrupts_deferred() -> Generator[None]:
    """Defer SIGINT and SIGTERM to the end of the block; no effect outside the main thread."""
    # Code that makes a client of Kafka does so within it: the constructor takes an interrupt for a
    # setting that isn't text (`TypeError`, confluent_kafka 2.16).
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
            if handler is not None:  # a handler that isn't Python's couldn't be restored
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
    """A hook for ignored exceptions: it repeats an interrupt, and passes all to the former hook."""

    def __init__(self, before: Callable[[sys.UnraisableHookArgs], object]) -> None:
        self._before = before

    def __call__(self, ignored: sys.UnraisableHookArgs) -> None:
        self._before(ignored)
        if not issubclass(ignored.exc_type, Exception | GeneratorExit | SystemExit):
            timer = threading.Timer(_AGAIN_S, os.kill, (os.getpid(), signal.SIGINT))
            timer.daemon = True
            timer.start()


def ignored_interrupts_come_again() -> None:
    """Send SIGINT again whenever Python ignored its handler's exception, from now on."""
    # Python ignores exceptions within a destructor or a weak reference's callback ("Exception
    # ignored in"): a run that Dagster terminates would continue and hold its place.
    if not isinstance(sys.unraisablehook, _SentAgain):
        sys.unraisablehook = _SentAgain(sys.unraisablehook)
