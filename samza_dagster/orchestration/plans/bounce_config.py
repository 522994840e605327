"""Config of a rolling bounce."""

from __future__ import annotations

from enum import Enum

from pydantic import Field, model_validator

from samza_dagster.orchestration.config import DAY_S, MOST_LAG, Names, RunConfig

MOST_AT_ONCE = 64


class BounceUnit(Enum):
    """What goes as one: each container for itself, or all containers of a host."""

    containers = "containers"
    hosts = "hosts"


class RollingBounceConfig(RunConfig):
    """Whom to restart, how many at once, and when to stop."""

    unit: BounceUnit = Field(
        default=BounceUnit.containers,
        description="containers: each for itself; hosts: host after host, each with all its containers.",
    )
    only: Names = Field(
        default=[],
        description="Processor ids or host names to bounce. Empty: all.",
    )
    skip: Names = Field(default=[], description="Processor ids or host names to leave alone.")
    at_once: int = Field(
        default=1,
        ge=1,
        le=MOST_AT_ONCE,
        description="Containers that are down or not yet back at a time; one that failed or died counts until it runs. "
        "A standby that runs and hasn't reported its lag yet counts no more. Never two of a group.",
    )
    canaries: int = Field(
        default=1,
        ge=0,
        le=1_000,
        description="Units that go first, alone; then comes bake_s, then the judge. 0: none.",
    )
    bake_s: int = Field(
        default=60,
        ge=0,
        le=DAY_S,
        description="Seconds that the canary is watched before the others follow.",
    )
    judge_asset: str = Field(
        default="",
        max_length=255,
        description="Asset (parts joined by /) whose check judges the canary. Empty: the canary must "
        "still run, process and have its lag back.",
    )
    judge_check: str = Field(
        default="",
        max_length=255,
        description="Name of that asset's check; its first result after the bake counts.",
    )
    judge_timeout_s: int = Field(
        default=600, ge=1, le=DAY_S, description="Seconds to wait for that result; none is a no."
    )
    stop_after_failures: int = Field(
        default=1,
        ge=1,
        le=10_000,
        description="Failures after which nothing more is asked. One of the canary always stops.",
    )
    lag_limit: int | None = Field(
        default=None,
        ge=0,
        le=MOST_LAG,
        description="Records that any store of a bounced container may be behind to count as back. "
        "Empty: the policy's.",
    )
    lag_timeout_s: int = Field(
        default=1_800,
        ge=0,
        le=DAY_S,
        description="Seconds from check-in until its lag is back; 0 doesn't wait for lag.",
    )

    @model_validator(mode="after")
    def _is_whole(self) -> RollingBounceConfig:
        if bool(self.judge_asset) != bool(self.judge_check):
            raise ValueError("judge_asset and judge_check go together")
        return self
