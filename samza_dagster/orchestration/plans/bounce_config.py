"""Config of a rolling bounce."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from enum import Enum
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import dagster as dg
from pydantic import Field, model_validator

from samza_dagster.errors import InvalidInput
from samza_dagster.orchestration.config import DAY_S, MOST_LAG, Names, OpConfig, RunConfig
from samza_dagster.orchestration.plans import blackout

MOST_AT_ONCE = 64


class BounceUnit(Enum):
    """What goes as one: each container for itself, or all containers of a host."""

    containers = "containers"
    hosts = "hosts"


def _as_texts(_: dg.ResolutionContext, days: Sequence[object]) -> list[str]:
    """YAML reads an unquoted date as one."""
    return [str(day) for day in days]


def _as_time(_: dg.ResolutionContext, time: str | int) -> str:
    """YAML reads an unquoted 22:00 as 1320."""
    return time if isinstance(time, str) else f"{time // 60:02d}:{time % 60:02d}"


_Time = Annotated[str, dg.Resolver(_as_time, model_field_type=str | int)]


class BlackoutWindow(OpConfig, dg.Resolvable):
    """When no bounce may begin: hours of weekdays, dates, or hours of dates, in the bounce's zone."""

    weekdays: list[str] = Field(default=[], description="mon … sun; empty: every day.")
    dates: Annotated[list[str], dg.Resolver(_as_texts, model_field_type=list[Any])] = Field(
        default=[],
        description="YYYY-MM-DD, or YYYY-MM-DD..YYYY-MM-DD; empty: all.",
    )
    start: _Time = Field(default="00:00", description="HH:MM.")
    end: _Time = Field(default="24:00", description="HH:MM; not after start: of the next morning.")
    why: str = Field(
        default="", max_length=200, description="What a tick or a run that is skipped says."
    )

    def window(self) -> blackout.Window:
        """The window as it is asked; raises `InvalidInput`."""
        return blackout.window(
            weekdays=self.weekdays, dates=self.dates, start=self.start, end=self.end, why=self.why
        )

    @model_validator(mode="after")
    def _is_readable(self) -> BlackoutWindow:
        try:
            self.window()
        except InvalidInput as error:
            raise ValueError(str(error)) from error
        return self


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
    blackouts: list[BlackoutWindow] = Field(
        default=[],
        max_length=blackout.MOST_WINDOWS,
        description="When this run doesn't begin, unless a person goes on with it: a run of a schedule "
        "may have waited in the queue. Given by the schedule.",
    )
    timezone: str = Field(default="UTC", max_length=64, description="Of `blackouts`.")

    def why_not_at(self, now: datetime) -> str:
        """Why a clock's run may not begin `now` (aware); empty when it may."""
        windows = [made.window() for made in self.blackouts]
        return blackout.why_not(windows, now.astimezone(ZoneInfo(self.timezone)))

    @model_validator(mode="after")
    def _is_whole(self) -> RollingBounceConfig:
        if bool(self.judge_asset) != bool(self.judge_check):
            raise ValueError("judge_asset and judge_check go together")
        try:
            ZoneInfo(self.timezone)
        except (KeyError, OSError) as error:
            raise ValueError(f"no time zone {self.timezone!r}; one like Europe/Berlin") from error
        return self
