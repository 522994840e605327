"""Who is where in a fleet, and what is wrong with whom; all of it by the seed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from itertools import product
from random import Random

from tests.rig.fleets.courses import Changelog, Restore
from tests.rig.fleets.tempo import EVEN, Tempo

STORE = "lab"
BEGAN_MS = 1_795_264_000_000
"""Time 0 of every fleet, in ms since the epoch."""
_SKEWED_BY_MS = 3 * 3_600_000
_SLOW_INTERVAL_S = 60
_LEAVES_MS = 5_000
"""A process that is started elsewhere has its first report no sooner."""


class Fault(StrEnum):
    """What befalls one group: an active container and its standbys."""

    NONE = "none"
    STALLED = "a standby reports on and applies nothing"
    EMPTY = "nothing was ever written to the changelog"
    COMPACTED = "most offsets of the changelog have no record any more"
    MADE_ANEW = "the changelog's topic is deleted and made again"
    MOVED = "the standby dies, its report stays, and it starts on another host"
    WIPED = "the standby starts anew on its host, with an empty disk"
    LEADERLESS = "the changelog's partitions have no leader"
    NO_CHANGELOG = "the store has no changelog"
    SLOW_REPORTS = "its containers report once a minute"
    DIED = "the standby dies, its report stays, and nobody starts it again"


_SHARES: Mapping[Fault, float] = {fault: 0.02 for fault in Fault if fault is not Fault.NONE}


@dataclass(frozen=True)
class Shape:
    """Jobs, active containers of each, standbys of each of these, tasks of each container.

    `shares` is the part of all groups that has a fault; `skewed_hosts` of the `hosts` have a
    clock that is three hours off. Faults with a moment have it about `fault_ms`. `spread` is by how
    much rates vary (`Tempo`).
    """

    jobs: int = 1000
    containers: int = 2
    standbys: int = 1
    tasks: int = 2
    hosts: int = 40
    skewed_hosts: int = 2
    interval_s: int = 10
    fault_ms: int = 60_000
    seed: int = 1
    shares: Mapping[Fault, float] = field(default_factory=lambda: _SHARES)
    spread: float = 0.0


@dataclass(frozen=True, slots=True)
class Process:
    """One incarnation of a container: it reports from `began_ms` until `ends_ms`, each interval."""

    container: str
    host: str
    began_ms: int
    ends_ms: int | None
    skew_ms: int


@dataclass(frozen=True, slots=True)
class Standby:
    """One task of a standby container over all its incarnations, in order of time."""

    task: str
    container: str
    partition: int
    changelog: Changelog
    restores: tuple[tuple[Process, Restore], ...]


@dataclass(frozen=True)
class Group:
    """An active container and its standbys, with their tasks."""

    job: str
    fault: Fault
    active: Process
    tasks: tuple[tuple[str, int], ...]
    standbys: tuple[Standby, ...]
    interval_ms: int
    phase_ms: int

    @property
    def topic(self) -> str:
        """The changelog of its store."""
        return f"{self.job}-{STORE}-changelog"


class Fleet:
    """All groups of a shape."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """In order of jobs and containers."""
        numbers = product(range(self.shape.jobs), range(self.shape.containers))
        return tuple(self._group(job, container) for job, container in numbers)

    def skew_ms(self, host: int) -> int:
        """How far ahead a host's clock is; every second one of those that are off is behind."""
        if host >= self.shape.skewed_hosts:
            return 0
        return _SKEWED_BY_MS if host % 2 else -_SKEWED_BY_MS

    def _group(self, job: int, container: int) -> Group:
        shape, chance = self.shape, Random(f"{self.shape.seed}/{job}/{container}")
        fault = _chosen(chance.random(), shape.shares)
        slow = fault is Fault.SLOW_REPORTS
        interval_ms = 1000 * (_SLOW_INTERVAL_S if slow else shape.interval_s)
        hosts = chance.sample(range(shape.hosts), 2 + shape.standbys)
        name = str(container)
        tasks = tuple(
            (f"Partition {number}", number)
            for number in range(container, shape.containers * shape.tasks, shape.containers)
        )
        changelogs = {
            number: self._changelog(chance, fault, f"{job}/{number}") for _, number in tasks
        }
        standbys: list[Standby] = []
        for replica in range(shape.standbys):
            again = fault in (Fault.MOVED, Fault.WIPED) and replica == 0
            dies = again or (fault is Fault.DIED and replica == 0)
            ends_ms = shape.fault_ms if dies else None
            mine = f"{name}-{replica}"
            lives = [self._process(mine, hosts[1 + replica], 0, ends_ms)]
            if again:
                host = hosts[-1] if fault is Fault.MOVED else hosts[1 + replica]
                lives.append(self._process(mine, host, shape.fault_ms + _LEAVES_MS, None))
            for task, number in tasks:
                changelog = changelogs[number]
                stands_ms = shape.fault_ms if fault is Fault.STALLED else None
                restores = tuple(
                    (
                        life,
                        self._restore(chance, changelog, life, stands_ms, f"{job}/{mine}/{number}"),
                    )
                    for life in lives
                )
                standbys.append(
                    Standby(f"Standby-{task}-{replica}", mine, number, changelog, restores)
                )
        return Group(
            f"job-{job:04}",
            fault,
            self._process(name, hosts[0], 0, None),
            tasks,
            tuple(standbys),
            interval_ms,
            chance.randrange(1000 * shape.interval_s),
        )

    def _process(self, container: str, host: int, began_ms: int, ends_ms: int | None) -> Process:
        return Process(container, f"host-{host:03}", began_ms, ends_ms, self.skew_ms(host))

    def _changelog(self, chance: Random, fault: Fault, name: str) -> Changelog:
        per_s, end = chance.randrange(1, 200), chance.randrange(1_000, 500_000)
        if fault is Fault.EMPTY:
            return Changelog()
        return Changelog(
            beginning=0 if chance.random() < 0.5 else end // 3,
            end_at_start=end,
            per_s=0 if chance.random() < 0.1 else per_s,
            anew_ms=self.shape.fault_ms if fault is Fault.MADE_ANEW else None,
            records_per_offset=0.25 if fault is Fault.COMPACTED else 1.0,
            has_leader=fault is not Fault.LEADERLESS,
            tempo=self._tempo(name),
        )

    def _tempo(self, name: str) -> Tempo:
        shape = self.shape
        return Tempo(f"{shape.seed}/{name}", shape.spread) if shape.spread else EVEN

    def _restore(
        self,
        chance: Random,
        changelog: Changelog,
        life: Process,
        stands_ms: int | None,
        name: str,
    ) -> Restore:
        """Three of four first incarnations have caught up long ago; the others restore, later ones slowly."""
        warm = life.began_ms == 0 and chance.random() < 0.75
        end = changelog.end_at(life.began_ms)
        return Restore(
            changelog,
            began_ms=life.began_ms,
            first=end if warm else changelog.beginning_at(life.began_ms),
            per_s=changelog.per_s + chance.randrange(200, 2_000 if life.began_ms else 20_000),
            stands_ms=stands_ms,
            ends_ms=life.ends_ms,
            tempo=self._tempo(f"{name}/{life.began_ms}"),
        )


def _chosen(drawn: float, shares: Mapping[Fault, float]) -> Fault:
    for fault, share in shares.items():
        if drawn < share:
            return fault
        drawn -= share
    return Fault.NONE
