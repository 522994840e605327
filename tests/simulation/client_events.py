"""What clients and operators of a virtual job want: requests, forecasts of lag, deployments."""

from __future__ import annotations

from samza_dagster.model.own_requests import RequestKind
from samza_dagster.placement import events as ev
from samza_dagster.placement.state import Lag, PlacementAsk
from tests.simulation.coordinators import ProcessState
from tests.simulation.moves import Handler, Move, by_leader
from tests.simulation.settings import is_own
from tests.simulation.steps import handle, replace_leader
from tests.simulation.world_state import WorldState

OPTIONS_HOLD, OPTIONS_OWN, OPTION_OF = "hold", "own", "of="


def label(ask: PlacementAsk) -> Move:
    """The move by which a client writes this request."""
    return Move(
        "ask",
        (
            ask.uuid,
            ask.deployment_id,
            ask.kind.value,
            ask.processor_id,
            ask.destination_host,
            ask.timestamp_ms,
            -1 if ask.expiry_ms is None else ask.expiry_ms,
            ask.refers_to,
            " ".join(
                ([OPTIONS_HOLD] if ask.hold else [])
                + ([OPTIONS_OWN] if ask.own else [])
                + ([OPTION_OF + ask.execution_id] if ask.execution_id else [])
            ),
        ),
    )


def ask(
    world: WorldState,
    uuid: str,
    deployment_id: str,
    kind: str,
    processor_id: str,
    destination: str,
    timestamp_ms: int,
    expiry_ms: int,
    refers_to: str,
    options: str,
) -> bool:
    """A client writes a request. The same uuid a second time is the same record again."""
    brokers = world.brokers
    chosen = options.split()
    if uuid not in brokers.asked:
        brokers.asked[uuid] = PlacementAsk(
            uuid,
            deployment_id,
            processor_id,
            destination,
            timestamp_ms,
            None if expiry_ms < 0 else expiry_ms,
            RequestKind(kind),
            OPTIONS_HOLD in chosen,
            refers_to,
            OPTIONS_OWN in chosen,
            next((o.removeprefix(OPTION_OF) for o in chosen if o.startswith(OPTION_OF)), ""),
        )
    brokers.topic[uuid] = brokers.asked[uuid]
    if world.leader.standing is not ProcessState.DEAD:
        world.leader.unread.append(uuid)
    return True


@by_leader
def _refuse(world: WorldState, uuid: str) -> None:
    """The leader answers what it can't read, or has no room for, and deletes it.

    It came under this uuid; what the leader has read of it already is delivered still.
    """
    world.brokers.topic.pop(uuid, None)
    handle(world, ev.RequestRefused(world.now_ms, uuid))


@by_leader
def _lag(world: WorldState, processor_id: str, records: int, ready_in_ms: int) -> None:
    """A sample of a standby's lag reaches the leader; a negative forecast is none."""
    now = world.now_ms
    sample = Lag(processor_id, records, None if ready_in_ms < 0 else ready_in_ms, now)
    handle(world, ev.LagObserved(now, (sample,)))


@by_leader
def _stall(world: WorldState, execution_id: str, for_ms: int = 0) -> None:
    """A sample shows, rightly or not, that an incarnation lives and applies nothing."""
    handle(world, ev.StandbyStalled(world.now_ms, execution_id, "it stands still", for_ms))


def _deploy(
    world: WorldState, deployment_id: str, layout: str, grouping: str = "", changes: str = ""
) -> bool:
    """A new run of the job: its coordinator takes over and deploys. Layout: `0,0-0;1,1-0`.

    The coordinator before is gone. Under another `grouping` groups of the same names have
    other tasks. `changes` are of any settings; the coordinator goes by them from its take-over
    on, before it deploys.
    """
    if deployment_id == world.committed.deployment_id:
        return False
    if world.committed.deployment_id:
        world.leader.standing = ProcessState.DEAD
        replace_leader(world, changes=changes)
        if not world.led():
            return True
    groups = {
        members.split(",")[0]: tuple(members.split(",")) for members in layout.split(";") if members
    }
    seen = {pid: host for pid, host in world.brokers.locality.items() if host in world.hosts}
    limits = world.committed.limits
    handle(world, ev.JobDeployed(world.now_ms, deployment_id, groups, seen, limits, grouping))
    return True


def _restart(world: WorldState, changes: str) -> bool:
    """A coordinator with other settings of its own goes on with the deployment.

    It is started in the stead of one that is ended for it, or takes over from one that
    doesn't lead. With another config it would be another deployment.
    """
    if not world.committed.deployment_id or not is_own(changes):
        return False
    if world.leader.standing is ProcessState.LEADING:
        world.leader.standing = ProcessState.DEAD
    replace_leader(world, changes=changes)
    return True


HANDLERS: dict[str, Handler] = {
    "ask": ask,
    "refuse": _refuse,
    "lag": _lag,
    "stall": _stall,
    "deploy": _deploy,
    "restart": _restart,
}
