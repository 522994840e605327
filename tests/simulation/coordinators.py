"""A coordinator's process: what it has in memory, and what is lost with it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from samza_dagster.placement.commands import Effect
from samza_dagster.placement.state import JobState, Limits
from tests.simulation.clocks import Clock
from tests.simulation.copies import copied
from tests.simulation.resources import Requests


class ProcessState(StrEnum):
    """What a coordinator's process is able to do."""

    LEADING = "leading"
    CUT = "cut"  # the metastore is out of reach: it commits nothing, but answers agents
    PAUSED = "paused"  # stopped by a signal: it does nothing at all
    DEAD = "dead"


class Notice(StrEnum):
    """What a coordinator tells itself, without a host."""

    ALLOCATED = "allocated"
    EXPIRED = "expired"
    FENCED = "fenced"


@dataclass(slots=True)
class HostSession:
    """What a coordinator knows of a host. Times are its own clock.

    `agent` is the directory and the boot of the agent that registered last.
    """

    registered: bool = False
    lost: bool = False
    heard_ms: int = 0
    granted_ms: int = 0
    agent: tuple[str, str] | None = None

    @property
    def talks(self) -> bool:
        """It has registered and isn't lost."""
        return self.registered and not self.lost


class Trap(NamedTuple):
    """What befalls a coordinator in a step that commands something: after so many effects it crashes or is paused.

    In the first such step, or `later` ones after it.
    """

    standing: ProcessState
    effects: int
    later: int = 0


@dataclass(slots=True)
class Coordinator:
    """One term. `unsent` are effects of a committed step that haven't left yet.

    `trap` is what befalls it, `heir_trap` what will befall the one that takes over from it.
    `own` are the settings that it was started with, by which it grants leases and gives
    logins; None where they are the job's from the beginning. `began_ms` is its clock at its take-over.
    `left_out` may have been launched without a login of their own: it gives them none
    (`placement/logins.py`). Without `heeds_domains` no host is in a fault domain, whatever its agent tells.
    """

    epoch: int
    state: JobState
    clock: Clock
    own: Limits | None = None
    began_ms: int = 0
    left_out: frozenset[str] = frozenset()
    heeds_domains: bool = True
    standing: ProcessState = ProcessState.LEADING
    last_commit_ms: int = 0
    known_hosts: dict[str, HostSession] = field(default_factory=dict[str, HostSession])
    requests: Requests = field(default_factory=Requests)
    notices: list[tuple[Notice, str]] = field(default_factory=list[tuple[Notice, str]])
    unread: list[str] = field(default_factory=list[str])
    unsent: list[Effect] = field(default_factory=list[Effect])
    trap: Trap | None = None
    heir_trap: Trap | None = None

    def copy(self) -> Coordinator:
        """An independent one."""
        known = {name: copied(host) for name, host in self.known_hosts.items()}
        return copied(
            self, clock=copied(self.clock), known_hosts=known, requests=self.requests.copy()
        )

    @property
    def answers(self) -> bool:
        """It replies to agents' asks."""
        return self.standing is ProcessState.LEADING or self.standing is ProcessState.CUT
