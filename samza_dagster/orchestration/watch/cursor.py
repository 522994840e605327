"""What `auto_failover` keeps from one look to the next: its cursor, and nothing beside it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

from samza_dagster.lag import Heard
from samza_dagster.orchestration.versioned import Versioned
from samza_dagster.orchestration.watch.hysteresis import Evidence

HOST_SICK = "host-sick"
HOST_LOST = "host-lost"
COORDINATOR_GONE = "coordinator-gone"
JOB_DEAD = "job-dead"
COORDINATOR_REPLACED = "coordinator-replaced"
SILENT = "silent"
FALLING_BEHIND = "falling-behind"
STANDBY_STALLED = "standby-stalled"
STANDBY_DOWN = "standby-down"
FLAPPING = "flapping"
OF_NO_CONTAINER = (COORDINATOR_GONE, COORDINATOR_REPLACED, JOB_DEAD)
OF_A_HOST = (HOST_SICK, HOST_LOST)
HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Suspect(Evidence):
    """Something that looks bad, and for how long it has."""

    kind: str
    subject: str
    """A host, a processor, the coordinator or the job."""
    members: tuple[tuple[str, str], ...]
    """(processor, incarnation) of each container that it is about."""
    why: str
    told: tuple[str, ...] = ()
    """What was reported of it: a report is made once while it lasts."""
    was: tuple[str, str, str] = ("", "", "")
    """Host, process and deployment when it began; empty: not known."""
    became: str = ""
    """What has taken their place, in words."""
    became_ms: int = 0
    asked: bool = False
    """A request for its group was in flight before that."""
    same: bool = False
    """The same process is there as when it began."""
    well_ms: int = 0
    """The first of the good looks."""

    @property
    def key(self) -> str:
        """What it is kept by: a processor's new incarnation is a new suspect."""
        of = () if self.kind in OF_A_HOST else (incarnation for _, incarnation in self.members)
        return "|".join((self.kind, self.subject, *of))


@dataclass(frozen=True, slots=True)
class Trend:
    """How one container has been going, kept only while something is odd about it."""

    incarnation: int
    """Checksum of its execution id, or of its host where none is known."""
    silent_ms: int | None = None
    """Since when it has reported nothing; None: it reports."""
    down_ms: int | None = None
    """Since when it doesn't run; None: it runs."""
    committed: int | None = None
    moved_ms: int = 0
    """When `committed` changed last."""
    moves: int = 0
    backlog: int = 0
    growths: int = 0
    """Commits in turn at which the backlog was larger than at the one before."""
    grows_ms: int = 0
    """The last commit at which it wasn't."""
    applied: int | None = None
    stood_ms: int = 0
    """When `applied` changed last, and the changelog's end then."""
    end: int = 0


@dataclass(frozen=True, slots=True)
class Act:
    """A run that was requested: it blocks its group until somebody acknowledges it."""

    group: str
    at_ms: int
    number: int = 0
    """Its event's number in Dagster's storage; 0: it hasn't been read back yet."""


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """The newest acknowledgement of a group, and its event's number."""

    ident: str
    number: int


@dataclass(frozen=True, slots=True)
class FailoverCursor(Versioned):
    """All that is kept of one job."""

    VERSION: ClassVar[int] = 4

    job: str
    looked_ms: int = 0
    """The last look that counted; 0: there was none."""
    clock: str = ""
    """What the times are by (`steady_now`)."""
    suspects: Mapping[str, Suspect] = field(default_factory=dict[str, Suspect])
    trends: Mapping[str, Trend] = field(default_factory=dict[str, Trend])
    heard: Mapping[str, Heard] = field(default_factory=dict[str, Heard])
    """Container and incarnation → its newest report as it was first seen."""
    committed: Heard | None = None
    """The job's newest commits as they were first seen."""
    leader: Heard | None = None
    """The leader's newest sign of life as it was first seen."""
    lost: Mapping[str, int] = field(default_factory=dict[str, int])
    """Lost host → since when; 0: for long."""
    deployment: str = ""
    deployment_ms: int = 0
    """When it was first seen in place of another; 0: it was the first."""
    acts: Mapping[str, Act] = field(default_factory=dict[str, Act])
    """Run key → the run that was requested."""
    acknowledged: Mapping[str, Acknowledgement] = field(default_factory=dict[str, Acknowledgement])
    """Group → its newest acknowledgement."""
    read_to: int = 0
    """Number of the newest event of Dagster's that was read."""

    def at(self, now_ms: int, clock: str) -> FailoverCursor:
        """Return the cursor by this clock: by another one, what is followed begins anew."""
        if clock == self.clock and now_ms >= self.looked_ms:
            return self
        return FailoverCursor(
            self.job,
            clock=clock,
            acts={key: replace(a, at_ms=min(a.at_ms, now_ms)) for key, a in self.acts.items()},
            acknowledged=self.acknowledged,
            read_to=self.read_to,
        )

    def blocks(self, act: Act) -> bool:
        """Return whether nobody has acknowledged its group since."""
        newest = self.acknowledged.get(act.group)
        return newest is None or not 0 < act.number < newest.number

    def acts_lately(self, now_ms: int) -> int:
        """Return how many count for the cap of the hour."""
        return sum(now_ms - act.at_ms < HOUR_MS for act in self.acts.values())

    def without_old_acts(self, now_ms: int) -> FailoverCursor:
        """Drop what blocks nothing and no longer counts for the cap of the hour."""
        kept = {
            key: act
            for key, act in self.acts.items()
            if self.blocks(act) or now_ms - act.at_ms < HOUR_MS
        }
        return replace(self, acts=kept)
