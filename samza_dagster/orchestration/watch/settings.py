"""The sensors' settings in the component's YAML: bounds, defaults, units."""

# No `from __future__ import annotations`: Dagster reads these annotations as types.

from fnmatch import fnmatchcase
from typing import Annotated, Literal

import dagster as dg
from pydantic import Field

from samza_dagster.orchestration.bounds import Within, text
from samza_dagster.orchestration.config import DAY_S, MOST_LAG
from samza_dagster.orchestration.watch import invariants
from samza_dagster.orchestration.watch.findings import Hysteresis

Mode = Literal["shadow", "advise", "act"]
"""How far `auto_failover` goes."""


class AutoFailover(dg.Model, dg.Resolvable):
    """The sensor `auto_failover`. Times in seconds."""

    mode: Mode | None = Field(
        default=None,
        description="shadow: only records what it would do; advise: says what to run; act: launches that run."
        " Empty: shadow where Samza's own AM coordinates, advise elsewhere.",
    )
    host_silent_s: Annotated[int, Within(1, DAY_S)] = Field(
        default=12, description="Age of an agent's last word that looks bad."
    )
    report_silent_s: Annotated[int, Within(1, DAY_S)] = Field(
        default=90,
        description="Time without a metrics report that looks bad; two and a half of the job's own"
        " report intervals, if that is longer.",
    )
    backlog_records: Annotated[int, Within(1, MOST_LAG)] = Field(
        default=10_000, description="Input before an active from which on it is judged."
    )
    stuck_s: Annotated[int, Within(1, DAY_S)] = Field(
        default=180, description="Time without a commit, with that backlog."
    )
    cap_per_hour: Annotated[int, Within(0, 1_000)] = Field(
        default=3, description="Runs that it launches within an hour, at most."
    )
    mass_share: Annotated[float, Within(0, 1)] = Field(
        default=0.4,
        description="Share of hosts that may look bad; beyond it nothing is asked.",
    )


MOST_OBJECTIVES = 100

TICK_S = 10
"""Between two ticks of the sensors of checks: twice the default of `sensor_interval_s`."""
LOOKS = 3
"""Bad ones in turn before a breach of an objective, and good ones that end it."""
FLAPS, FLAPS_WITHIN_S = 3, 600
"""So many looks within that time at which it has come again, or is known to flap."""


class Invariants(dg.Model, dg.Resolvable):
    """The sensor `invariants`. Times in seconds."""

    grace_s: Annotated[int, Within(0, DAY_S)] = Field(
        default=60,
        description="How long a container may be down, a lag too large or a locality old. Two"
        " processes of a group on one host, and two owners, count at the second look.",
    )
    standbys: Annotated[int | None, Within(0, 100)] = Field(
        default=None, description="Standbys of each active; empty: as most have."
    )

    def patience(self, report_every_s: int = 0, tick_s: int = TICK_S) -> dict[str, Hysteresis]:
        """Return the rule of each check, looked at every `tick_s`; a lag that only one report shows is none."""
        slow = Hysteresis(looks=2, for_ms=self.grace_s * 1000)
        lag_s = max(self.grace_s, report_every_s + tick_s)
        quiet_looks = max(2, FLAPS_WITHIN_S // 2 // tick_s)
        return {
            **dict.fromkeys(invariants.ASSETS, slow),
            **dict.fromkeys(
                (invariants.SAME_HOST, invariants.ONE_OWNER, invariants.CLOCKS), Hysteresis()
            ),
            invariants.LAG: Hysteresis(looks=2, for_ms=lag_s * 1000),
            invariants.STAYS: Hysteresis(
                looks=FLAPS, within_ms=FLAPS_WITHIN_S * 1000, good_looks=quiet_looks
            ),
        }


class LagObjective(dg.Model, dg.Resolvable):
    """An objective. `standby` and `store` are patterns: `*`, `7-0`, `orders-*`."""

    standby: Annotated[str, text()] = Field(
        default="*", min_length=1, max_length=128, description="Pattern of standbys' ids."
    )
    store: Annotated[str, text()] = Field(
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

    def covers(self, processor_id: str, store: str) -> bool:
        """Return whether it is about this store of this standby."""
        return fnmatchcase(processor_id, self.standby) and fnmatchcase(store, self.store)


class LagSlo(dg.Model, dg.Resolvable):
    """The sensor `lag_slo`. Times in seconds."""

    breach_s: Annotated[int, Within(0, DAY_S)] = Field(
        default=30, description="How long a standby may be too far behind. Three good looks end it."
    )
    objectives: list[LagObjective] = Field(
        default_factory=lambda: [LagObjective(records=10_000)],
        max_length=MOST_OBJECTIVES,
        description="The stricter breach of a store of a standby counts.",
    )

    def patience(self, report_every_s: int = 0, tick_s: int = TICK_S) -> Hysteresis:
        """Return the rule of a breach, looked at every `tick_s`; what only one report shows is none."""
        breach_s = max(self.breach_s, report_every_s + tick_s)
        return Hysteresis(LOOKS, breach_s * 1000, LOOKS)
