"""How a rate varies: it is drawn anew every few seconds, and keeps something of what it was."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from random import Random


@dataclass(frozen=True)
class Tempo:
    """A course of factors of mean 1, each for `every_ms`; with `spread` 0 all are 1.

    `spread` is the standard deviation of their logarithms, `keeps` how much of a factor the next
    one keeps. All of it is by the seed.
    """

    seed: str = ""
    spread: float = 0.0
    every_ms: int = 10_000
    keeps: float = 0.5
    _passed: list[float] = field(default_factory=lambda: [0.0], compare=False, repr=False)
    _drawn: list[float] = field(default_factory=lambda: [0.0], compare=False, repr=False)
    _chance: list[Random] = field(default_factory=list[Random], compare=False, repr=False)

    def passed(self, at_ms: int) -> float:
        """The ms that an even course would have taken for what is done by then."""
        if not self.spread:
            return at_ms
        number, rest = divmod(max(0, at_ms), self.every_ms)
        while len(self._passed) < number + 2:
            self._draw()
        begun = self._passed[number]
        return begun + (self._passed[number + 1] - begun) * rest / self.every_ms

    def _draw(self) -> None:
        if not self._chance:
            self._chance.append(Random(self.seed))
        new = self._chance[0].gauss(0, self.spread)
        former = self._drawn[0] if len(self._passed) > 1 else new
        self._drawn[0] = self.keeps * former + math.sqrt(1 - self.keeps**2) * new
        factor = math.exp(self._drawn[0] - self.spread**2 / 2)
        self._passed.append(self._passed[-1] + factor * self.every_ms)


EVEN = Tempo()
