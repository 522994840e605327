"""What a leader does: it decides, commits and sends; and another one takes over from it."""

from __future__ import annotations

from dataclasses import replace

from samza_dagster.placement import commands as cmd
from samza_dagster.placement import events as ev
from samza_dagster.placement.logins import launched_without
from tests.simulation import settings
from tests.simulation.clocks import Clock
from tests.simulation.coordinators import Coordinator, ProcessState
from tests.simulation.effects import act, forget_lost
from tests.simulation.judges.durability import passed_on
from tests.simulation.judges.violation import InvariantViolated
from tests.simulation.world_state import BEGAN_MS, WALL_MS, WorldState

REDUCER_RAISED = "the-reducer-raised"


def handle(world: WorldState, event: ev.Event) -> None:
    """One step of the leader: decided, committed, and its effects on their way.

    A trap that was set makes it end, or pause, between two effects.
    """
    leader, before = world.leader, world.committed
    assert leader.standing is ProcessState.LEADING, f"{event} without a leader"
    try:
        taken = world.reducer(before, event)
    except InvariantViolated:
        raise
    except Exception as error:
        raise InvariantViolated(
            REDUCER_RAISED, f"{type(error).__name__}: {error} at {event}"
        ) from error
    world.steps += 1
    if taken.commands or (taken.state.groups is not before.groups):
        world.changes += 1
    leader.state = world.committed = taken.state
    leader.last_commit_ms = world.now_ms
    if world.emitted is not None:
        world.emitted.extend(taken.commands)
    if world.heard is not None:
        world.heard(event, taken)
    effects: list[cmd.Effect] = []
    for command in taken.commands:
        if isinstance(command, cmd.Projection):
            world.brokers.commit(command)
        else:
            effects.append(command)
    if world.judge is not None:
        world.judge.step(before, event, taken, world)
    act(world, leader, effects, trapped=bool(taken.commands))
    if taken.state.hosts is not before.hosts:
        forget_lost(world, leader, before)


def replace_leader(world: WorldState, wall_jump_ms: int = 0, changes: str = "") -> None:
    """Another coordinator leads from what the records hold; the one before ends or is a zombie.

    It was started with the settings of that one, and these changes.
    """
    before = world.leader
    world.old = None if before.standing is ProcessState.DEAD else before
    if world.old is not None and world.old.standing is ProcessState.LEADING:
        world.old.standing = ProcessState.PAUSED
    now = _wall_ms(world, before) + wall_jump_ms
    clock = Clock(world.true_ms, now, before.clock.ppm)
    own = settings.changed(world.own_limits(before), changes)
    stored, known = passed_on(world.committed), world.brokers.known()
    limits = settings.in_force(
        own,
        stored,
        lease_before_ms=world.brokers.lease_ms or stored.limits.lease_ms,
        logins=known,
    )
    left_out = launched_without(stored, known)
    world.brokers.lease_ms = limits.lease_ms
    world.committed = replace(stored, limits=limits)
    world.leader = Coordinator(before.epoch + 1, world.committed, clock, own, now, left_out)
    world.leader.heeds_domains = settings.heeds_fault_domains(before.heeds_domains, changes)
    world.leader.trap, world.leader.last_commit_ms = before.heir_trap, now
    world.leader.unread = list(world.brokers.topic)
    handle(world, ev.CoordinatorRestarted(now))


def _wall_ms(world: WorldState, before: Coordinator) -> int:
    """The time of whoever takes over: its machine's, or an earlier leader's where that is later."""
    if not world.skews:
        return before.clock.read(world.true_ms)
    skew_ms = world.skews[before.epoch % len(world.skews)]
    return max(world.committed.now_ms, WALL_MS + world.true_ms - BEGAN_MS + skew_ms)
