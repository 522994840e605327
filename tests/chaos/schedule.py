"""Which faults come, in which order, for how long: all of it from one seed. Pure."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import zip_longest

from tests.chaos.clocks import SET

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
    *SET,
)
KINDS = WORST + OTHERS
OF_SEVERAL_BROKERS = (
    "kill state leader",
    "kill transaction leader",
    "lose broker",
    "expire broker",
    "empty broker",
    "roll brokers",
    "move transactions",
    "reassign partitions",
    "cut off broker",
)
"""What can befall one of three and leaves a majority. `lose` and `expire`: killed, and frozen, for
longer than its session, after which its controller fences it; `empty`: killed, and back without its data; `roll`:
each in turn, in order. `cut off broker`: one, from the containers of one host.
"""
OF_YARN = (
    "lose node manager",
    "restart resource manager",
    "freeze gateway",
    "kill node manager",
    "kill gateway",
)
"""What else can befall a job whose containers are YARN's. A NodeManager and the ResourceManager are
killed alone; `lose`: for longer than the ResourceManager waits for a node. `gateway`: the JVM through which
the coordinator speaks with YARN.
"""
"""`stop` and `freeze` are SIGSTOP, and SIGCONT when it is over; `kill` is SIGKILL.

`cut off`, `deafen` and `mute`: what one that lives and its server send each other is held
back, both ways, from the server, or to it. `upgrade`: the agent is killed, and one of a file that
was built anew goes on in its place. `hang`: the container gets a SIGKILL and doesn't die until it
is over. `set back`, `set ahead`: a host's wall clock is, and back again when it is over. The server of an agent is the coordinator; that of
the coordinator, and of the containers of a host, the broker. `zombie leader`: the coordinator
is frozen until a spare leads.
"""
HOST_TIMEOUT_S = 10.0
"""After such a silence a host is lost."""
NODE_EXPIRY_S = 8.0
"""After such a silence of its NodeManager a node is LOST for YARN's ResourceManager."""
BROKER_SESSION_S = 6.0
"""So long a broker may be silent before its controller fences it (`broker_settings`)."""
ELECTION_S = 4.0
"""If it was the controller itself, another one is elected first, which counts anew."""
LEASE_BOUND_S = 4.0
"""With leases alone a lost host's tasks are others' so long after its lease."""
START_S = 8.0
"""By then a successor that may start has written."""
OUTLAST_A_LEASE = (
    "cut off agent",
    "stop agent",
    "deafen agent",
    "mute agent",
    "cut off coordinator",
)
"""Containers behind these lose their lease and nothing else; a coordinator without its broker
can't commit what grants one. These last so long the first time that a kind comes, and then at
times."""
OUTLAST_A_SESSION = ("lose broker", "expire broker")
"""Each time."""
KEEPERLESS = "stop agent and warden"
"""With the fence it is one of these: the container lives beyond its lease, and the brokers alone
refuse it. Leases can't end what nobody keeps, so with them alone it is over long before."""
APART_WITHOUT_A_FENCE = (KEEPERLESS, "cut off container", "mute container")
"""With leases alone these come with no other in force. What a container wrote before another
fault ended it arrives with its link's mending, and a lease that another fault lets run out
may end while both keepers are stopped: both are a second owner that only the fence excludes."""
_LONGEST_S = {
    "freeze host": 25.0,
    "stop agent": 25.0,
    "cut off agent": 25.0,
    "deafen agent": 25.0,
    "mute agent": 25.0,
    "cut off coordinator": 25.0,
    "deafen coordinator": 25.0,
    "mute coordinator": 25.0,
    "cut off container": 16.0,
    "deafen container": 16.0,
    "mute container": 16.0,
    "restart broker": 4.0,
    "cut off broker": 16.0,
}
_USUAL_S = 8.0
_TOGETHER = 0.25
_OUTLASTS = 0.25
_FROZEN_HOST_OUTLASTS = 0.6
"""Those alone show two owners where there is no fence, and not each befalls an active."""


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
    fenced: bool = True,
) -> Iterator[Fault]:
    """Each kind once before any comes again, the worst ones first, by turns with those of several
    brokers or of YARN; then each as often as the others.

    `lasting`: so many times as long, the same faults else. `lease_s`: what some last longer
    than (`_outlasting_s`). Not `fenced`, with leases alone: the same kinds, victims and
    lengths, but what `KEEPERLESS` and `APART_WITHOUT_A_FENCE` say.
    """
    drawn = _drawn(seed, faults, kinds, lasting=lasting, lease_s=lease_s, fenced=fenced)
    return drawn if fenced else _set_apart(drawn)


def _drawn(
    seed: int,
    faults: int,
    kinds: tuple[str, ...],
    *,
    lasting: float,
    lease_s: float,
    fenced: bool,
) -> Iterator[Fault]:
    """As many lots for each fault, whatever comes of them."""
    lots = random.Random(f"chaos {seed}")
    seen: set[str] = set()
    deck: list[str] = []
    for number in range(1, faults + 1):
        if not deck:
            deck = _deck(lots, kinds, worst_first=not seen)
        kind = deck.pop(0)
        part = lots.uniform(0.2, 1.0)
        at_times = _FROZEN_HOST_OUTLASTS if kind == "freeze host" else _OUTLASTS
        always = kind in ("zombie leader", "lose node manager", *OUTLAST_A_SESSION)
        outlasts = lots.random() < at_times or kind not in seen or always
        seen.add(kind)
        longer_s = _outlasting_s(kind, part, lease_s, fenced=fenced) if outlasts else None
        usual_s = part * _LONGEST_S.get(kind, _USUAL_S) * lasting
        hold_s = usual_s if longer_s is None else longer_s
        together = lots.random() < _TOGETHER
        yield Fault(
            number,
            kind,
            lots.randrange(1_000),
            round(hold_s, 1),
            round(hold_s * lots.uniform(0.2, 0.8), 1) if together else None,
        )


def _outlasting_s(kind: str, part: float, lease_s: float, *, fenced: bool) -> float | None:
    """How long one lasts that outlasts something; None of a kind that needn't.

    A frozen host thaws when its successors run, for want of a fence too. A spare waits for
    two thirds of a lease before it leads in a zombie's place.
    """
    if kind == "freeze host":
        return lease_s + LEASE_BOUND_S + START_S + 6.0 * part
    if kind in OUTLAST_A_SESSION:
        return BROKER_SESSION_S + ELECTION_S + 6.0 * part
    if kind == "lose node manager":
        return NODE_EXPIRY_S * (1.4 + 0.6 * part)
    if kind == "kill host":
        return HOST_TIMEOUT_S * (1.2 + 0.6 * part)
    if kind in (*OUTLAST_A_LEASE, "zombie leader") or (fenced and kind == KEEPERLESS):
        return lease_s * (1.1 + 0.4 * part)
    return None


def _set_apart(faults: Iterable[Fault]) -> Iterator[Fault]:
    """Nothing is in force beside `APART_WITHOUT_A_FENCE`: neither its neighbours nor theirs."""
    before: Fault | None = None
    for fault in faults:
        if before is not None:
            yield replace(before, next_after_s=None) if _is_apart(before, fault) else before
        before = fault
    if before is not None:
        yield before


def _is_apart(one: Fault, other: Fault) -> bool:
    return one.kind in APART_WITHOUT_A_FENCE or other.kind in APART_WITHOUT_A_FENCE


def _deck(lots: random.Random, kinds: tuple[str, ...], *, worst_first: bool) -> list[str]:
    """What several brokers, or YARN, alone can suffer comes by turns with the worst, so beside it, too."""
    if not worst_first:
        deck = list(kinds)
        lots.shuffle(deck)
        return deck
    some = (*OF_SEVERAL_BROKERS, *OF_YARN)
    piles = [[k for k in kinds if k in pile] for pile in (some, WORST, OTHERS)]
    for pile in piles:
        lots.shuffle(pile)
    special, worst, others = piles
    by_turns = [kind for pair in zip_longest(special, worst) for kind in pair if kind]
    return [*by_turns, *others]
