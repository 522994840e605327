"""Policies of a job: the bounds that its actions keep unless a run says otherwise."""

# No `from __future__ import annotations`: Dagster reads a component's annotations as types.

from typing import Annotated

import dagster as dg
from pydantic import Field

from samza_dagster.orchestration.bounds import Within
from samza_dagster.orchestration.config import DAY_S, MOST_LAG, RunConfig, given


class PlacementPolicies(dg.ConfigurableResource[object], dg.Resolvable):
    """A component's `policies` and, as a resource, what its ops and sensors read; times in seconds."""

    request_expiry_s: Annotated[int, Within(1, DAY_S)] = Field(
        default=120, description="Time to reserve a destination, and to hold it for the stop."
    )
    timeout_s: Annotated[int, Within(1, DAY_S)] = Field(
        default=600,
        description="How long an op waits for a request's outcome; also after which a request"
        " without an end is named.",
    )
    verify_timeout_s: Annotated[int, Within(0, DAY_S)] = Field(
        default=120, description="From SUCCEEDED to processing; 0: processing isn't waited for."
    )
    lag_limit: Annotated[int, Within(0, MOST_LAG)] = Field(
        default=10_000, description="Records that a standby may be behind and count as warm."
    )
    lag_limit_s: Annotated[float, Within(0, DAY_S)] = Field(
        default=1.0,
        description="Seconds of its own pace that a standby may be behind and count as warm, where"
        " that is more than lag_limit. Its pace is what the newest published readiness tells; one that"
        " is too old isn't used. 0: by records alone.",
    )
    sensor_interval_s: Annotated[int, Within(1, 3_600)] = Field(
        default=5,
        description="Between two ticks of a sensor; of those of checks twice that, of choices 30 s at least.",
    )
    sensor_running: bool = Field(
        default=True, description="Whether the sensors are on when they are first deployed."
    )


def bounds(config: RunConfig, policies: PlacementPolicies) -> dict[str, float]:
    """The times that every run has, in seconds, by name: what its config says, else the policy's."""
    names = ("request_expiry_s", "timeout_s", "verify_timeout_s")
    return {name: given(getattr(config, name), getattr(policies, name)) for name in names}
