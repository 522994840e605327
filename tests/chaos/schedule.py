"""Which faults come, in which order, for how long: all of it from one seed. Pure."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

KINDS = (
    "kill container",
    "stop container",
    "kill warden",
    "stop warden",
    "kill agent",
    "stop agent",
    "kill agent and warden",
    "stop agent and warden",
    "kill host",
    "freeze host",
    "cut off agent",
    "kill coordinator",
    "freeze coordinator",
    "replace coordinator",
    "restart broker",
)
"""`stop` and `freeze` are SIGSTOP, and SIGCONT when it is over; `kill` is SIGKILL."""
_LONGEST_S = {"freeze host": 25.0, "stop agent": 25.0, "cut off agent": 25.0, "restart broker": 4.0}
_USUAL_S = 8.0
_OVERLAP = 0.25


@dataclass(frozen=True)
class Fault:
    """The `number`th, from 1. It is over after `hold_s`; the next one comes at rest, unless `joined`.

    `victim` picks among those whom it can befall.
    """

    number: int
    kind: str
    victim: int
    hold_s: float
    joined: bool

    def __str__(self) -> str:
        return (
            f"{self.number}. {self.kind}, {self.hold_s:.1f} s{', not alone' if self.joined else ''}"
        )


def schedule(
    seed: int, faults: int, kinds: tuple[str, ...] = KINDS, *, lasting: float = 1.0
) -> Iterator[Fault]:
    """Each kind as often as the others, but for one; a `joined` one doesn't wait for rest after it.

    `lasting`: so many times as long, the same faults else.
    """
    lots = random.Random(f"chaos {seed}")
    deck: list[str] = []
    for number in range(1, faults + 1):
        if not deck:
            deck = list(kinds)
            lots.shuffle(deck)
        kind = deck.pop()
        longest = _LONGEST_S.get(kind, _USUAL_S)
        yield Fault(
            number,
            kind,
            lots.randrange(1_000),
            round(lots.uniform(0.2, 1.0) * longest * lasting, 1),
            lots.random() < _OVERLAP,
        )
