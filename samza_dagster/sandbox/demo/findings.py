"""The findings of a demo, and whether they fulfil its promise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from samza_dagster.model import PlacementResponse


@dataclass
class Findings:
    """The findings of any demo; their JSON is the last line of its output."""

    moved: bool = False  # everything is where the demo's action had to put it
    downtime_s: float | None = None
    missing: int | None = None
    unexplained: int | None = None
    # Hosts by processor id; by task for standalone processors.
    locality_before: dict[str, str | None] = field(default_factory=dict[str, str | None])
    locality_after: dict[str, str | None] = field(default_factory=dict[str, str | None])
    failure: str | None = None

    @property
    def is_fulfilled(self) -> bool:
        """Return whether everything that the demo promises was seen."""
        return (
            self.failure is None
            and self.moved
            and self.missing == 0
            and self.unexplained == 0
            and self.downtime_s is not None
        )

    def to_json(self, phases: Mapping[str, float], elapsed_s: float) -> dict[str, Any]:
        """Return the summary; seconds rounded to hundredths."""
        return {
            **self.__dict__,
            "ok": self.is_fulfilled,
            "phases_s": dict(phases),
            "elapsed_s": round(elapsed_s, 2),
        }


@dataclass
class MoveFindings(Findings):
    """The findings of a move that Dagster requests."""

    responses: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    restored: int | None = None
    produced_in_gap: int | None = None
    lag: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    assets: bool = False

    def add_response(self, response: PlacementResponse, at_s: float) -> None:
        """Note one status; `at_s` in seconds since the request."""
        self.responses.append(
            {
                "uuid": response.uuid,
                "processor_id": response.processor_id,
                "status": str(response.status_code),
                "message": response.response_message,
                "at_s": at_s,
            }
        )

    @property
    def is_fulfilled(self) -> bool:
        """Return whether the promise holds, with Dagster's assets and a warm store."""
        # A warm store reads little more than the records that were new to it.
        return (
            super().is_fulfilled
            and self.assets
            and self.restored is not None
            and self.produced_in_gap is not None
            and self.restored <= 2 * max(self.produced_in_gap, 1)
        )


@dataclass
class TakeoverFindings(Findings):
    """The findings of a standalone processor's death."""

    session_s: float | None = None
    # From the death until the group had agreed on a version without the processor.
    agreed_s: float | None = None
    # From the death until each of its tasks had written on its new processor.
    took_over_s: float | None = None
    # By partition: how many producers wrote to the changelog, one after the other.
    owners: dict[int, int] = field(default_factory=dict[int, int])
    two_owners: int | None = None  # how often a producer returned after another had written

    @property
    def is_fulfilled(self) -> bool:
        """Return whether the promise holds and no task had two owners."""
        return super().is_fulfilled and self.took_over_s is not None and self.two_owners == 0
