"""One processor's part in a bounce as it is shown and recorded, and how a bounce ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from samza_dagster.orchestration.operations.loop import RunEnd
from samza_dagster.orchestration.operations.schedule import UnitStatus
from samza_dagster.orchestration.plans.bounce import BouncePlan, Patience

if TYPE_CHECKING:
    from samza_dagster.client import ReplicaLag
    from samza_dagster.lag import NewestReadiness


@dataclass(frozen=True)
class Bounced:
    """One processor's bounce as it is shown and recorded. Times in ms since the epoch.

    `stop_ms`, `in_ms` and `failed_ms` are by the coordinator's clock, 0 where its answer isn't on
    record any more; `back_ms` is by the clock of the run.

    `down_s` is from its stop until it checked in, by the coordinator's clock; None when
    the stop wasn't told. `seconds` is from its request until it was back. `failed_ms` is of a request that failed after
    it had stopped it: nobody has seen it start. `until_ms`: it fails then, by the run's clock, if it stays as it
    is. `committed` is where the checkpoint topic ended when it was back.
    """

    processor: str
    host: str
    mode: str
    status: UnitStatus = UnitStatus.WAITING
    attempt: int = 0
    uuid: str = ""
    asked_ms: int | None = None
    stop_ms: int | None = None
    in_ms: int | None = None
    back_ms: int | None = None
    failed_ms: int | None = None
    down_s: float | None = None
    seconds: float | None = None
    until_ms: int | None = None
    lag: int | None = None
    now_on: str = ""
    execution: str = ""
    why: str = ""
    committed: int | None = None

    @property
    def has_died(self) -> bool:
        """It was back and died: its times were told before."""
        return self.status is UnitStatus.FAILED and self.back_ms is not None


def planned(plan: BouncePlan, processor_id: str) -> Bounced:
    """A processor whose bounce hasn't begun."""
    return Bounced(processor_id, plan.hosts[processor_id], plan.mode_of(processor_id))


@dataclass(frozen=True)
class Lags:
    """Lag of every replica by processor, as it was read at `at_ms` by the reader's clock.

    `newest` is the published readiness that their paces are known by, if there is any.
    """

    at_ms: int
    of: Mapping[str, Sequence[ReplicaLag]]
    newest: NewestReadiness | None = None

    def limit(self, processor: str, patience: Patience) -> int:
        """How many records it may be behind."""
        if self.newest is None:
            return patience.lag_limit
        return self.newest.limit(processor, patience.lag_limit, patience.lag_limit_s)


@dataclass(frozen=True)
class Result:
    """What became of a bounce and of each processor."""

    end: RunEnd
    because: str
    rows: tuple[Bounced, ...]

    def are(self, *statuses: UnitStatus) -> list[Bounced]:
        """The rows of these statuses."""
        return [row for row in self.rows if row.status in statuses]
