"""The cursor of `auto_failover`: all that it keeps from one look to the next. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import ClassVar

from samza_dagster.lag import Heard
from samza_dagster.orchestration.versioned import Versioned


class Kind(StrEnum):
    """The kind of trouble."""

    HOST_SICK = "host-sick"
    COORDINATOR_GONE = "coordinator-gone"
    COORDINATOR_REPLACED = "coordinator-replaced"
    JOB_DEAD = "job-dead"
    SILENT = "silent"
    FALLING_BEHIND = "falling-behind"
    STANDBY_STALLED = "standby-stalled"


OF_NO_CONTAINER = (Kind.COORDINATOR_GONE, Kind.COORDINATOR_REPLACED, Kind.JOB_DEAD)
BAD_LOOKS, GOOD_LOOKS = 2, 3
"""Looks in turn after which a suspect counts, and after which it is over."""
HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Suspect:
    """Something that looks bad, and for how long it has."""

    kind: Kind
    subject: str
    """A host, a processor, the coordinator or the job."""
    members: tuple[tuple[str, str], ...]
    """(processor, incarnation) of each container that it is about."""
    why: str
    since_ms: int
    was: str = ""
    """What there was of its subject when it began (`Observation.state_of`); empty: not known."""
    became: str = ""
    """The same when it was over."""
    told: tuple[str, ...] = ()
    """The ids of its reports (`Decision.event`)."""
    bad: int = 0
    good: int = 0

    @property
    def key(self) -> str:
        """Return what it is kept by: a processor's new incarnation is a new suspect."""
        of = () if self.kind == Kind.HOST_SICK else (incarnation for _, incarnation in self.members)
        return "|".join((self.kind, self.subject, *of))

    @property
    def is_confirmed(self) -> bool:
        """Return whether it counts."""
        return self.bad >= BAD_LOOKS

    @property
    def is_over(self) -> bool:
        """Return whether good looks have ended it; one does before it counts."""
        return self.good >= (GOOD_LOOKS if self.is_confirmed else 1)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far one container has come, by when each change was first seen."""

    identity: int
    """Checksum of its incarnation (`ContainerSeen.identity`): the cursor has one of each container."""
    reported: Heard
    position: Heard
    level_ms: int
    """The last look at which it wasn't behind."""
    end: int
    """Its changelog's end then, or when its position changed."""

    @property
    def stands_since_ms(self) -> int:
        """Return since when it has been behind at one position."""
        return max(self.position.at_ms, self.level_ms)


@dataclass(frozen=True, slots=True)
class Act:
    """A run that was requested: it blocks its group until somebody acknowledges it."""

    group: str
    at_ms: int
    number: int = 0
    """Its event's number in Dagster's storage; 0: it hasn't been read back yet."""


@dataclass(frozen=True, slots=True)
class FailoverCursor(Versioned):
    """All that is kept of one job."""

    VERSION: ClassVar[int] = 6

    job: str
    looked_ms: int = 0
    suspects: Mapping[str, Suspect] = field(default_factory=dict[str, Suspect])
    progress: Mapping[str, Progress] = field(default_factory=dict[str, Progress])
    leader: Heard | None = None
    """The leader's newest beat as it was first seen."""
    deployment: str = ""
    """The deployment of Samza's AM."""
    replaced: str = ""
    """The one before it; empty: none was seen."""
    deployment_ms: int = 0
    """When it was first seen."""
    acts: Mapping[str, Act] = field(default_factory=dict[str, Act])
    """Run key → the run that was requested."""
    acknowledged: Mapping[str, int] = field(default_factory=dict[str, int])
    """Group → the number of its newest acknowledgement."""
    read_to: int = 0
    """Number of the newest event of Dagster's that was read."""

    def at(self, now_ms: int) -> FailoverCursor:
        """Return the cursor as of now: where the clock was set back, what is followed begins anew."""
        if now_ms >= self.looked_ms:
            return self
        return FailoverCursor(
            self.job,
            acts={key: replace(a, at_ms=min(a.at_ms, now_ms)) for key, a in self.acts.items()},
            acknowledged=self.acknowledged,
            read_to=self.read_to,
        )

    def blocks(self, act: Act) -> bool:
        """Return whether nobody has acknowledged its group since."""
        return not 0 < act.number < self.acknowledged.get(act.group, 0)

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
