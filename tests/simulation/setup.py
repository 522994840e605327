"""What a history begins with: hosts, groups, limits. Plain values, so that a script can hold it."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from samza_dagster.placement.reducer import step
from samza_dagster.placement.state import Fencing, Limits
from tests.simulation.judges.invariants import InvariantJudge
from tests.simulation.world import World
from tests.simulation.world_state import Reducer

SKEWS_MS = (-150_000, -5_000, 0, 0, 5_000, 150_000, 4_000_000)


@dataclass(frozen=True, slots=True)
class Setup:
    """A world to be. `layout` is `0,0-0;1,1-0`: groups, each active first.

    `domains` are the hosts' fault domains, by place; "" is unknown. By `skews` (ms) their wall
    clocks are wrong, by place, too; a coordinator of epoch n runs on the machine of place n.
    """

    hosts: int
    slots: int
    layout: str
    domains: tuple[str, ...] = ()
    limits: tuple[tuple[str, int | str], ...] = ()
    affinity: bool = True
    job: str = "demo"
    skews: tuple[int, ...] = ()

    @property
    def host_names(self) -> tuple[str, ...]:
        """In order."""
        return tuple(f"host-{number}" for number in range(1, self.hosts + 1))

    @property
    def groups(self) -> dict[str, tuple[str, ...]]:
        """Group → its processors."""
        members = [tuple(group.split(",")) for group in self.layout.split(";")]
        return {group[0]: group for group in members}

    def build(self, judge: InvariantJudge | None = None, reducer: Reducer = step) -> World:
        """The world, its hosts registered and its job deployed; nothing has started yet."""
        world = World.of(
            self.host_names,
            slots=self.slots,
            domains=dict(zip(self.host_names, self.domains, strict=False)),
            skews=self.skews,
            job=self.job,
            judge=judge,
            reducer=reducer,
        )
        world.emitted = None
        values: dict[str, Any] = dict(self.limits)
        if "fencing" in values:
            values["fencing"] = Fencing(values["fencing"])
        limits = replace(Limits(host_affinity=self.affinity), **values)
        world.committed = replace(world.committed, limits=limits)
        world.deploy(self.groups, limits=limits)
        for name in self.host_names:
            world.register(name)
        return world

    def to_json(self) -> dict[str, Any]:
        """As a script holds it."""
        return {**asdict(self), "limits": dict(self.limits)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Setup:
        """The reverse; raises `KeyError` or `TypeError` for what isn't one."""
        known = {f.name for f in fields(cls)}
        if not known >= value.keys():
            raise KeyError(sorted(value.keys() - known)[0])
        given = dict(value)
        given["domains"] = tuple(given.get("domains", ()))
        given["skews"] = tuple(given.get("skews", ()))
        given["limits"] = tuple(dict(given.get("limits", {})).items())
        return cls(**given)


def draw(lots: random.Random) -> Setup:
    """A setup as the seed has it: mostly three groups of two or three on five hosts."""
    sizes = [lots.choice((1, 2, 2, 3, 3)) for _ in range(lots.choice((2, 3, 3)))]
    layout = ";".join(
        ",".join([str(g), *(f"{g}-{replica}" for replica in range(size - 1))])
        for g, size in enumerate(sizes)
    )
    hosts = max(lots.choice((4, 5, 5)), *sizes)
    domains: tuple[str, ...] = ()
    if lots.random() < 0.25 and hosts > max(sizes):
        domains = ("rack-0", *(f"rack-{place}" for place in range(hosts - 1)))
    places = len(set(domains)) or hosts
    return Setup(
        hosts=hosts,
        slots=lots.choice((3, 4, 4)),
        layout=layout,
        domains=domains,
        limits=(
            ("fencing", lots.choice(("lease", "broker"))),
            ("host_timeout_ms", lots.choice((10_000, 30_000))),
            ("lease_ms", lots.choice((15_000, 30_000))),
            ("start_timeout_ms", lots.choice((20_000, 60_000))),
            ("max_concurrent_starts", lots.choice((1, 2, 4))),
            ("max_concurrent_actions", lots.choice((1, 2, 8))),
            ("max_actions_per_host", lots.choice((1, 2))),
            ("retry_count", lots.choice((1, 8))),
            # More members than places could never all run at once.
            ("max_standbys", places - 1),
            ("container_memory_mb", lots.choice((384, 384, 256))),
            ("request_timeout_ms", lots.choice((5_000, 5_000, 2_000, 12_000))),
            ("retry_window_ms", lots.choice((300_000, 300_000, 20_000))),
            ("remembered_uuids", lots.choice((20_000, 20_000, 4))),
        ),
        affinity=lots.random() < 0.85,
        job=lots.choice(("demo", "demo", "demo", "we:ird job")),
    )


def skewed(setup: Setup, seed: int) -> Setup:
    """With clocks of machines that nobody has set by one another's; half of the seeds' are right."""
    lots = random.Random(f"skews {seed}")
    if seed % 2:
        return setup
    return replace(setup, skews=tuple(lots.choice(SKEWS_MS) for _ in range(setup.hosts)))
