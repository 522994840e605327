"""How far a unit is: by its requests, and where those are cleaned up by the state of the job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from samza_dagster.errors import SamzaDagsterError
from samza_dagster.orchestration.moves.spun_up import newest_starts, spun_up_there, started_standby
from samza_dagster.orchestration.plans.conditions import WarmUp
from samza_dagster.orchestration.plans.units import NEW, Kind, State, Unit, UnitStep
from samza_dagster.orchestration.requests.asking import cancel
from samza_dagster.orchestration.requests.step_request import Outcome, StepRequest, standing
from samza_dagster.orchestration.requests.verify import Verification

if TYPE_CHECKING:
    from samza_dagster.client import PlacementClient


@dataclass(frozen=True)
class EndedStep:
    """One step from when it was asked for, or begun, until its end; ms since the epoch.

    `status` is that of its request, or what was waited for; empty where a wait has failed.
    """

    step: UnitStep
    begin_ms: int
    end_ms: int
    status: str = ""
    message: str = ""
    request: str = ""

    @property
    def failed(self) -> bool:
        """It didn't come to what it was for."""
        return self.status in ("", "FAILED", "BAD_REQUEST")


@dataclass
class Progress:
    """One unit as far as it is carried out.

    `attempt` is the one that has started its standby: what is asked of that one is asked of
    no other. `request` is the one that it waits for. `moments` are the statuses that were read, of
    which step and when; `ended` the steps that ended, the one under way began at `began_ms`.
    `moved_by` is the request that has moved its container. `down_s` is from the container's stop
    to its check-in, `first_commit_s` to its first commit. Times of standby and move are those of
    answers: they are shown, and compared with one another alone.
    """

    unit: Unit
    state: State = State.WAITING
    at: int = 0
    attempt: int = 0
    standby: str | None = None
    standby_since_ms: int | None = None
    standby_until_ms: int | None = None
    request: Outcome | None = None
    deadline_ms: int = 0
    warm_up: WarmUp | None = None
    verification: Verification | None = None
    moved_at_ms: int | None = None
    moved_by: str = ""
    step_done_ms: int = 0
    stopped_at_ms: int | None = None
    down_s: float | None = None
    first_commit_s: float | None = None
    why_failed: str = ""
    began_ms: int | None = None
    moments: list[tuple[str, str, int]] = field(default_factory=list[tuple[str, str, int]])
    ended: list[EndedStep] = field(default_factory=list[EndedStep])

    @property
    def step(self) -> UnitStep | None:
        """What it is at; None past its last one."""
        return self.unit.steps[self.at] if self.at < len(self.unit.steps) else None

    def end(
        self, step: UnitStep, at_ms: int, status: str = "", message: str = "", request: str = ""
    ) -> None:
        """Notes that a step has ended; see `EndedStep`."""
        begin_ms = min(self.began_ms or at_ms, at_ms)
        self.ended.append(EndedStep(step, begin_ms, at_ms, status, message, request))
        self.began_ms = None


def progress_text(progress: Sequence[Progress]) -> str:
    """`2/7, 1 failed`, as bounces tell it."""
    done = sum(one.state is State.DONE for one in progress)
    failed = sum(one.state is State.FAILED for one in progress)
    return f"{done}/{len(progress)}" + (f", {failed} failed" if failed else "")


def subject(one: Progress, step: UnitStep) -> str:
    """Whom a step is about."""
    return (one.standby or NEW) if step.processor == NEW else step.processor


def named(name: str, one: Progress) -> str:
    """The name of a step about the unit's new standby, which an earlier attempt had another of."""
    return f"{name}/{one.attempt}" if one.attempt else name


@dataclass(frozen=True)
class ChainRequests:
    """What the runs of one chain have asked for its units.

    `prefix` begins the names of their steps, of which uuids are made; `is_again`: this run is
    a re-execution.
    """

    client: PlacementClient
    root_run_id: str
    prefix: str
    is_again: bool

    def asked(self, one: Progress, step: UnitStep) -> StepRequest:
        """Where the step's request stands.

        A re-execution passes over a standby that was started, is gone or somebody else's by
        now, and never gave its place: it starts another one.
        """
        name, processor = f"{self.prefix}/{one.unit.processor}/{step.name}", subject(one, step)
        if step.processor == NEW:
            name = named(name, one)

        def fits(destination: str) -> bool:
            return step.kind is Kind.STOP_STANDBY or destination == step.destination

        def newest(first: int = 0) -> StepRequest:
            root = self.root_run_id
            return standing(self.client, root, name, processor, first=first, fits=fits)

        asked = newest()
        if step.kind is Kind.START_STANDBY and one.unit.is_for_a_move:
            while self.is_again and self._is_lost(one, asked):
                asked = newest(asked.attempt + 1)
            one.attempt = asked.attempt
        return asked

    def _is_lost(self, one: Progress, asked: StepRequest) -> bool:
        standby = started_standby(asked.response)
        if standby is None:
            return False
        started = replace(one, standby=standby, attempt=asked.attempt)
        gives = next(step for step in one.unit.steps if step.kind is Kind.STOP_STANDBY)
        given = self.asked(started, gives)
        if given.destination is not None or given.forgotten:
            return False
        newest = newest_starts(self.client).get(standby)
        there = standby in self.client.view().processors
        return not there or (newest is not None and newest.uuid != asked.uuid)

    def is_so(self, one: Progress, step: UnitStep, now_ms: int) -> bool:
        """Whether what a step wanted is so; `one` then knows what the answer would have told."""
        if step.kind is Kind.START_STANDBY:
            there = spun_up_there(self.client, step.processor, step.destination)
            if there is not None:
                one.standby = there[0]
            return there is not None
        found = self.client.view().processors.get(subject(one, step))
        if step.kind is Kind.STOP_STANDBY:
            one.standby_until_ms = now_ms if found is None else None
            return found is None
        arrived = found is not None and found.host == step.destination
        if arrived and step.processor == one.unit.processor:
            one.moved_at_ms = now_ms
        return arrived

    def pass_what_is_done(self, one: Progress, now_ms: int) -> None:
        """Goes to what comes after the unit's own move, if that was asked and is so.

        What came before it was for the move alone: a standby that gave its place isn't started anew.
        """
        for at, step in enumerate(one.unit.steps):
            if step.kind is not Kind.PLACE or step.processor != one.unit.processor:
                continue
            if self.asked(one, step).by_state and self.is_so(one, step, now_ms):
                one.at = at + 1

    def cancel(self, uuid: str) -> str:
        """Asks that a request ends of which nothing is stopped yet; what becomes of it, for a person."""
        try:
            if not cancel(self.client, self.root_run_id, uuid):
                return f"request {uuid} goes on: Samza's wire has no cancel"
        except SamzaDagsterError as error:
            return f"request {uuid} goes on: {error}"
        return f"asked that request {uuid} ends: nothing of it was stopped yet"
