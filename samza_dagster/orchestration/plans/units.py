"""Work on several containers as requested, and the plan for it: units of steps. Pure.

A unit is the work on one container. Its steps come one after the other, each a request of its own or a
wait. Units of one group never run at the same time.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from samza_dagster.client import JobView
from samza_dagster.model import naming
from samza_dagster.model.capabilities import capabilities
from samza_dagster.orchestration.plans.move import ACTIVE, HostRow, Kind, UnitLimits
from samza_dagster.orchestration.plans.order import Batch, Schedule

NEW = "the new standby"
STANDBY = "standby"


@dataclass(frozen=True)
class UnitStep:
    """A request or a wait: for a warm standby, or for the sign that a container works.

    `name` is unique among the requests of its unit; empty for that of a restart, which is the unit
    itself. `processor` may be `NEW`: the standby that the unit's step of kind `START_STANDBY` has started.
    `beyond_budget` asks also where Samza's AM may end the job for it; a fail-over may be for one
    incarnation alone, `execution_id`. `at_once`: its destination isn't held until a commit.
    """

    name: str
    kind: Kind
    processor: str
    destination: str = ""
    beyond_budget: bool = False
    execution_id: str = ""
    at_once: bool = False

    def is_held_by(self, coordinator: str) -> bool:
        """Return whether its request holds the destination until a commit.

        Samza's wire has no hold; and two of Samza's words reserve nothing before a stop.
        """
        is_place = self.kind is Kind.PLACE and not self.at_once
        named = self.destination not in (naming.STANDBY, naming.FORCE_RESTART_LAST_SEEN)
        return is_place and named and capabilities(coordinator).has_own_requests

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
        if self.kind is Kind.WAIT_BACK:
            return f"wait until `{self.processor}` is back"
        return f"wait until {self.processor} is warm"


@dataclass(frozen=True)
class Unit:
    """The steps for one container, and why.

    `group_id` is its container group, which nothing else may touch meanwhile. `stops_active`: an
    active is down for a while. `host` is where it was when the plan was made, as incarnation
    `former`.
    """

    processor: str
    what: str
    why: str
    steps: tuple[UnitStep, ...]
    group_id: str
    stops_active: bool = False
    host: str = ""
    former: str | None = None

    @classmethod
    def of(cls, view: JobView, processor: str, what: str, why: str, *steps: UnitStep) -> Unit:
        """Return the unit, with the job's facts about its processors."""
        placed = [step.processor for step in steps if step.kind is Kind.PLACE]
        stops_active = not all(map(view.is_standby, placed))
        found, group = view.processors[processor], view.group_of(processor)
        of_job = (stops_active, found.host or "", found.execution_id)
        return cls(processor, what, why, steps, group, *of_job)

    @property
    def mode(self) -> str:
        """`active` or `standby`."""
        return ACTIVE if self.stops_active else STANDBY

    @property
    def is_for_a_move(self) -> bool:
        """A standby that it starts is for its own move, and gone afterwards."""
        kinds = {step.kind for step in self.steps}
        return {Kind.START_STANDBY, Kind.STOP_STANDBY} <= kinds


def standby_placed(view: JobView, step: UnitStep) -> tuple[UnitStep, ...]:
    """The step that places a standby, with what tells that it runs there.

    Our coordinator's SUCCEEDED does. That of Samza's AM means that a process was launched.
    """
    if view.capabilities.tells_what_runs:
        return (step,)
    name = f"{step.name}_reports"
    return step, UnitStep(name, Kind.WAIT_REPORT, step.processor, step.destination)


@dataclass(frozen=True)
class BounceJudge:
    """The asset check whose first result after the bake judges the canary."""

    asset: str
    check: str
    timeout_s: float


@dataclass(frozen=True)
class UnitsPlan:
    """Units of work on a job, decided before the first request."""

    what: str
    subject: str
    """The host that is drained; empty for work on the whole job."""
    job: str
    coordinator: str
    units: tuple[Unit, ...]
    schedule: Schedule
    limits: UnitLimits
    before: tuple[HostRow, ...]
    if_it_fails: str = "keep"
    notices: tuple[str, ...] = ()
    """What is to be known before it."""
    batches: tuple[Batch, ...] = ()
    """Units that go together, in the order in which they go; empty: each for itself."""
    judge: BounceJudge | None = None
    """Decides on the canary; None: what can be seen of it does."""
    watch_after: bool = False
    """Groups that another operation acts on aren't touched; units that came back are watched until the end."""

    @property
    def prefix(self) -> str:
        """The beginning of the names of its steps, from which the uuids of their requests derive."""
        return "/".join(filter(None, (self.what, self.subject)))

    @property
    def stops_active(self) -> bool:
        """Return whether an active is down for a while."""
        return any(unit.stops_active for unit in self.units)

    @property
    def processors(self) -> tuple[str, ...]:
        """The processors of the units, in their order."""
        return tuple(unit.processor for unit in self.units)

    @property
    def order(self) -> tuple[Batch, ...]:
        """All units in the batches in which they go."""
        return self.batches or tuple(Batch(p, (p,)) for p in self.processors)

    @cached_property
    def unit_of(self) -> dict[str, Unit]:
        """Processor → its unit."""
        return {unit.processor: unit for unit in self.units}

    def group_of(self, processor_id: str) -> str:
        """The container group of a unit, by its processor."""
        return self.unit_of[processor_id].group_id
