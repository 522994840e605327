"""Steps whose answers are cleaned up: whether what they wanted is so, by the state of the job."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from samza_dagster.orchestration.requests import StepRequest
from samza_dagster.orchestration.spun_up import spun_up_there
from samza_dagster.orchestration.units.order import Kind, Step
from samza_dagster.orchestration.units.progress import Progress, subject

if TYPE_CHECKING:
    from samza_dagster.client import PlacementClient


def is_so(client: PlacementClient, one: Progress, step: Step, now_ms: int) -> bool:
    """Whether what a step wanted is so; `one` then knows what the answer would have told."""
    if step.kind is Kind.START_STANDBY:
        there = spun_up_there(client, step.processor, step.destination)
        if there is not None:
            one.standby = there[0]
        return there is not None
    found = client.view().processors.get(subject(one, step))
    if step.kind is Kind.STOP_STANDBY:
        one.standby_until_ms = now_ms if found is None else None
        return found is None
    arrived = found is not None and found.host == step.destination
    if arrived and step.processor == one.unit.processor:
        one.moved_at_ms = now_ms
    return arrived


def pass_what_is_done(
    client: PlacementClient,
    one: Progress,
    asked: Callable[[Progress, Step], StepRequest],
    now_ms: int,
) -> None:
    """Goes to what comes after the unit's own move, if that was asked and is so.

    What came before it was for the move alone: a standby that gave its place isn't started anew.
    """
    for at, step in enumerate(one.unit.steps):
        if step.kind is not Kind.PLACE or step.processor != one.unit.processor:
            continue
        if asked(one, step).by_state and is_so(client, one, step, now_ms):
            one.at = at + 1
