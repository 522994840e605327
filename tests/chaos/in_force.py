"""Faults that are in force at the same time: each is taken back when its own time is over."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.chaos.schedule import Fault

Undo = Callable[[], object]
"""Takes a fault back; a text that it returns says what came of it."""


class Done(NamedTuple):
    """A fault that was carried out: whom it befell, what nobody else may touch now, the way back."""

    victim: str
    claims: frozenset[str]
    undo: Undo


@dataclass
class CarriedOut:
    """A fault, whom it befell, and when it began (s, by the given clock), with so many others in force.

    `undone_s`: when its taking back began, None before; `victim` says then what came of it, too.
    """

    fault: Fault
    victim: str
    at_s: float
    beside: int = 0
    undone_s: float | None = None


@dataclass
class InForce:
    """`clock` and `sleep` in seconds. `carry_out` gets what is claimed by those in force; it
    returns None when there is nobody else whom the fault can befall.
    """

    carry_out: Callable[[Fault, Collection[str]], Done | None]
    clock: Callable[[], float]
    sleep: Callable[[float], None]
    _held: list[_Held] = field(default_factory=list["_Held"])

    def begin(self, fault: Fault) -> CarriedOut:
        """Carries it out beside those in force; two of the same process come one after the other."""
        while True:
            at_s = self.clock()
            claimed = {claim for held in self._held for claim in held.done.claims}
            done = self.carry_out(fault, claimed)
            if done is not None:
                began = CarriedOut(fault, done.victim, at_s, len(self._held))
                self._held.append(_Held(self.clock() + fault.hold_s, began, done))
                return began
            if not self._held:
                return CarriedOut(fault, "nobody", at_s)
            self._end_next()

    def wait(self, seconds: float) -> None:
        """So long; what is over meanwhile is taken back when it is."""
        until_s = self.clock() + seconds
        while self._held and min(each.ends_s for each in self._held) <= until_s:
            self._end_next()
        self.sleep(max(0.0, until_s - self.clock()))

    def wait_for_all(self) -> None:
        """Until each has been taken back."""
        while self._held:
            self._end_next()

    def end_all(self) -> None:
        """Takes back what is in force, now; the first failure is raised when all were tried."""
        failure: Exception | None = None
        while self._held:
            try:
                self._undo(self._held.pop())
            except Exception as error:
                failure = failure or error
        if failure is not None:
            raise failure

    def _end_next(self) -> None:
        held = min(self._held, key=lambda each: each.ends_s)
        self.sleep(max(0.0, held.ends_s - self.clock()))
        self._held.remove(held)
        self._undo(held)

    def _undo(self, held: _Held) -> None:
        held.fault.undone_s = self.clock()
        came = held.done.undo()
        if isinstance(came, str) and came:
            held.fault.victim += f": {came}"


class _Held(NamedTuple):
    """`ends_s`: when its time is over."""

    ends_s: float
    fault: CarriedOut
    done: Done
