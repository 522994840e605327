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


class Began(NamedTuple):
    """When a fault began (s, by the given clock), whom it befell, how many others were in force."""

    at_s: float
    victim: str
    beside: int


@dataclass
class InForce:
    """`clock` and `sleep` in seconds. `carry_out` gets what is claimed by those in force; it
    returns None when there is nobody else whom the fault can befall.
    """

    carry_out: Callable[[Fault, Collection[str]], Done | None]
    clock: Callable[[], float]
    sleep: Callable[[float], None]
    _held: list[tuple[float, Fault, Done]] = field(default_factory=list[tuple[float, Fault, Done]])
    came_of: dict[int, str] = field(default_factory=dict[int, str])
    """By a fault's number, once it is over."""
    undone_s: dict[int, float] = field(default_factory=dict[int, float])
    """By a fault's number: when its taking back began, by the given clock."""

    def begin(self, fault: Fault) -> Began:
        """Carries it out beside those in force; two of the same process come one after the other."""
        while True:
            at_s = self.clock()
            claimed = {claim for _, _, done in self._held for claim in done.claims}
            done = self.carry_out(fault, claimed)
            if done is not None:
                began = Began(at_s, done.victim, len(self._held))
                self._held.append((self.clock() + fault.hold_s, fault, done))
                return began
            if not self._held:
                return Began(at_s, "nobody", 0)
            self._end_next()

    def wait(self, seconds: float) -> None:
        """So long; what is over meanwhile is taken back when it is."""
        until_s = self.clock() + seconds
        while self._held and min(self._held, key=_end_of)[0] <= until_s:
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
            _, fault, done = self._held.pop()
            try:
                self._undo(fault, done)
            except Exception as error:
                failure = failure or error
        if failure is not None:
            raise failure

    def _end_next(self) -> None:
        next_one = min(self._held, key=_end_of)
        self.sleep(max(0.0, next_one[0] - self.clock()))
        self._held.remove(next_one)
        _, fault, done = next_one
        self._undo(fault, done)

    def _undo(self, fault: Fault, done: Done) -> None:
        self.undone_s[fault.number] = self.clock()
        came = done.undo()
        self.came_of[fault.number] = came if isinstance(came, str) else ""


def _end_of(held: tuple[float, Fault, Done]) -> float:
    return held[0]
