"""Work on several containers, as units of steps. Pure.

A unit is what is done for one container; its steps come one after the other, each a
request of its own or a wait. Units of one group never run at the same time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from samza_dagster.model.capabilities import capabilities
from samza_dagster.model.naming import group_of

if TYPE_CHECKING:
    from samza_dagster.client import JobView

NEW = "the new standby"


class Kind(StrEnum):
    """What a step asks for, or waits for."""

    PLACE = "place"
    START_STANDBY = "start-standby"
    STOP_STANDBY = "stop-standby"
    WAIT_WARM = "wait-warm"
    WAIT_PROCESSING = "wait-processing"
    WAIT_REPORT = "wait-report"


class State(StrEnum):
    """How far a unit is."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True)
class Step:
    """One request, or one wait: for a warm standby, or for the sign that a container works.

    `name` is unique in its unit. `processor` may be `NEW`: the standby that the unit's
    step of kind `START_STANDBY` has started.
    """

    name: str
    kind: Kind
    processor: str
    destination: str = ""

    def text(self) -> str:
        """For a person."""
        if self.kind is Kind.PLACE:
            return f"`{self.processor}` → `{self.destination}`"
        if self.kind is Kind.START_STANDBY:
            return f"one more standby of `{self.processor}` on `{self.destination}`"
        if self.kind is Kind.STOP_STANDBY:
            return f"{self.processor} stops and is removed"
        if self.kind is Kind.WAIT_PROCESSING:
            return f"wait until `{self.processor}` processes"
        if self.kind is Kind.WAIT_REPORT:
            return f"wait until `{self.processor}` reports from `{self.destination}`"
        return f"wait until {self.processor} is warm"


@dataclass(frozen=True)
class Unit:
    """What is done for one container, and why.

    `group_id` is its container group; empty in a plan of an older release, where the name tells it.
    `stops_active`: an active is down for a while.
    """

    processor: str
    what: str
    why: str
    steps: tuple[Step, ...]
    group_id: str = ""
    stops_active: bool = False

    @property
    def group(self) -> str:
        """The container group that nothing else may touch meanwhile."""
        return self.group_id or group_of(self.processor)

    @classmethod
    def of(cls, view: JobView, processor: str, what: str, why: str, *steps: Step) -> Unit:
        """The unit, with what the job tells of its processors."""
        placed = [step.processor for step in steps if step.kind is Kind.PLACE]
        stops_active = not all(map(view.is_standby, placed))
        return cls(processor, what, why, steps, view.group_of(processor), stops_active)

    @property
    def is_for_a_move(self) -> bool:
        """A standby that it starts is for its own move, and gone afterwards."""
        kinds = {step.kind for step in self.steps}
        return {Kind.START_STANDBY, Kind.STOP_STANDBY} <= kinds

    def to_json(self) -> dict[str, Any]:
        """As the record of a plan keeps it."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Unit:
        """The unit of a record."""
        steps = tuple(Step(**{**step, "kind": Kind(step["kind"])}) for step in data["steps"])
        fields: dict[str, Any] = {**data, "steps": steps}
        return cls(**fields)


def standby_placed(view: JobView, step: Step) -> tuple[Step, ...]:
    """The step that places a standby, with what tells that it runs there.

    Our coordinator's SUCCEEDED does. That of Samza's AM means that a process was launched.
    """
    if capabilities(view.coordinator).tells_what_runs:
        return (step,)
    name = f"{step.name}_reports"
    return step, Step(name, Kind.WAIT_REPORT, step.processor, step.destination)
