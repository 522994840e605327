"""Which requests are taken, refused, dropped or queued, and in what order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samza_dagster.coordinator.durable import changed
from samza_dagster.placement import commands as cmd
from samza_dagster.placement import events as ev
from samza_dagster.placement import texts
from samza_dagster.placement.events import JobDeployed, RequestArrived, RequestRefused
from samza_dagster.placement.reducer import step
from samza_dagster.placement.state import JobState, Limits
from tests.unit.placement.scenes import ask, running, stored_and_read

pytestmark = pytest.mark.unit


def test_a_request_of_another_deployment_is_only_deleted() -> None:
    """Nothing is written, nothing is remembered."""
    world = running()
    before = world.state
    world.submit(ask("0", "host-3", deployment_id="run-0"))
    assert world.log == [cmd.DeleteRequest("u1")]
    assert world.state == before


def test_a_duplicate_uuid_is_only_deleted_and_the_first_outcome_stands() -> None:
    """Also with other contents, also after the first has ended."""
    world = running()
    world.submit(ask("0", "host-3"))
    world.settle()
    told, world.log[:] = world.responses_to("u1"), []
    world.submit(ask("1", "host-1"))
    assert world.log == [cmd.DeleteRequest("u1")]
    assert world.responses_to("u1") == told


def test_uuids_are_forgotten_first_in_first_out_but_never_in_flight() -> None:
    """Beyond the limit the oldest goes; one in flight or queued stays known."""
    world = running(limits=Limits(remembered_uuids=2))
    world.submit(ask("0", "host-3", uuid="a"))
    world.submit(ask("0", "host-4", uuid="b"))
    for uuid in ("c", "d", "e"):
        world.submit(ask("9", "host-3", uuid=uuid))
    assert sorted(world.state.uuids) == ["d", "e"]
    for uuid in ("a", "b"):
        world.log.clear()
        world.submit(ask("0", "host-3", uuid=uuid))
        assert world.log == [cmd.DeleteRequest(uuid)]


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 9)), max_size=40))
def test_what_was_refused_unread_is_remembered_apart_and_displaces_no_outcome(
    arrivals: list[tuple[bool, int]],
) -> None:
    """Two memories, each first in, first out; a UUID in either is a duplicate."""
    limits = Limits(remembered_uuids=3)
    state = step(JobState("demo"), JobDeployed(0, "run-1", {}, {}, limits)).state
    taken, refused = list[str](), list[str]()
    for unread, number in arrivals:
        uuid = f"u{number}"
        event = RequestRefused(0, uuid) if unread else RequestArrived(0, ask("9", "h", uuid=uuid))
        result = step(state, event)
        new = uuid not in taken and uuid not in refused
        answered = [c for c in result.commands if isinstance(c, cmd.WriteResponse)]
        assert len(answered) == (new and not unread)
        if new:
            memory = refused if unread else taken
            memory.append(uuid)
            del memory[:-3]
        state = stored_and_read(result.state)
        assert state == result.state
        assert sorted(state.uuids, key=state.uuids.__getitem__) == taken
        assert sorted(state.refused, key=state.refused.__getitem__) == refused


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 9)), max_size=40))
def test_each_step_writes_what_it_remembers_and_deletes_what_it_forgets(
    arrivals: list[tuple[bool, int]],
) -> None:
    """The records that a step changes are those by which the states differ."""
    limits = Limits(remembered_uuids=3)
    state = step(JobState("demo"), JobDeployed(0, "run-1", {}, {}, limits)).state
    topic: dict[str, object] = dict(changed(JobState("demo"), state, leader_epoch=1))
    for unread, number in arrivals:
        uuid = f"u{number}"
        event = RequestRefused(0, uuid) if unread else RequestArrived(0, ask("9", "h", uuid=uuid))
        after = step(state, event).state
        for key, value in changed(state, after, leader_epoch=1):
            topic.pop(key, None)
            if value is not None:
                topic[key] = value
        state = after
    kept = [key for key in topic if key.startswith(("uuid/", "refused/"))]
    assert {k.partition("/")[2] for k in kept if k.startswith("uuid/")} == set(state.uuids)
    assert {k.partition("/")[2] for k in kept if k.startswith("refused/")} == set(state.refused)


def test_what_could_begin_at_a_take_over_is_told_that_the_hosts_are_waited_for() -> None:
    """Its limit was raised meanwhile; a leader that has heard of no host yet begins nothing."""
    world = running(limits=Limits(max_concurrent_actions=1))
    world.submit(ask("0", "host-3", uuid="w"))
    world.submit(ask("1", "LAST_SEEN", uuid="x"))
    state = world.state.evolve(limits=world.state.limits.evolve(max_concurrent_actions=2))
    taken = step(state, ev.CoordinatorRestarted(world.now_ms))
    (said,) = [c for c in taken.commands if isinstance(c, cmd.WriteResponse) and c.uuid == "x"]
    assert said.message == texts.accepted(
        "waits until the hosts have registered with the coordinator that took over"
    )
