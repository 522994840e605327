"""Interrupts that Python ignores."""

from __future__ import annotations

import gc
import sys
import threading
import weakref

import pytest

from samza_dagster.interrupts import ignored_interrupts_come_again

pytestmark = [
    pytest.mark.unit,
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


class Collected:
    """Something that is collected while a signal comes."""


def test_an_interrupt_in_the_callback_of_a_weak_reference_ends_a_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was lost: a cancelled run went on, and held its destination."""
    monkeypatch.setattr(sys, "unraisablehook", lambda _ignored: None)
    ignored_interrupts_come_again()
    ignored_interrupts_come_again()  # one is enough

    with pytest.raises(KeyboardInterrupt):
        waits_while_one_is_collected()


def waits_while_one_is_collected() -> None:
    """Its callback raises what the handler of a signal would, were it to come just then."""

    def interrupted(_reference: weakref.ref[Collected]) -> None:
        raise KeyboardInterrupt

    one = Collected()
    reference = weakref.ref(one, interrupted)
    del one
    gc.collect()
    assert reference() is None
    threading.Event().wait(20)


def test_another_error_that_python_ignores_interrupts_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is told as before."""
    told: list[type[BaseException]] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda ignored: told.append(ignored.exc_type))
    ignored_interrupts_come_again()
    monkeypatch.setattr(threading, "Timer", None)

    def wrong(_reference: weakref.ref[Collected]) -> None:
        raise ValueError

    one = Collected()
    reference = weakref.ref(one, wrong)
    del one
    gc.collect()
    assert reference() is None
    assert told == [ValueError]
