"""How far a unit of a chain of runs is: by its requests, and where those are cleaned up by the job."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from samza_dagster.orchestration.operations.progress import Progress, named, subject
from samza_dagster.orchestration.operations.steps import NEW, Kind, Step
from samza_dagster.orchestration.requests import StepRequest, standing
from samza_dagster.orchestration.spun_up import newest_starts, spun_up_there, started_standby

if TYPE_CHECKING:
    from samza_dagster.client import PlacementClient


@dataclass(frozen=True)
class Progressed:
    """What the runs of one chain have asked for its units.

    `prefix` begins the names of their steps, of which uuids are made; `is_again`: this run is
    a re-execution.
    """

    client: PlacementClient
    root_run_id: str
    prefix: str
    is_again: bool

    def asked(self, one: Progress, step: Step) -> StepRequest:
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

    def is_so(self, one: Progress, step: Step, now_ms: int) -> bool:
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
