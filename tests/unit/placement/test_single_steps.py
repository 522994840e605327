"""Single steps of the reducer, of states and events that no scene comes to by itself."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from rpds import HashTrieMap

from samza_dagster.model.own_requests import RequestKind
from samza_dagster.placement import commands as cmd
from samza_dagster.placement import events as ev
from samza_dagster.placement import requests
from samza_dagster.placement.draft import GroupStep
from samza_dagster.placement.failures import LONGEST_PAUSE_MS
from samza_dagster.placement.indexing import rebuilt
from samza_dagster.placement.reducer import step
from samza_dagster.placement.state import (
    End,
    Ended,
    Group,
    Host,
    Incarnation,
    JobState,
    Orphan,
    Phase,
    Processor,
    Role,
)
from tests.simulation.hosts import Trouble
from tests.simulation.judges.violation import ACTED_ONCE, InvariantViolated
from tests.unit.placement.scenes import (
    GROUPS,
    HOSTS,
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

    def forgets(_step: GroupStep, _active_id: str) -> None:
        return None

    monkeypatch.setattr(requests, "fail_needless_failovers", forgets)
    world, _ = failed_over_by_itself()
    world.submit(own(RequestKind.FAIL_OVER, "0", uuid="u1"))
    with pytest.raises(InvariantViolated, match=f"{ACTED_ONCE}.*0 had failed over by itself"):
        world.until_all_run()
    monkeypatch.undo()
    world, _ = failed_over_by_itself()
    world.until_all_run()
    world.submit(own(RequestKind.FAIL_OVER, "0", uuid="u2"))
    world.until_all_run()
    assert world.outcome("u2")[0] == "SUCCEEDED"


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
            groups=HashTrieMap({"0": Group("0", {"0": waiting}, orphans=(orphan,))}),
            hosts=HashTrieMap({"host-1": Host("host-1", alive=True, registered=True)}),
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
    nothing_since = state.evolve(groups=state.groups.insert("0", group))
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
            groups=HashTrieMap({"0": Group("0", {"0": waiting}, orphans=(before, successor))}),
            hosts=HashTrieMap({h: Host(h, alive=False) for h in ("host-1", "host-2")}),
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
        groups=state.groups.insert("0", Group("0", {"0": waiting}, orphans=(before,)))
    )
    (again,) = step(alone, back).state.groups["0"].orphans
    assert again.ended is None
