"""An action in flight, made from the stage that a response or a view names."""

from __future__ import annotations

from samza_dagster.model.own_requests import RequestKind
from samza_dagster.placement.state import (
    Action,
    Fallback,
    Move,
    PlacementAsk,
    ResourceRequest,
    SpinUp,
    Stage,
    StandbyPlace,
    Start,
    StopStandby,
    Swap,
)


def action_at(stage: Stage, ask: PlacementAsk, source: str | None) -> Action:
    """Return an action for this request at this stage, whose container ran on `source`."""
    destination, here = ask.destination_host, source or ""
    asked = ResourceRequest("q", destination, (), 2_000)
    held = asked.evolve(allocated_host=destination)
    if ask.kind is RequestKind.START_STANDBY:
        return SpinUp(ask, "", None if stage is Stage.STARTING else asked)
    if ask.kind is RequestKind.STOP_STANDBY:
        return StopStandby(ask, source, stopping_already=False)
    match stage:
        case Stage.RESERVING_STANDBY:
            return Swap(ask, here, StandbyPlace("", destination), asked)
        case Stage.STOPPING_STANDBY:
            return Swap(ask, here, StandbyPlace("", destination), None)
        case Stage.RESERVING:
            return Move(ask, here, asked)
        case Stage.HELD:
            return Move(ask, here, held)
        case Stage.STOPPING:
            return Move(ask, here, held, stopped=(ask.processor_id,))
        case Stage.STARTING:
            return Start(ask, source)
        case Stage.FALLBACK_SOURCE | Stage.FALLBACK_ANY:
            return Fallback(ask, source, to_source=stage is Stage.FALLBACK_SOURCE)
