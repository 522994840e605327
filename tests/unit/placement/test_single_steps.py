"""Single steps of the heart, of states and events that no scene comes to by itself."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from immutables import Map

from samza_dagster.placement import commands as cmd
from samza_dagster.placement import events as ev
from samza_dagster.placement import requests
from samza_dagster.placement.draft import Draft
from samza_dagster.placement.explain import explain
from samza_dagster.placement.failures import LONGEST_PAUSE_MS
from samza_dagster.placement.index_draft import rebuilt
from samza_dagster.placement.reducer import step
from samza_dagster.placement.state import (
    AskKind,
    End,
    Ended,
    Group,
    Host,
    Incarnation,
    JobState,
    Lag,
    Orphan,
    Phase,
    Processor,
    Role,
)
from samza_dagster.simulation.hosts import Trouble
from samza_dagster.simulation.judges.violation import ACTED_ONCE, InvariantViolated
from tests.unit.placement.scenes import (
    GROUPS,
    HOSTS,
    PLACES,
    QUICK,
    Scene,
    ask,
    fresh,
    job,
    own,
    running,
)
from tests.unit.placement.words import take

pytestmark = pytest.mark.unit


def test_failed_starts_pause_a_little_longer_each_time() -> None:
    """Half a second times their number; each on another host than the last."""
    world = running(groups={"0": ("0",)})
    for host in HOSTS:
        world.trouble(host, Trouble.NO_START)
    world.crash("0")
    times: list[int] = []
    while len(times) < 4:
        seen = len(world.sent(cmd.StartContainer))
        world.until(lambda seen=seen: len(world.sent(cmd.StartContainer)) > seen)
        times.append(world.now_ms)
    assert [later - sooner for sooner, later in pairwise(times)] == [
        500,
        1_000,
        1_500,
    ]
    hosts = [host for _, host in world.started()]
    assert all(one != next_ for one, next_ in pairwise(hosts))


def test_execution_ids_and_epochs_never_repeat_and_are_safe_in_paths() -> None:
    """Whatever the job is called."""
    world = fresh(job="my job/ä")
    world.deploy(GROUPS)
    world.settle()
    world.submit(ask("0", "LAST_SEEN"))
    world.settle()
    started = world.sent(cmd.StartContainer)
    assert len({start.execution_id for start in started}) == len(started) == 5
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+", start.execution_id) for start in started)
    assert started[-1].execution_id.endswith("-0-000005")


def test_a_deployment_told_twice_changes_nothing() -> None:
    """The event may come again."""
    world = running()
    before = world.state
    world.deploy(GROUPS, last_seen=PLACES)
    assert world.state == before


def test_a_resource_that_nobody_asked_for_is_given_back() -> None:
    """What a lost release left behind."""
    world = running()
    taken = step(world.state, ev.ResourceAllocated(world.now_ms, "demo-request-000099", "host-4"))
    assert taken.commands == (cmd.ReleaseResource("demo-request-000099"),)


def test_the_resource_of_a_running_container_is_not_given_back() -> None:
    """Its allocation may be told again."""
    world = running()
    incarnation = world.state.groups["0"].processors["0"].incarnation
    assert incarnation is not None
    event = ev.ResourceAllocated(world.now_ms, incarnation.request_id, incarnation.host)
    assert step(world.state, event).commands == ()


def test_time_never_goes_back() -> None:
    """An event with an older stamp leaves the state's time."""
    world = running()
    assert step(world.state, ev.TimePassed(5)).state.now_ms == world.state.now_ms


def test_a_request_that_arrives_as_a_failover_is_due_waits_for_the_failover() -> None:
    """Who was due goes first: the move of its standby that was under way is over by then."""
    world = take(
        job("two pairs; retry_count 1; retry_window_ms 1000000"), "0 dies 2 times; 0 is waiting"
    )
    world.fill("host-3")
    world.submit(ask("0-0", "host-3", expiry_ms=10 * LONGEST_PAUSE_MS))
    world.lose("host-1")
    due_ms = world.processor("0").not_before_ms
    state = step(world.state, ev.CoordinatorRestarted(due_ms)).state
    assert state.groups["0"].action is not None
    told = step(state, ev.RequestArrived(due_ms, ask("0", "host-4", uuid="u2")))
    assert told.state.groups["0"].failover is not None
    (said,) = (c for c in told.commands if isinstance(c, cmd.WriteResponse) and c.uuid == "u2")
    assert said.message == "Request is accepted; waits until 0 has failed over"


def test_a_lease_that_is_over_as_its_host_is_lost_holds_no_rack() -> None:
    """The standby was to give way: where its active goes instead is chosen in the same step."""
    world = job("one pair; racks a b a b; host_timeout_ms 30000")
    world.trouble("host-2", Trouble.SLOW_STOP)
    world.lose("host-1")
    world.until(lambda: world.phases()["0-0"] is Phase.STOPPING)
    late_ms = world.now_ms + 10 * QUICK.lease_ms
    lost = step(world.state, ev.HostLost(late_ms, "host-2", world.now_ms))
    assert {orphan.ended for orphan in lost.state.groups["0"].orphans} == {Ended.LEASE}
    asked = [c for c in lost.commands if isinstance(c, cmd.RequestResource)]
    assert (asked[0].processor_id, asked[0].host) == ("0", None)
    assert "host-4" not in asked[0].excluded_hosts


def failed_over_by_itself() -> tuple[Scene, str]:
    """The host of 0 is lost, and the coordinator fails over; and the incarnation that it was."""
    world = running(limits=QUICK)
    sick = world.execution("0")
    world.lose("host-1")
    assert world.group().failover is not None
    return world, sick


def test_a_heart_that_fails_an_active_over_that_has_just_done_so_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No fail-over that waited for it begins after its check-in; one asked for since may."""

    def forgets(_draft: Draft, _group_id: str, _active_id: str) -> None:
        return None

    monkeypatch.setattr(requests, "failed_over_already", forgets)
    world, _ = failed_over_by_itself()
    world.submit(own(AskKind.FAIL_OVER, "0", uuid="u1"))
    with pytest.raises(InvariantViolated, match=f"{ACTED_ONCE}.*0 had failed over by itself"):
        world.until_all_run()
    monkeypatch.undo()
    world, _ = failed_over_by_itself()
    world.until_all_run()
    world.submit(own(AskKind.FAIL_OVER, "0", uuid="u2"))
    world.until_all_run()
    assert world.outcome("u2")[0] == "SUCCEEDED"


def crowded(job_of: str = "an active and two standbys") -> tuple[Scene, JobState]:
    """The agent of host-3 has come back with the rack of host-2: both standbys are in it."""
    world = job(f"{job_of}; racks A B C D")
    known, books = world.state.hosts["host-3"], frozenset(world.hosts["host-3"].books)
    told = ev.HostRegistered(world.now_ms, "host-3", books, "B", known.books, known.boot_id)
    return world, step(world.state, told).state


def test_two_standbys_in_one_fault_domain_bar_nobodys_way() -> None:
    """An active in the place of one is no nearer to the other than that one was."""
    _, state = crowded()
    assert [c.legal for c in explain(state, "0", "STANDBY").candidates] == [True, True]
    asked = step(state, ev.RequestArrived(state.now_ms, ask("0", "STANDBY")))
    [said] = [c for c in asked.commands if isinstance(c, cmd.WriteResponse)]
    assert said.status == "IN_PROGRESS"


def test_an_active_whose_home_is_full_takes_one_of_their_places() -> None:
    """And starts there, once the standby was seen dead."""
    world, state = crowded()
    active = world.execution("0")
    state = step(state, ev.ContainerStopped(state.now_ms, active, "host-1", 137)).state
    asked = state.groups["0"].processors["0"].request
    assert asked is not None
    state = step(state, ev.RequestExpired(state.now_ms, asked.request_id, "full")).state
    failover = state.groups["0"].failover
    assert failover is not None
    assert failover.host == "host-2"
    asked = state.groups["0"].processors["0"].request
    assert asked is not None
    gone = world.execution("0-0")
    state = step(state, ev.ContainerStopped(state.now_ms, gone, "host-2", 143)).state
    state = step(state, ev.ResourceAllocated(state.now_ms, asked.request_id, "host-2")).state
    assert state.groups["0"].processors["0"].phase is Phase.STARTING


def test_a_place_outside_of_the_crowd_is_taken_first() -> None:
    """Of standbys that run; whatever was measured."""
    _, state = crowded("an active and three standbys")
    lags = ev.LagObserved(state.now_ms, tuple(Lag(f"0-{n}", n, n, state.now_ms) for n in range(3)))
    state = step(state, lags).state
    lost = step(state, ev.HostLost(state.now_ms, "host-1", state.now_ms)).state
    assert lost.groups["0"].failover is not None
    assert lost.groups["0"].failover.standby_id == "0-2"


def test_a_orphan_whose_successor_has_come_and_gone_is_not_taken_back() -> None:
    """The successor wrote to the changelog: what the older one has in its store is the past.

    Its own end, by its lease, is no longer the last that is known of its processor.
    """
    older = Incarnation(9, "j-0-000009", "host-1", "j-request-000009")
    last = End("j-0-000011", 11, "host-2", Ended.DEAD, 50, "host-2 saw it dead")
    orphan = Orphan("0", older, lost_at_ms=10, lease_ends_ms=None, ran=True, end=last)
    waiting = Processor("0", Role.ACTIVE, Phase.WAITING, last_end=last, not_before_ms=10_000)
    state = rebuilt(
        JobState(
            "j",
            "run-1",
            groups=Map({"0": Group("0", {"0": waiting}, orphans=(orphan,))}),
            hosts=Map({"host-1": Host("host-1", alive=True, registered=True)}),
            next_epoch=12,
        )
    )
    taken = step(state, ev.ContainerCheckedIn(100, older.execution_id, "host-1"))
    assert taken.commands == (cmd.StopContainer(older.execution_id, "host-1"),)
    assert taken.state.groups["0"].processors["0"].incarnation is None
    own_end = last.evolve(epoch=8, execution_id="j-0-000008")
    group = state.groups["0"].evolve(
        processors={"0": waiting.evolve(last_end=own_end)},
        orphans=(orphan.evolve(end=own_end),),
    )
    nothing_since = state.evolve(groups=state.groups.set("0", group))
    taken = step(nothing_since, ev.ContainerCheckedIn(100, older.execution_id, "host-1"))
    assert taken.state.groups["0"].processors["0"].incarnation == older


def test_a_lease_that_was_over_stays_so_beside_a_successor_that_nobody_has_seen_end() -> None:
    """The successor's host fell silent, too: it may own the tasks, and the older one mustn't."""
    older = Incarnation(9, "j-0-000009", "host-1", "j-request-000009")
    newer = Incarnation(11, "j-0-000011", "host-2", "j-request-000011")
    over = End("j-0-000009", 9, "host-1", Ended.LEASE, 50, "its lease ended at 50, it is 50")
    before = Orphan("0", older, 10, 50, ran=True, ended=Ended.LEASE, end=over)
    successor = Orphan("0", newer, 60, 10_000, ran=True)
    waiting = Processor("0", Role.ACTIVE, Phase.WAITING, last_end=over, not_before_ms=10_000)
    state = rebuilt(
        JobState(
            "j",
            "run-1",
            groups=Map({"0": Group("0", {"0": waiting}, orphans=(before, successor))}),
            hosts=Map({h: Host(h, alive=False) for h in ("host-1", "host-2")}),
            next_epoch=12,
            now_ms=70,
        )
    )
    back = ev.HostRegistered(100, "host-1", frozenset({older.execution_id}))
    taken = step(state, back)
    assert taken.commands == (cmd.StopContainer(older.execution_id, "host-1"),)
    orphans = {orphan.incarnation.epoch: orphan for orphan in taken.state.groups["0"].orphans}
    assert orphans[9].ended is Ended.LEASE
    alone = state.evolve(
        groups=state.groups.set("0", Group("0", {"0": waiting}, orphans=(before,)))
    )
    (again,) = step(alone, back).state.groups["0"].orphans
    assert again.ended is None
