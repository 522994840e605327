"""Which faults come, in which order, for how long: all of it from one seed. Pure."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

WORST = (
    "freeze host",
    "cut off agent",
    "zombie leader",
    "freeze broker",
    "stop agent",
    "restart broker",
    "deafen agent",
    "mute agent",
    "kill host",
    "freeze coordinator",
    "replace coordinator",
    "stop agent and warden",
    "cut off coordinator",
    "cut off container",
)
"""Somebody lives, or may live, whom the others can't see."""
OTHERS = (
    "kill container",
    "stop container",
    "kill warden",
    "stop warden",
    "kill agent",
    "kill agent and warden",
    "kill coordinator",
    "deafen coordinator",
    "mute coordinator",
    "deafen container",
    "mute container",
    "upgrade agent",
    "hang container",
)
KINDS = WORST + OTHERS
"""`stop` and `freeze` are SIGSTOP, and SIGCONT when it is over; `kill` is SIGKILL.

`cut off`, `deafen` and `mute`: what one that lives and its server send each other is held
back, both ways, from the server, or to it. `upgrade`: the agent is killed, and one of a file that
was built anew goes on in its place. `hang`: the container gets a SIGKILL and doesn't die until it
is over. The server of an agent is the coordinator; that of
the coordinator, and of the containers of a host, the broker. `zombie leader`: the coordinator
is frozen until a spare leads.
"""
OUTLAST_A_LEASE = (
    "freeze host",
    "cut off agent",
    "stop agent",
    "deafen agent",
    "mute agent",
    "cut off coordinator",
)
"""Containers behind these lose their lease and nothing else; a coordinator without its broker
can't commit what grants one. These last so long the first time that a kind comes, and then at
times."""
_LONGEST_S = {
    "freeze host": 25.0,
    "stop agent": 25.0,
    "cut off agent": 25.0,
    "deafen agent": 25.0,
    "mute agent": 25.0,
    "cut off coordinator": 25.0,
    "deafen coordinator": 25.0,
    "mute coordinator": 25.0,
    "cut off container": 25.0,
    "deafen container": 25.0,
    "mute container": 25.0,
    "restart broker": 4.0,
}
_USUAL_S = 8.0
_TOGETHER = 0.25
_OUTLASTS = 0.25


@dataclass(frozen=True)
class Fault:
    """The `number`th, from 1. It is over after `hold_s`.

    `victim` picks among those whom it can befall. `next_after_s`: the next one begins so long
    after this one, which is then in force still; None: the next comes at rest.
    """

    number: int
    kind: str
    victim: int
    hold_s: float
    next_after_s: float | None = None

    def __str__(self) -> str:
        later = (
            ""
            if self.next_after_s is None
            else f", the next one begins after {self.next_after_s:.1f} s"
        )
        return f"{self.number}. {self.kind}, {self.hold_s:.1f} s{later}"


def schedule(
    seed: int,
    faults: int,
    kinds: tuple[str, ...] = KINDS,
    *,
    lasting: float = 1.0,
    lease_s: float = 20.0,
) -> Iterator[Fault]:
    """Each kind once before any comes again, the worst ones first; then each as often as the others.

    `lasting`: so many times as long, the same faults else. `lease_s`: what those that outlast a
    lease last longer than, by up to a half of it; a zombie leader lasts at least as long,
    since a spare waits for two thirds of it.
    """
    lots = random.Random(f"chaos {seed}")
    seen: set[str] = set()
    deck: list[str] = []
    for number in range(1, faults + 1):
        if not deck:
            deck = _deck(lots, kinds, worst_first=not seen)
        kind = deck.pop(0)
        part = lots.uniform(0.2, 1.0)
        outlasts = lots.random() < _OUTLASTS or kind not in seen
        seen.add(kind)
        if kind == "zombie leader" or (outlasts and kind in OUTLAST_A_LEASE):
            hold_s = lease_s * (1.1 + 0.4 * part)
        else:
            hold_s = part * _LONGEST_S.get(kind, _USUAL_S) * lasting
        together = lots.random() < _TOGETHER
        yield Fault(
            number,
            kind,
            lots.randrange(1_000),
            round(hold_s, 1),
            round(hold_s * lots.uniform(0.2, 0.8), 1) if together else None,
        )


def _deck(lots: random.Random, kinds: tuple[str, ...], *, worst_first: bool) -> list[str]:
    piles = [[k for k in kinds if k in WORST], [k for k in kinds if k not in WORST]]
    if not worst_first:
        piles = [list(kinds)]
    for pile in piles:
        lots.shuffle(pile)
    return [kind for pile in piles for kind in pile]
