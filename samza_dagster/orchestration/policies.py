"""Policies of a job: the bounds that its actions keep unless a run says otherwise."""

from __future__ import annotations

import dagster as dg
from pydantic import Field

from samza_dagster.orchestration.config import DAY_S, MOST_LAG


class PlacementPolicies(dg.ConfigurableResource[object]):
    """Time limits of placement actions, in seconds, and the lag that is too much."""

    request_expiry_s: int = Field(
        default=120, ge=1, le=DAY_S, description="Seconds to reserve a destination."
    )
    timeout_s: int = Field(
        default=600, ge=1, le=DAY_S, description="Seconds to wait for a request's outcome."
    )
    verify_timeout_s: int = Field(
        default=120, ge=0, le=DAY_S, description="Seconds from SUCCEEDED to processing."
    )
    lag_limit: int = Field(
        default=10_000,
        ge=0,
        le=MOST_LAG,
        description="Records that a standby may be behind and still count as warm.",
    )
    wait_in_run_s: int = Field(
        default=120,
        ge=0,
        le=DAY_S,
        description="Seconds that a run waits for a standby's lag before it ends and sensor "
        "continuations goes on with the wait.",
    )
    hosts: list[str] = Field(
        default_factory=list,
        description="The only hosts that a job of this component sends a standby to or starts one "
        "on; empty: any host of the job. The coordinator isn't bound where it chooses by itself: "
        "the standby of fail_over, and what it starts anew after a failure or a lost host.",
    )
