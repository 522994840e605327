"""How far a unit is, as it is shown and recorded, and how an operation ends."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from samza_dagster.orchestration.operations.schedule import UNDER_WAY, UnitStatus
from samza_dagster.orchestration.plans.units import Unit, UnitStep

AT_WORK = (UnitStatus.STUCK, *UNDER_WAY)
"""Asked, and without an end yet."""
BAD = (UnitStatus.FAILED, UnitStatus.STUCK)
OVER = (UnitStatus.BACK, UnitStatus.GONE)


class RunEnd(StrEnum):
    """How an operation's run ended, as run tag `samza/bounce` has it."""

    DONE = "done"
    STOPPED = "stopped"
    TERMINATED = "terminated"


@dataclass(frozen=True)
class Progress:
    """One unit as far as it is carried out. Times are in ms since the epoch."""

    processor: str
    host: str
    """Where its container was when the plan was made."""
    mode: str
    status: UnitStatus = UnitStatus.WAITING
    what: str = ""
    at: int = 0
    """The number of the step that it is at."""
    attempt: int = 0
    uuid: str = ""
    """Its newest request, of which `attempt` is the number."""
    asked_ms: int | None = None
    """When its first request was written."""
    stop_ms: int | None = None
    """By the coordinator's clock, as the next two."""
    in_ms: int | None = None
    """When its container checked in."""
    back_ms: int | None = None
    """By the clock of the run."""
    failed_ms: int | None = None
    """Of a request that failed after it had stopped the container: nobody has seen it start."""
    down_s: float | None = None
    """From the stop to the check-in, by the coordinator's clock; None when no stop was reported."""
    first_commit_s: float | None = None
    """From the stop to the first commit after it."""
    seconds: float | None = None
    """From its request until it was back."""
    until_ms: int | None = None
    """It fails then, by the run's clock, if it stays as it is."""
    lag: int | None = None
    now_on: str = ""
    execution: str = ""
    """The incarnation that was seen last, on host `now_on`."""
    why: str = ""
    committed: int | None = None
    """Where the checkpoint topic ended when it was back."""
    standby: str | None = None
    """Started for its move; it lived between the next two, by the coordinator's clock."""
    standby_since_ms: int | None = None
    standby_until_ms: int | None = None

    @classmethod
    def of(cls, unit: Unit) -> Progress:
        """Of a unit that hasn't begun."""
        return cls(unit.processor, unit.host, unit.mode, what=unit.what)

    @property
    def has_died(self) -> bool:
        """It was back and died: its times were told before."""
        return self.status is UnitStatus.FAILED and self.back_ms is not None


@dataclass(frozen=True)
class EndedStep:
    """One step of a unit from when it was asked for, or begun, until its end; ms since the epoch.

    `status` is that of its request, or what was waited for; empty where a wait has failed.
    """

    step: UnitStep
    begin_ms: int
    end_ms: int
    status: str = ""
    message: str = ""
    request: str = ""


@dataclass(frozen=True)
class Result:
    """What became of an operation and of each unit."""

    end: RunEnd
    because: str
    rows: tuple[Progress, ...]

    def are(self, *statuses: UnitStatus) -> list[Progress]:
        """The rows of these statuses."""
        return [row for row in self.rows if row.status in statuses]
