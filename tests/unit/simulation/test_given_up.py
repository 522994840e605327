"""A step that leaves somebody waiting for what is lost, or without its place, is found."""

from __future__ import annotations

import pytest
from immutables import Map

from samza_dagster.placement import events as ev
from samza_dagster.placement.state import (
    Action,
    Failover,
    Ghost,
    Group,
    Host,
    JobState,
    Phase,
    PlacementAsk,
    Processor,
    ResourceRequest,
    Role,
    Stage,
)
from samza_dagster.simulation.judges import durability, readiness
from samza_dagster.simulation.judges.given_up import judge_given_up
from samza_dagster.simulation.judges.taken import Taken
from samza_dagster.simulation.judges.violation import InvariantViolated
from tests.unit.simulation.histories import incarnation

pytestmark = pytest.mark.unit
ASK = PlacementAsk("u1", "run-1", "0", "STANDBY", 1)
HOSTS = Map({name: Host(name) for name in ("host-1", "host-2")})


def taken(event: ev.Event, old: Group, new: Group, hosts: Map[str, Host] = HOSTS) -> Taken:
    """A step that changes one group."""
    before = JobState("demo", "run-1", Map({"0": old}), HOSTS)
    after = JobState("demo", "run-1", Map({"0": new}), hosts)
    return Taken(before, event, after, (), [] if old is new else [(old, new)])


def stopping() -> Processor:
    """The standby, told to stop."""
    made = incarnation("0-0", 2, "host-2")
    return Processor("0-0", Role.STANDBY, Phase.STOPPING, made, last_seen_host="host-2")


def test_a_place_that_is_held_on_a_lost_host_is_found() -> None:
    """Nobody answers for it: its commit would stop a container for nothing."""
    held = ResourceRequest("r-1", "host-1", (), 9_000, allocated_host="host-1")
    ask = PlacementAsk("u1", "run-1", "0", "host-1", 1, hold=True)
    group = Group("0", {}, Action(ask, Stage.HELD, "host-2", held))
    event = ev.HostLost(5, "host-1", 0)
    lost = HOSTS.set("host-1", Host("host-1", alive=False))
    judge_given_up(taken(event, group, group.evolve(action=None), lost))
    with pytest.raises(InvariantViolated, match="is held on a host that is lost"):
        judge_given_up(taken(event, group, group, lost))


WAITING = {
    "action": Action(ASK, Stage.STOPPING_STANDBY, "host-1", standby_id="0-0", target_host="host-2"),
    "failover": Failover("0", "0-0", "host-2", 1, "it failed", ("0-0",)),
}


@pytest.mark.parametrize("who", WAITING)
def test_who_waits_for_a_standby_whose_stop_failed_is_found(who: str) -> None:
    """The standby lives on: the action has failed, and the active goes elsewhere."""
    old = Group("0", {"0-0": stopping()}).evolve(**{who: WAITING[who]})
    event = ev.StopFailed(5, incarnation("0-0", 2, "host-2").execution_id, "host-2", "it lives")
    again = {"0-0": stopping().evolve(deadline_ms=30_005)}
    judge_given_up(taken(event, old, Group("0", again)))
    with pytest.raises(InvariantViolated, match="waits for 0-0, whose stop failed"):
        judge_given_up(taken(event, old, old))


def test_a_standby_without_its_place_after_a_failover_that_was_called_off_is_found() -> None:
    """Its active was found running where it had been: the standby's store is where it was."""
    failover = Failover("0", "0-0", "host-2", 1, "host-1 was lost", ("0-0",))
    back = incarnation("0", 1, "host-1")
    down = Processor("0", Role.ACTIVE, Phase.REQUESTING)
    standby = Processor("0-0", Role.STANDBY, Phase.WAITING)
    old = Group(
        "0",
        {"0": down, "0-0": standby},
        failover=failover,
        ghosts=(Ghost("0", back, 1, None, True),),
    )
    active = Processor("0", Role.ACTIVE, Phase.RUNNING, back, last_seen_host="host-1")
    event = ev.HostRegistered(5, "host-1", frozenset({back.execution_id}))
    placed = standby.evolve(last_seen_host="host-2")
    judge_given_up(taken(event, old, Group("0", {"0": active, "0-0": placed})))
    with pytest.raises(InvariantViolated, match="lost its place"):
        judge_given_up(taken(event, old, Group("0", {"0": active, "0-0": standby})))


def test_a_start_that_is_told_otherwise_than_it_is_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One that was given up would be tried again beside its successor."""
    made = incarnation("0", 1, "host-1")
    starting = Processor("0", Role.ACTIVE, Phase.STARTING, made)
    step = taken(ev.TimePassed(5), Group("0", {}), Group("0", {"0": starting}))
    for says in (True, False):
        monkeypatch.setattr(readiness, "is_starting", lambda *_, says=says: says)
        if says:
            readiness.judge_starting(step)
            continue
        with pytest.raises(InvariantViolated, match="is told to be starting: False"):
            readiness.judge_starting(step)


def test_a_state_that_cannot_be_copied_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Histories are explored by several processes."""
    state = JobState("demo", "run-1", Map(), HOSTS)
    durability.judge_copy(state)
    monkeypatch.setattr(Host, "__reduce__", lambda _: None)
    with pytest.raises(InvariantViolated, match="can't be copied"):
        durability.judge_copy(state)
