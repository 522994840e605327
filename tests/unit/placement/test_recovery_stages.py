"""A coordinator that dies at any stage: the next one says the same again, and the end is the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from samza_dagster.placement import commands as cmd
from samza_dagster.placement.state import (
    AskKind,
    Fencing,
    JobState,
    Limits,
    Phase,
    PlacementAsk,
    Stage,
)
from samza_dagster.simulation.hosts import Trouble
from samza_dagster.simulation.moves import Move
from tests.unit.placement.scenes import QUICK, Scene, ask, own, running, stored_and_read

pytestmark = pytest.mark.unit

FENCED = Limits(fencing=Fencing.BROKER, host_timeout_ms=10_000)
At = Callable[[Scene], bool]


def stage(wanted: Stage) -> At:
    return lambda world: world.stage("0") is wanted


def phase(processor_id: str, wanted: Phase) -> At:
    return lambda world: world.phases().get(processor_id) is wanted


def fails_over(world: Scene) -> bool:
    return world.group().failover is not None


def has_ghost(world: Scene) -> bool:
    return bool(world.group().ghosts)


@dataclass(frozen=True)
class Story:
    """What is asked or goes wrong, and the moments in it at which a coordinator may die."""

    begin: Callable[[Scene], None]
    moments: dict[str, At]
    limits: Limits = QUICK
    slots: int = 4


def request(asked: PlacementAsk) -> Callable[[Scene], None]:
    return lambda world: world.submit(asked)


def move_to_a_broken_host(world: Scene) -> None:
    world.trouble("host-3", Trouble.NO_START)
    world.submit(ask("0", "host-3"))


def move_and_no_way_back(world: Scene) -> None:
    world.trouble("host-3", Trouble.NO_START)
    world.trouble("host-1", Trouble.NO_START)
    world.submit(ask("0", "host-3"))


def at_stages(*stages: Stage) -> dict[str, At]:
    return {wanted.value: stage(wanted) for wanted in stages}


RESERVE_STOP_START = at_stages(Stage.RESERVING, Stage.STOPPING, Stage.STARTING)
FORCED = ask("0", "FORCE_RESTART_LAST_SEEN")
STORIES: dict[str, Story] = {
    "move": Story(request(ask("0", "host-3")), RESERVE_STOP_START),
    "restart": Story(request(ask("0", "LAST_SEEN")), RESERVE_STOP_START),
    "forced restart": Story(request(FORCED), at_stages(Stage.STOPPING, Stage.STARTING)),
    "swap": Story(
        request(ask("0", "STANDBY")),
        {
            **at_stages(Stage.RESERVING_STANDBY, Stage.STOPPING_STANDBY),
            **RESERVE_STOP_START,
        },
    ),
    "fail-over": Story(
        request(own(AskKind.FAIL_OVER, "0")),
        {**at_stages(Stage.STOPPING_STANDBY), **RESERVE_STOP_START},
    ),
    "start of a standby": Story(
        request(own(AskKind.START_STANDBY, "0", "host-3")),
        at_stages(Stage.RESERVING, Stage.STARTING),
    ),
    "stop of a standby": Story(
        request(own(AskKind.STOP_STANDBY, "0-0")), at_stages(Stage.STOPPING)
    ),
    "way back": Story(move_to_a_broken_host, at_stages(Stage.FALLBACK_SOURCE)),
    "way back elsewhere": Story(move_and_no_way_back, at_stages(Stage.FALLBACK_ANY)),
    "failover": Story(
        lambda world: world.evict("0"),
        {
            "own host asked for": phase("0", Phase.REQUESTING),
            "standby told to give way": fails_over,
            "place reserved": phase("0", Phase.RESERVED),
            "starting": lambda w: fails_over(w) and w.phases()["0"] is Phase.STARTING,
            "standby asks for a place": phase("0-0", Phase.REQUESTING),
        },
    ),
    "death of a standby": Story(
        lambda world: world.crash("0-0"),
        {
            "own host asked for": phase("0-0", Phase.REQUESTING),
            "starting": phase("0-0", Phase.STARTING),
        },
    ),
    "lost host, lease": Story(
        lambda world: world.lose("host-1"),
        {"ghost": has_ghost, "place reserved": phase("0", Phase.RESERVED)},
    ),
    "lost host, fence": Story(
        lambda world: world.lose("host-1"), {"ghost": has_ghost}, limits=FENCED
    ),
    "flapping": Story(
        lambda world: world.crash("0"),
        {"pause": phase("0", Phase.WAITING), "starting": phase("0", Phase.STARTING)},
        limits=Limits(retry_count=0),
    ),
}
CASES = [(name, moment) for name, story in STORIES.items() for moment in story.moments]


def begun(story: Story) -> Scene:
    return running(limits=story.limits, slots=story.slots)


def go_on(world: Scene) -> None:
    """One fair move, or time."""
    if not world.next_move():
        assert world.do(Move("tick"))


def at(story: Story, moment: str) -> Scene:
    world = begun(story)
    story.begin(world)
    for _ in range(200):
        if story.moments[moment](world):
            return world
        go_on(world)
    raise AssertionError(f"never came to {moment}: {world.phases()}")


def end(world: Scene) -> tuple[object, ...]:
    """What a person sees in the end."""
    world.until_all_run()
    world.until(lambda: all(g.action is None and not g.queue for g in world.state.groups.values()))
    told = world.told("u1")
    return {pid: world.placed(pid) for pid in world.phases()}, told[-1] if told else None


def outstanding(state: JobState) -> Iterator[str]:
    """The id of everything that somebody still owes an answer for."""
    for group in state.groups.values():
        for processor in group.processors.values():
            if processor.request is not None:
                yield processor.request.request_id
            if processor.phase in (Phase.STARTING, Phase.STOPPING):
                assert processor.incarnation is not None
                yield processor.incarnation.execution_id
        if group.action is not None:
            for reservation in (group.action.reservation, group.action.standby_reservation):
                if reservation is not None:
                    yield reservation.request_id
        for ghost in group.ghosts:
            if ghost.fencing and ghost.ended is None:
                yield ghost.incarnation.execution_id


def said(commands: tuple[cmd.Command, ...]) -> set[str]:
    ids: set[str] = set()
    for command in commands:
        match command:
            case cmd.RequestResource(request_id=ident):
                ids.add(ident)
            case (
                cmd.StartContainer(execution_id=ident)
                | cmd.StopContainer(execution_id=ident)
                | cmd.FencePrincipal(execution_id=ident)
            ):
                ids.add(ident)
            case _:
                pass
    return ids


@pytest.mark.parametrize(("name", "moment"), CASES)
def test_everything_outstanding_is_said_again_by_its_id_and_nothing_else(
    name: str, moment: str
) -> None:
    """So an answer to the first is an answer to the second."""
    world = at(STORIES[name], moment)
    owed = set(outstanding(world.state))
    world.restart_coordinator()
    assert said(world.steps_told[-1]) == owed


@pytest.mark.parametrize(("name", "moment"), CASES)
def test_a_take_over_does_not_change_the_end(name: str, moment: str) -> None:
    """Who runs where, and what the client was told."""
    story = STORIES[name]
    undisturbed = end(at(story, moment))
    world = at(story, moment)
    world.restart_coordinator()
    assert end(world) == undisturbed


@pytest.mark.parametrize(("name", "moment"), CASES)
def test_effects_that_were_lost_with_the_coordinator_do_not_change_the_end(
    name: str, moment: str
) -> None:
    """It died after the commit of the step that led here, before anything left it."""
    story = STORIES[name]
    undisturbed = end(at(story, moment))
    world = dies_in_the_step_to(story, moment)
    if world.led():  # the step had no effects to lose
        assert world.do(Move("kill-leader"))
    world.committed = stored_and_read(world.committed)
    assert world.do(Move("take-over"))
    assert end(world) == undisturbed


def dies_in_the_step_to(story: Story, moment: str) -> Scene:
    world = begun(story)
    story.begin(world)
    moves = 0
    while not story.moments[moment](world):
        go_on(world)
        moves += 1
    world = begun(story)
    if moves == 0:
        assert world.do(Move("crash", (0,)))
        story.begin(world)
        return world
    story.begin(world)
    for _ in range(moves - 1):
        go_on(world)
    assert world.do(Move("crash", (0,)))
    go_on(world)
    return world
