"""Which requests are taken, refused, dropped or queued, and in what order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samza_dagster.coordinator.durable import changed
from samza_dagster.model.own_requests import LONGEST_EXPIRY_MS
from samza_dagster.placement import commands as cmd
from samza_dagster.placement import events as ev
from samza_dagster.placement import texts
from samza_dagster.placement.events import JobDeployed, RequestArrived, RequestRefused
from samza_dagster.placement.reducer import step
from samza_dagster.placement.state import AskKind, JobState, Limits, Phase
from tests.unit.placement.scenes import ask, own, running, stored_and_read

pytestmark = pytest.mark.unit


def refusal(processor_id: str, destination: str) -> str:
    world = running()
    world.submit(ask(processor_id, destination))
    [(status, message)] = world.told("u1")
    assert status == "BAD_REQUEST"
    assert world.sent(cmd.RequestResource) == world.sent(cmd.StopContainer) == []
    assert cmd.DeleteRequest("u1") in world.log
    return message


@pytest.mark.parametrize("processor_id", ["7", "7-0", "0-1"])
def test_an_unknown_processor_is_refused(processor_id: str) -> None:
    """In Samza's words, and without its endless loop."""
    assert refusal(processor_id, "host-3") == texts.bad_request(
        texts.unknown_processor(processor_id, ["0", "0-0", "1", "1-0"])
    )


def test_a_request_whose_processor_was_removed_while_it_waited_names_who_is_left() -> None:
    """FAILED in Samza's words, with the rule and the change of one that is refused at once."""
    world = running()
    world.submit(ask("0", "LAST_SEEN", uuid="u8"))
    world.submit(own(AskKind.STOP_STANDBY, "0-0", uuid="u9", at_ms=1))
    world.submit(ask("0-0", "host-4"))
    assert world.told("u1")[-1][0] == "ACCEPTED"
    world.settle()
    known = ["0", "1", "1-0"]
    assert world.told("u1")[-1] == ("FAILED", texts.unknown_processor("0-0", known))
    assert (
        "; processor-known: no processor 0-0 in this job; name one of 0, 1, 1-0"
        in (world.told("u1")[-1][1])
    )


def test_an_unknown_host_is_refused_with_the_known_ones() -> None:
    """Samza would wait for the expiry."""
    assert "reason: destination-known: unknown destination host nm9" in refusal("0", "nm9")
    assert "host-1, host-2, host-3, host-4" in refusal("0", "nm9")


@pytest.mark.parametrize("expiry_ms", [86_400_001, 2**63 - 1])
def test_an_expiry_that_would_lock_its_group_for_days_is_refused(expiry_ms: int) -> None:
    """By the field's name and the most that it may be; whoever asks next begins."""
    world = running()
    world.fill("host-3")
    world.submit(ask("0", "host-3", expiry_ms=expiry_ms))
    assert world.told("u1") == [
        (
            "BAD_REQUEST",
            f"BAD_REQUEST reason: longest-expiry: requestExpiry is {expiry_ms} ms; "
            "ask for 86400000 ms at most, a day",
        )
    ]
    world.submit(ask("0", "LAST_SEEN", uuid="u2"))
    world.settle()
    assert world.told("u2")[-1][0] == "SUCCEEDED"


def test_the_longest_expiry_is_taken() -> None:
    """The one that our own requests may have."""
    world = running()
    world.submit(ask("0", "host-3", expiry_ms=LONGEST_EXPIRY_MS))
    assert world.told("u1")[0][0] == "IN_PROGRESS"


def test_the_host_of_another_member_is_refused_with_rule_sight_and_change() -> None:
    """Standby to its active's host."""
    assert refusal("0-0", "host-1") == (
        "BAD_REQUEST reason: destination host does not meet standby constraints; "
        "same-host: 0 of the same group is running on host-1; move 0 to another host first"
    )


def test_actives_of_different_groups_may_share_a_host() -> None:
    """The rule binds a group, not the job."""
    world = running()
    world.submit(ask("0", "host-3"))
    world.settle()
    assert world.where("0") == world.where("1") == "host-3"


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
    told, world.log[:] = world.told("u1"), []
    world.submit(ask("1", "host-1"))
    assert world.log == [cmd.DeleteRequest("u1")]
    assert world.told("u1") == told


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


def test_a_second_request_of_a_group_waits_and_says_for_what() -> None:
    """One ACCEPTED, then its own sequence once the first has ended."""
    world = running()
    world.submit(ask("0", "host-3", uuid="u1"))
    world.submit(ask("0-0", "host-4", uuid="u2"))
    assert world.told("u2") == [
        ("ACCEPTED", texts.accepted("waits for action u1 on 0 of the same group"))
    ]
    assert "u2" not in world.brokers.topic
    world.until(lambda: len(world.told("u2")) > 1)
    assert world.told("u1")[-1][0] == "SUCCEEDED"
    world.settle()
    assert [status for status, _ in world.told("u2")] == [
        "ACCEPTED",
        "IN_PROGRESS",
        "IN_PROGRESS",
        "SUCCEEDED",
    ]


def test_the_queue_goes_by_the_requests_timestamp_then_uuid() -> None:
    """Not by arrival."""
    world = running()
    world.submit(ask("0", "host-3", uuid="first"))
    for uuid, at_ms in (("late", 9), ("b", 5), ("a", 5), ("early", 1)):
        world.submit(ask("0", "LAST_SEEN", uuid=uuid, at_ms=at_ms))
    world.settle()
    ended = [r.uuid for r in world.responses() if r.status == "SUCCEEDED"]
    assert ended == ["first", "early", "a", "b", "late"]


def test_other_groups_go_on_in_parallel() -> None:
    """Each group has its own lock."""
    world = running()
    world.submit(ask("0", "host-3", uuid="u1"))
    world.submit(ask("1", "host-1", uuid="u2"))
    assert world.action("0") is not None
    assert world.action("1") is not None


def test_the_job_wide_limit_holds_others_back_oldest_first() -> None:
    """A limit of one makes a queue of groups."""
    groups = {str(n): (str(n),) for n in range(4)}
    places = {str(n): "host-1" for n in range(4)}
    world = running(groups=groups, places=places, limits=Limits(max_concurrent_actions=1))
    for uuid, processor, at_ms in (("w", "0", 9), ("z", "1", 3), ("y", "2", 2), ("x", "3", 1)):
        world.submit(ask(processor, "host-2", uuid=uuid, at_ms=at_ms))
    assert "the job's limit" in world.told("x")[0][1]
    world.settle()
    assert [r.uuid for r in world.responses() if r.status == "SUCCEEDED"] == ["w", "x", "y", "z"]


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


def test_a_request_for_a_processor_that_does_not_run_yet_waits_until_it_does() -> None:
    """And then it is taken."""
    world = running()
    world.crash("0")
    world.until(lambda: world.phases()["0"] is Phase.REQUESTING)
    world.submit(ask("0", "host-3"))
    assert world.told("u1") == [("ACCEPTED", texts.accepted("waits until 0 runs"))]
    world.settle()
    assert world.where("0") == "host-3"


def test_what_was_accepted_and_became_illegal_fails() -> None:
    """BAD_REQUEST is over once ACCEPTED was said."""
    world = running()
    world.submit(ask("0", "host-3", uuid="u1"))
    world.submit(ask("0-0", "host-3", uuid="u2"))
    world.settle()
    assert [status for status, _ in world.told("u2")] == ["ACCEPTED", "FAILED"]
    assert "0 of the same group is running on host-3" in world.told("u2")[-1][1]
    assert world.where("0-0") == "host-2"
