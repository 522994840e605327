"""What the component's YAML says of `invariants` and `lag_slo`: bounds, defaults, units."""

# No `from __future__ import annotations`: Dagster reads these annotations as types.

from typing import TYPE_CHECKING, Annotated, Literal

import dagster as dg
from pydantic import Field

from samza_dagster.orchestration.bounds import IntervalS, Within
from samza_dagster.orchestration.watch import names
from samza_dagster.orchestration.config import DAY_S, MOST_LAG
from samza_dagster.orchestration.watch.hysteresis import Hysteresis

if TYPE_CHECKING:
    from samza_dagster.orchestration.watch.lag_objectives import Objective

MOST_OBJECTIVES = 100


class Invariants(dg.Model, dg.Resolvable):
    """The sensor `invariants`. Times in seconds."""

    running: bool = Field(default=True, description="Whether the sensor starts switched on.")
    interval_s: IntervalS = Field(default=10, description="Between two ticks.")
    grace_s: Annotated[int, Within(0, DAY_S)] = Field(
        default=60,
        description="How long a container may be down, a lag too large or a locality old. Two"
        " processes of a group on one host, and two owners, count at the second look.",
    )
    repeat_s: Annotated[int, Within(60, DAY_S)] = Field(
        default=3_600, description="A check is told again after it, unchanged."
    )
    standbys: Annotated[int | None, Within(0, 100)] = Field(
        default=None, description="Standbys of each active; empty: as most have."
    )

    def patience(self, report_every_s: int = 0) -> dict[str, Hysteresis]:
        """Of each check; a lag that only one report shows is none."""
        slow = Hysteresis(looks=2, for_ms=self.grace_s * 1000)
        lag_s = max(self.grace_s, report_every_s + self.interval_s)
        return {
            names.SAME_HOST: Hysteresis(),
            names.REPLICAS: slow,
            names.ONE_OWNER: Hysteresis(),
            names.LAG: Hysteresis(looks=2, for_ms=lag_s * 1000),
            names.LOCALITY: slow,
            names.CLOCKS: Hysteresis(),
        }


class LagObjective(dg.Model, dg.Resolvable):
    """One objective. `standby` and `store` are patterns: `*`, `7-0`, `orders-*`."""

    standby: str = Field(
        default="*", min_length=1, max_length=128, description="Pattern of standbys' ids."
    )
    store: str = Field(
        default="*", min_length=1, max_length=255, description="Pattern of stores' names."
    )
    records: Annotated[int | None, Within(0, MOST_LAG)] = Field(
        default=None, description="Records behind, at most."
    )
    seconds: Annotated[float | None, Within(most=DAY_S, above=0)] = Field(
        default=None, description="Seconds until ready by forecast, at most."
    )
    severity: Literal["warn", "error"] = Field(
        default="warn", description="Of the check lag_objective while this one is breached."
    )


class LagSlo(dg.Model, dg.Resolvable):
    """The sensor `lag_slo`. Times in seconds."""

    running: bool = Field(default=True, description="Whether the sensor starts switched on.")
    interval_s: IntervalS = Field(default=10, description="Between two ticks.")
    breach_looks: Annotated[int, Within(1, 1_000)] = Field(
        default=3, description="Bad looks before a breach."
    )
    breach_s: Annotated[int, Within(0, DAY_S)] = Field(default=30, description="And over so long.")
    recovery_looks: Annotated[int, Within(1, 1_000)] = Field(
        default=3, description="Good looks that end it."
    )
    repeat_s: Annotated[int, Within(60, DAY_S)] = Field(
        default=3_600, description="A breach that goes on is told again after it."
    )
    objectives: list[LagObjective] = Field(
        default_factory=lambda: [LagObjective(records=10_000)],
        max_length=MOST_OBJECTIVES,
        description="The stricter breach of a store of a standby counts.",
    )

    def parsed(self) -> "list[Objective]":
        """As the rules take them."""
        from samza_dagster.orchestration.watch.lag_objectives import Objective

        return [
            Objective(o.standby, o.store, o.records, o.seconds, o.severity.upper())
            for o in self.objectives
        ]

    def patience(self, report_every_s: int = 0) -> Hysteresis:
        """Of a breach; what only one report shows is none."""
        breach_s = max(self.breach_s, report_every_s + self.interval_s)
        return Hysteresis(self.breach_looks, breach_s * 1000, self.recovery_looks)
