"""The form of `standby_readiness`."""

# No `from __future__ import annotations`: Dagster reads the annotations of configs as types.

from pydantic import Field

from samza_dagster.orchestration.config import SaidConfig


class ReadinessConfig(SaidConfig):
    """Who wants the forecast and why, and how long the standbys are looked at."""

    samples: int = Field(default=4, ge=2, le=60, description="Looks at the lag.")
    every_s: float | None = Field(
        default=None,
        ge=0,
        le=600,
        description="Seconds between them. Empty: the interval of the job's metrics reporter, and 5 at"
        " least.",
    )
