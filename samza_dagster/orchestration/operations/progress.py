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
    """One unit as far as it is carried out. Times are in ms since the epoch.

    `host` is where its container was, `now_on` where it was seen last, as incarnation `execution`. `at` is the step
    that it is at. `uuid` is its newest request, `attempt` the number of that. `asked_ms` is of its first request.
    `stop_ms`, `in_ms` and `failed_ms` are by the coordinator's clock, 0 where the answer isn't on
    record any more; `back_ms` is by the clock of the run.

    `down_s` is from the container's stop until it checked in, by the coordinator's clock; None when the stop wasn't
    told. `first_commit_s` is from there to its first commit, `seconds` from its request until it was back.
    `failed_ms` is of a request that failed after it had stopped the container: nobody has seen it start.
    `until_ms`: it fails then, by the run's clock, if it stays as it is. `committed` is where the checkpoint topic
    ended when it was back. `standby` was started for its move, and lived between `standby_since_ms` and `standby_until_ms`.
    """

    processor: str
    host: str
    mode: str
    status: UnitStatus = UnitStatus.WAITING
    what: str = ""
    at: int = 0
    attempt: int = 0
    uuid: str = ""
    asked_ms: int | None = None
    stop_ms: int | None = None
    in_ms: int | None = None
    back_ms: int | None = None
    failed_ms: int | None = None
    down_s: float | None = None
    first_commit_s: float | None = None
    seconds: float | None = None
    until_ms: int | None = None
    lag: int | None = None
    now_on: str = ""
    execution: str = ""
    why: str = ""
    committed: int | None = None
    standby: str | None = None
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
