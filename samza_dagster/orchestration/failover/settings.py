"""What the component's YAML says of the sensors: bounds, defaults, units."""

# No `from __future__ import annotations`: Dagster reads these annotations as types.

from typing import TYPE_CHECKING, Literal

import dagster as dg
from pydantic import Field

from samza_dagster.orchestration.intervals import IntervalS

if TYPE_CHECKING:
    from samza_dagster.orchestration.failover.policy import Rules

DAY_S = 86_400


class AutoFailover(dg.Model, dg.Resolvable):
    """The sensor `auto_failover`. Times in seconds."""

    mode: Literal["shadow", "advise", "act"] = Field(
        default="advise",
        description="shadow: only records what it would do; advise: says what to run; act: asks itself.",
    )
    running: bool = Field(default=True, description="Whether the sensor starts switched on.")
    interval_s: IntervalS = 5
    look_every_s: float = Field(
        default=0.6, ge=0.5, le=60, description="Pause between the looks of one tick."
    )
    look_for_s: int = Field(
        default=20,
        ge=0,
        le=50,
        description="How long a tick goes on looking while nothing is to tell; 0: one look a"
        " tick. Dagster gives a tick 60 s.",
    )
    bad_looks: int = Field(default=3, ge=1, le=100, description="Bad looks before it counts.")
    bad_within_s: int = Field(default=60, ge=1, le=DAY_S, description="They lie within this.")
    good_looks: int = Field(default=3, ge=1, le=100, description="Good looks in turn that end it.")
    host_silent_s: int = Field(
        default=12, ge=1, le=DAY_S, description="Age of an agent's last word that looks bad."
    )
    report_silent_s: int = Field(
        default=90, ge=1, le=DAY_S, description="Time without a metrics report that looks bad."
    )
    backlog_records: int = Field(
        default=10_000, ge=1, description="Input before an active from which on it is judged."
    )
    stuck_s: int = Field(
        default=180, ge=1, le=DAY_S, description="Time without a commit, with that backlog."
    )
    growing_commits: int = Field(
        default=3, ge=1, le=100, description="Commits in turn at which that backlog has grown."
    )
    standby_behind_records: int = Field(default=1_000, ge=1)
    standby_stands_s: int = Field(
        default=240,
        ge=1,
        le=DAY_S,
        description="Time that a standby applies nothing while its changelog grows; longer than"
        " the coordinator's own samza.dagster.standby.stalled.ms.",
    )
    standby_down_s: int = Field(default=300, ge=1, le=DAY_S)
    leader_beats: int = Field(
        default=3, ge=2, le=100, description="Signs of life that the leader may miss."
    )
    cap_per_hour: int = Field(
        default=3, ge=0, le=1_000, description="Requests of this sensor within an hour, at most."
    )
    mass_share: float = Field(
        default=0.4,
        ge=0,
        le=1,
        description="Share of hosts that may look bad at once; beyond it nothing is asked.",
    )
    watch_s: int = Field(
        default=600, ge=1, le=DAY_S, description="How long the run that follows a request watches."
    )

    def rules(self) -> "Rules":
        """As the policy takes them."""
        from samza_dagster.orchestration.failover.policy import Mode, Rules
        from samza_dagster.orchestration.failover.signals import Limits

        return Rules(
            mode=Mode(self.mode),
            limits=Limits(
                bad_looks=self.bad_looks,
                bad_within_ms=self.bad_within_s * 1000,
                good_looks=self.good_looks,
                host_silent_ms=self.host_silent_s * 1000,
                report_silent_ms=self.report_silent_s * 1000,
                backlog_records=self.backlog_records,
                stuck_ms=self.stuck_s * 1000,
                growing_commits=self.growing_commits,
                standby_behind_records=self.standby_behind_records,
                standby_stands_ms=self.standby_stands_s * 1000,
                standby_down_ms=self.standby_down_s * 1000,
                leader_beats=self.leader_beats,
            ),
            cap_per_hour=self.cap_per_hour,
            mass_share=self.mass_share,
        )
