"""The heart: `step(state, event) -> (state, commands)`. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from samza_dagster.placement.commands import Command
from samza_dagster.placement.events import Event
from samza_dagster.placement.state import JobState


@dataclass(frozen=True)
class Step:
    """The next state, and what to do once it is durable."""

    state: JobState
    commands: tuple[Command, ...]


def step(state: JobState, event: Event) -> Step:
    """What `event` changes. The same inputs always give the same step."""
    raise NotImplementedError


def next_deadline_ms(state: JobState) -> int | None:
    """When a `TimePassed` is due, in ms since the epoch; None when nothing waits for time."""
    raise NotImplementedError
