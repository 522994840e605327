"""Work on several containers as it is asked for, and the plan that is made of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pydantic import Field

from samza_dagster.orchestration.config import CatchUpConfig, RunConfig, given
from samza_dagster.orchestration.moves import CatchUp, HostRow
from samza_dagster.orchestration.plans.units import Unit
from samza_dagster.orchestration.policies import PlacementPolicies

MOST_AT_ONCE = 64


@dataclass(frozen=True)
class Limits:
    """Bounds of the work, in seconds; `in_run_s` is how long a run waits before it ends."""

    request_expiry_s: float
    timeout_s: float
    verify_timeout_s: float
    catch_up: CatchUp
    in_run_s: float


class SeveralConfig(CatchUpConfig, RunConfig):
    """What work on several containers is told."""

    at_once: int = Field(
        default=1,
        ge=1,
        le=MOST_AT_ONCE,
        description="Containers that are worked on at a time. Never two of a group.",
    )

    def limits(self, policies: PlacementPolicies) -> Limits:
        """Bounds of the work: what the config says, else the policy's."""
        return Limits(
            request_expiry_s=given(self.request_expiry_s, policies.request_expiry_s),
            timeout_s=given(self.timeout_s, policies.timeout_s),
            verify_timeout_s=given(self.verify_timeout_s, policies.verify_timeout_s),
            catch_up=self.catch_up(policies.lag_limit, policies.lag_limit_s),
            in_run_s=float(policies.wait_in_run_s),
        )


@dataclass(frozen=True)
class UnitsPlan:
    """Units of work on a job, decided before anything is asked.

    `what` names the work; `subject` is the host that is drained, or empty. With `apart` a
    failure ends the work on its group alone. `refused` says of what was left out of it, and why;
    `notices` what is to be known before it.
    """

    what: str
    subject: str
    job: str
    coordinator: str
    units: tuple[Unit, ...]
    at_once: int
    limits: Limits
    before: tuple[HostRow, ...]
    if_it_fails: str = "keep"
    apart: bool = False
    refused: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As the run's record keeps it."""
        return {**asdict(self), "units": [unit.to_json() for unit in self.units]}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> UnitsPlan:
        """The plan of a record."""
        limits: dict[str, Any] = {
            **data["limits"],
            "catch_up": CatchUp(**data["limits"]["catch_up"]),
        }
        fields: dict[str, Any] = {
            **data,
            "units": tuple(Unit.from_json(unit) for unit in data["units"]),
            "limits": Limits(**limits),
            "before": tuple(
                HostRow(r["host"], r["state"], tuple(r["containers"])) for r in data["before"]
            ),
            "refused": tuple(data.get("refused", ())),
            "notices": tuple(data.get("notices", ())),
        }
        return cls(**fields)
