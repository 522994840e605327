"""What the demo has seen, and whether it is all that the demo promises."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from samza_dagster.model import PlacementResponse


@dataclass
class Findings:
    """What the demo has seen so far; its JSON is the last line that it prints."""

    moved: bool = False
    responses: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    downtime_s: float | None = None
    missing: int | None = None
    unexplained: int | None = None
    restored: int | None = None
    produced_in_gap: int | None = None
    lag: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    locality_before: dict[str, str | None] = field(default_factory=dict[str, str | None])
    locality_after: dict[str, str | None] = field(default_factory=dict[str, str | None])
    assets: bool = False
    failure: str | None = None

    def add_response(self, response: PlacementResponse, at_s: float) -> None:
        """Notes one status; `at_s` in seconds since the move was asked for."""
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
    def all_held(self) -> bool:
        """Everything that the demo promises was seen."""
        return (
            self.failure is None
            and self.moved
            and self.assets
            and self.missing == 0
            and self.unexplained == 0
            and self.downtime_s is not None
            and self.restored is not None
            and self.produced_in_gap is not None
            and self.restored <= 2 * max(self.produced_in_gap, 1)
        )

    def to_json(self, phases: Mapping[str, float], elapsed_s: float) -> dict[str, Any]:
        """The summary; seconds rounded to hundredths."""
        return {
            **self.__dict__,
            "ok": self.all_held,
            "phases_s": dict(phases),
            "elapsed_s": round(elapsed_s, 2),
        }
