"""What is asked of a job under Samza's own AM, by whom, in which order: all of it from one seed. Pure."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

CLI = {
    "place": 10,
    "restart": 6,
    "any host": 4,
    "dry run": 3,
    "unknown host": 3,
    "unnamed host": 2,
    "unknown processor": 2,
    "own verb": 3,
}
"""Commands of a person, each as often as the others are by these numbers."""
DAGSTER = {
    "move_container": 8,
    "move_with_standby": 5,
    "restart_container": 6,
    "relocate_standby": 5,
    "drain_host": 2,
    "rolling_bounce": 1,
    "fail_over": 2,
    "spin_up_standby": 1,
}
"""Jobs."""
OTHERS = {
    "duplicate": 3,
    "stale deployment": 2,
    "host of its standby": 3,
    "garbage": 2,
    "poison": 2,
}
"""Records that somebody writes who heeds no rule: `poison` asks for a processor that isn't there."""
KINDS = {**CLI, **DAGSTER, **OTHERS}
KILL_AM, LOSE_NODE = "kill AM", "lose node"
FAULTS = {KILL_AM: 0.4, LOSE_NODE: 0.7}
"""Each once, after that part of the requests."""
REFUSED_THERE = frozenset({"unnamed host", "unknown processor", "own verb", "fail_over", "spin_up_standby"})  # fmt: skip
"""What is refused before anything is written, whatever else goes on."""
ABSENT_HOST, ABSENT_PROCESSOR = "host-of-nobody", "7"
_ACTIVES_ONLY = ("move_with_standby", "fail_over", "spin_up_standby", "host of its standby")


@dataclass(frozen=True)
class Ask:
    """One request, or a fault. `knows_yarn`: whoever asks knows the ResourceManager.

    `detail` chooses where a kind has several forms.
    """

    number: int
    kind: str
    processor: str
    host: str
    knows_yarn: bool
    detail: int = 0

    def __str__(self) -> str:
        return f"{self.number}: {self.kind} of {self.processor} ({self.host})"


def drawn(seed: int, count: int, *, actives: int, hosts: Sequence[str]) -> tuple[Ask, ...]:
    """So many requests and all faults: each kind once, as far as that reaches, the rest by weight."""
    rng = random.Random(seed)
    kinds = rng.sample(list(KINDS), k=len(KINDS))[:count]
    kinds += rng.choices(list(KINDS), list(KINDS.values()), k=max(0, count - len(kinds)))
    rng.shuffle(kinds)
    for fault, part in sorted(FAULTS.items(), key=lambda each: -each[1]):
        kinds.insert(round(part * count), fault)
    return tuple(_ask(rng, number, kind, actives, hosts) for number, kind in enumerate(kinds))


def _ask(rng: random.Random, number: int, kind: str, actives: int, hosts: Sequence[str]) -> Ask:
    active = str(rng.randrange(actives))
    processor = active if kind in _ACTIVES_ONLY or rng.random() < 0.5 else f"{active}-0"
    if kind == "relocate_standby":
        processor = f"{active}-0"
    return Ask(
        number, kind, processor, rng.choice(list(hosts)), rng.random() < 0.5, rng.randrange(100)
    )


def command(ask: Ask, uuid: str) -> tuple[str, ...]:
    """The words of the command line for a kind of `CLI`; `uuid` is the request's."""
    to = {
        "place": ask.host,
        "restart": "LAST_SEEN",
        "any host": "ANY_HOST",
        "dry run": ask.host,
        "unknown host": ABSENT_HOST,
        "unnamed host": ABSENT_HOST,
        "unknown processor": ask.host,
    }
    if ask.kind == "own verb":
        active = ask.processor.partition("-")[0]
        forms = (
            ("fail-over", active),
            ("place", active, "--to", "STANDBY"),
            ("place", active, "--to", ask.host, "--hold"),
            ("control-standby", "start", active, "--to", ask.host),
        )
        return (*forms[ask.detail % len(forms)], "--uuid", uuid, "--json")
    processor = ABSENT_PROCESSOR if ask.kind == "unknown processor" else ask.processor
    options = {"dry run": ("--dry-run",), "unknown host": ("--allow-unknown-host",)}
    return (
        *("place", processor, "--to", to[ask.kind]),
        *options.get(ask.kind, ()),
        *("--uuid", uuid, "--json"),
    )


def config(ask: Ask) -> Mapping[str, Any]:
    """The config of the job for a kind of `DAGSTER`."""
    if ask.kind == "drain_host":
        return {"host": ask.host, "steady_s": 0, "at_once": 1 + ask.detail % 2}
    if ask.kind == "rolling_bounce":
        return {"canaries": 0, "at_once": 1 + ask.detail % 2}
    if ask.kind == "move_container":
        return {"processor": ask.processor, "destination": ask.host}
    if ask.kind == "relocate_standby" and ask.detail % 2:
        return {"processor": ask.processor, "destination": ask.host}
    return {"processor": ask.processor}
