"""Who owns the tasks when nobody knows whether a process lives: lease, fence, or death."""

from __future__ import annotations

import pytest
from immutables import Map

from samza_dagster.placement import commands as cmd
from samza_dagster.placement import events as ev
from samza_dagster.placement.index_draft import rebuilt
from samza_dagster.placement.reducer import step
from samza_dagster.placement.state import (
    End,
    Ended,
    Fencing,
    Ghost,
    Group,
    Host,
    Incarnation,
    JobState,
    Limits,
    Phase,
    Processor,
    Role,
)
from samza_dagster.simulation.hosts import Trouble
from samza_dagster.simulation.moves import Move
from tests.unit.placement.scenes import HOSTS, QUICK, Scene, ask, running

pytestmark = pytest.mark.unit

FENCED = Limits(fencing=Fencing.BROKER, host_timeout_ms=10_000, lease_ms=120_000)
LONE = {"0": ("0",), "1": ("1",)}
LONE_PLACES = {"0": "host-1", "1": "host-3"}


def ends(world: Scene, execution_id: str) -> list[str]:
    """How an incarnation ended, each way that was recorded, in order."""
    records = [command.record for command in world.sent(cmd.RecordCertificate)]
    return [r.how for r in records if r.kind == "end" and r.execution_id == execution_id]


# -- three ways ----------------------------------------------------------------------------


def test_a_silent_host_lets_the_successor_start_when_its_lease_is_over() -> None:
    """`lease`: as long as the last grant can last, and the bound for clocks that run apart."""
    world = running(limits=QUICK)
    world.lose("host-1")
    last_word = world.leader.books["host-1"].heard_ms
    world.until_phase("0", Phase.STARTING)
    assert world.now_ms == last_word + QUICK.lease_ms + QUICK.lease_bound_ms
    assert world.how_replaced("0") == Ended.LEASE


def test_a_fence_lets_the_successor_start_when_the_brokers_have_answered() -> None:
    """`fenced`: no clock is trusted, no lease waited for."""
    world = running(limits=FENCED)
    world.lose("host-1")
    began = world.now_ms
    world.until(lambda: world.phases()["0"] is Phase.RUNNING)
    assert (world.how_replaced("0"), world.now_ms) == (Ended.FENCED, began)


def test_a_fence_whose_answer_is_lost_is_asked_for_again_and_never_replaced_by_the_lease() -> None:
    """A lease can't exclude a host that was frozen; the fence can."""
    world = running(limits=FENCED)
    world.lose("host-1")
    assert world.do(Move("fence-unanswered", (0,)))
    world.until_phase("0", Phase.STARTING)
    fence, again = world.sent(cmd.FencePrincipal)
    assert fence == again
    assert world.how_replaced("0") == Ended.FENCED


def test_a_ghost_that_was_seen_dead_first_is_dead() -> None:
    """Its host came back in time to say so."""
    world = running(limits=QUICK)
    world.do(Move("kill", ("host-1", "0")))
    world.lose("host-1")
    world.come_back("host-1")
    world.until_all_run()
    assert world.how_replaced("0") == Ended.DEAD


# -- ghosts --------------------------------------------------------------------------------


def test_a_ghosts_death_is_on_record_though_its_lease_was_over_before() -> None:
    """The one freed its tasks, the other its host."""
    world = running(limits=QUICK)
    ghost = world.execution("0")
    world.lose("host-1")
    world.until_all_run()
    assert ends(world, ghost) == ["lease"]
    world.come_back("host-1")
    world.settle()
    assert ends(world, ghost) == ["lease", "dead"]


def test_a_ghost_that_was_replaced_is_stopped_when_its_host_is_back() -> None:
    """It was frozen, not dead: its process still had the store directory."""
    world = running(limits=QUICK)
    ghost = world.execution("0")
    assert world.do(Move("freeze", ("host-1", "suspend")))
    world.wait(QUICK.host_timeout_ms + 1)
    world.until_phase("0", Phase.RUNNING)
    assert world.do(Move("thaw", ("host-1",)))
    world.register("host-1")
    assert ghost in [stop.execution_id for stop in world.sent(cmd.StopContainer)]
    world.settle()
    assert world.group().ghosts == ()


def test_a_lease_that_was_over_counts_no_more_when_its_host_is_back_and_renews_it() -> None:
    """Nothing was begun in its stead yet: its successor waits until it was seen dead."""
    world = running(LONE_PLACES, groups=LONE, limits=QUICK)
    ghost = world.execution("0")
    for host in HOSTS[1:]:
        world.fill(host)
    world.do(Move("clock", ("host-1", -60_000)))
    assert world.do(Move("freeze", ("host-1", "pause")))
    world.until(lambda: ends(world, ghost) == ["lease"])
    assert world.do(Move("thaw", ("host-1",)))
    world.register("host-1")
    world.make_room("host-2")
    world.until_phase("0", Phase.RUNNING)
    assert ends(world, ghost) == ["lease", "dead"]
    assert world.how_replaced("0") == Ended.DEAD


def test_a_ghost_whose_successor_has_come_and_gone_is_not_taken_back() -> None:
    """The successor wrote to the changelog: what the older one has in its store is the past.

    Its own end, by its lease, is no longer the last that is known of its processor.
    """
    older = Incarnation(9, "j-0-000009", "host-1", "j-request-000009")
    last = End("j-0-000011", 11, "host-2", Ended.DEAD, 50, "host-2 saw it dead")
    ghost = Ghost("0", older, lost_at_ms=10, lease_ends_ms=None, ran=True, end=last)
    waiting = Processor("0", Role.ACTIVE, Phase.WAITING, last_end=last, not_before_ms=10_000)
    state = rebuilt(
        JobState(
            "j",
            "run-1",
            groups=Map({"0": Group("0", {"0": waiting}, ghosts=(ghost,))}),
            hosts=Map({"host-1": Host("host-1", alive=True, registered=True)}),
            next_epoch=12,
        )
    )
    taken = step(state, ev.ContainerCheckedIn(100, older.execution_id, "host-1"))
    assert taken.commands == (cmd.StopContainer("0", older.execution_id, "host-1"),)
    assert taken.state.groups["0"].processors["0"].incarnation is None
    own_end = last.evolve(epoch=8, execution_id="j-0-000008")
    group = state.groups["0"].evolve(
        processors={"0": waiting.evolve(last_end=own_end)},
        ghosts=(ghost.evolve(end=own_end),),
    )
    nothing_since = state.evolve(groups=state.groups.set("0", group))
    taken = step(nothing_since, ev.ContainerCheckedIn(100, older.execution_id, "host-1"))
    assert taken.state.groups["0"].processors["0"].incarnation == older


def test_a_lease_that_was_over_stays_so_beside_a_successor_that_nobody_has_seen_end() -> None:
    """The successor's host fell silent, too: it may own the tasks, and the older one mustn't."""
    older = Incarnation(9, "j-0-000009", "host-1", "j-request-000009")
    newer = Incarnation(11, "j-0-000011", "host-2", "j-request-000011")
    over = End("j-0-000009", 9, "host-1", Ended.LEASE, 50, "its lease ended at 50, it is 50")
    before = Ghost("0", older, 10, 50, ran=True, ended=Ended.LEASE, end=over)
    successor = Ghost("0", newer, 60, 10_000, ran=True)
    waiting = Processor("0", Role.ACTIVE, Phase.WAITING, last_end=over, not_before_ms=10_000)
    state = rebuilt(
        JobState(
            "j",
            "run-1",
            groups=Map({"0": Group("0", {"0": waiting}, ghosts=(before, successor))}),
            hosts=Map({h: Host(h, alive=False) for h in ("host-1", "host-2")}),
            next_epoch=12,
            now_ms=70,
        )
    )
    back = ev.HostRegistered(100, "host-1", frozenset({older.execution_id}))
    taken = step(state, back)
    assert taken.commands == (cmd.StopContainer("0", older.execution_id, "host-1"),)
    ghosts = {ghost.incarnation.epoch: ghost for ghost in taken.state.groups["0"].ghosts}
    assert ghosts[9].ended is Ended.LEASE
    alone = state.evolve(groups=state.groups.set("0", Group("0", {"0": waiting}, ghosts=(before,))))
    (again,) = step(alone, back).state.groups["0"].ghosts
    assert again.ended is None


def test_a_host_that_is_lost_again_gives_its_ghosts_another_lease() -> None:
    """From its second silence: it had renewed in between."""
    world = running(LONE_PLACES, groups=LONE, limits=QUICK)
    world.trouble("host-1", Trouble.SLOW_STOP)
    world.submit(ask("0", "host-2"))
    world.until_phase("0", Phase.STOPPING)
    world.lose("host-1")
    world.come_back("host-1")
    world.wait(20_000)
    world.lose("host-1")
    last_word = world.leader.books["host-1"].heard_ms
    [ghost] = world.group().ghosts
    assert ghost.lease_ends_ms == last_word + QUICK.lease_ms + QUICK.lease_bound_ms


# -- a new leader --------------------------------------------------------------------------


def test_a_new_leader_counts_a_ghosts_lease_from_its_own_beginning() -> None:
    """The leader before it may have granted until that moment."""
    world = running(limits=QUICK)
    world.lose("host-1")
    world.wait(5_000)
    world.restart_coordinator()
    restarted_at = world.now_ms
    for host in HOSTS[1:]:
        world.register(host)
    world.until_phase("0", Phase.STARTING)
    assert world.now_ms == restarted_at + QUICK.lease_ms + QUICK.lease_bound_ms


def test_a_new_leader_does_not_wait_for_one_that_had_ended_before() -> None:
    """What is over stays over in later terms."""
    world = running(limits=QUICK)
    for host in HOSTS[1:]:
        world.fill(host)
    world.lose("host-1")
    world.until(lambda: world.group().ghosts[0].ended is Ended.LEASE)
    world.restart_coordinator()
    for host in HOSTS[1:]:
        world.register(host)
    began = world.now_ms
    for host in HOSTS[1:]:
        world.make_room(host)
    world.until_phase("0", Phase.RUNNING)
    assert world.now_ms - began < QUICK.lease_ms


def test_a_new_leader_fences_again_what_was_being_fenced() -> None:
    """By the same name."""
    world = running(limits=FENCED)
    world.lose("host-1")
    [fence] = world.sent(cmd.FencePrincipal)
    world.restart_coordinator()
    assert world.sent(cmd.FencePrincipal) == [fence, fence]


def test_a_host_that_registers_with_the_new_leader_keeps_its_containers() -> None:
    """No ghost, no start, no stop."""
    world = running(limits=QUICK)
    world.restart_coordinator()
    for host in HOSTS:
        world.register(host)
    world.wait(3 * QUICK.lease_ms)
    assert world.started() == []
    assert world.stopped() == []
    assert world.group().ghosts == ()
