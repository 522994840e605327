"""What a demo has seen, and whether it is all that the demo promises."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from samza_dagster.model import PlacementResponse


@dataclass
class Findings:
    """What each demo has seen so far; its JSON is the last line that it prints.

    `moved`: all is where the demo's action was to put it. `locality_before` and `locality_after`
    are the hosts by processor id, of standalone processors by task.
    """

    moved: bool = False
    downtime_s: float | None = None
    missing: int | None = None
    unexplained: int | None = None
    locality_before: dict[str, str | None] = field(default_factory=dict[str, str | None])
    locality_after: dict[str, str | None] = field(default_factory=dict[str, str | None])
    failure: str | None = None

    @property
    def all_held(self) -> bool:
        """Everything that the demo promises was seen."""
        return (
            self.failure is None
            and self.moved
            and self.missing == 0
            and self.unexplained == 0
            and self.downtime_s is not None
        )

    def to_json(self, phases: Mapping[str, float], elapsed_s: float) -> dict[str, Any]:
        """The summary; seconds rounded to hundredths."""
        return {
            **self.__dict__,
            "ok": self.all_held,
            "phases_s": dict(phases),
            "elapsed_s": round(elapsed_s, 2),
        }


@dataclass
class MoveFindings(Findings):
    """Of a move that Dagster asks for."""

    responses: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    restored: int | None = None
    produced_in_gap: int | None = None
    lag: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    assets: bool = False

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
        """Dagster's assets too, and a warm store: it read little more than was new to it."""
        return (
            super().all_held
            and self.assets
            and self.restored is not None
            and self.produced_in_gap is not None
            and self.restored <= 2 * max(self.produced_in_gap, 1)
        )


@dataclass
class TakeoverFindings(Findings):
    """Of a standalone processor's death.

    `agreed_s`: from it until its group had agreed on a version without it; `took_over_s`: until each of its
    tasks had written on its new processor. `owners`: by
    partition how many have written to the changelog, one after the other, as the broker has it;
    `two_owners`: how often one came back after another had.
    """

    session_s: float | None = None
    agreed_s: float | None = None
    took_over_s: float | None = None
    owners: dict[int, int] = field(default_factory=dict[int, int])
    two_owners: int | None = None

    @property
    def all_held(self) -> bool:
        """No task had two owners, too."""
        return super().all_held and self.took_over_s is not None and self.two_owners == 0
