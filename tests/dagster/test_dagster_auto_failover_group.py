"""`auto_failover` over a standalone group: what it tells and advises, by what a group can do."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace

import dagster as dg
import pytest
from watched_am import Watching
from watched_group import SESSION_AND_DEBOUNCE_S, WatchedGroup

from samza_dagster.cli.processor import run_command
from samza_dagster.model.naming import STANDBY
from samza_dagster.orchestration.watch.settings import AutoFailover
from samza_dagster.standalone.group import Running

pytestmark = pytest.mark.dagster
ACTIVES = {"P 0": "a", "P 1": "b"}
TWO = {"P 0": "a", "P 1": "b", "Standby-P 0-0": "b", "Standby-P 1-0": "a"}
TWICE = {"P 0": "a", "P 1": "b", "Standby-P 0-0": "b", "Standby-P 0-1": "c"}
SWAP = "samza-dagster place 'P 0' --to STANDBY"
RESTART_A = "samza-dagster place a --to LAST_SEEN"
AS_NOWHERE = ("YARN", "yarn", "Application Master", "AM ", "fail-over", "coordinator run", "host-z")
"""What a group has none of."""


def watched(world: WatchedGroup, mode: str | None = None) -> Watching:
    """After five minutes in which nothing was told."""
    watching = Watching(world, AutoFailover.model_validate({"mode": mode}))
    assert watching.go_on(300) == []
    return watching


def value(event: dg.AssetObservation, name: str) -> str:
    return str(event.metadata[name].value)


@dataclass(frozen=True)
class Fault:
    """What befalls a group, and what is told of it: signal, of whom, verdict, the words that are advised."""

    name: str
    inject: Callable[[WatchedGroup], None]
    told: list[tuple[str, str, str, str]]
    make: Callable[[], WatchedGroup] = WatchedGroup


def stuck_beside_a_cold_standby(world: WatchedGroup) -> None:
    world.stick("P 0")
    world.behind["Standby-P 0-0"] = 50_000


def stall(world: WatchedGroup) -> None:
    world.stalled["Standby-P 0-0"] = world.now_ms


FAULTS = (
    Fault("a lagging task with a warm standby", lambda w: w.stick("P 0"), [("falling-behind", "P 0", "advise", SWAP)]),
    Fault("a lagging task with a cold standby", stuck_beside_a_cold_standby, [("falling-behind", "P 0", "held", RESTART_A)]),
    Fault(
        "a lagging task of whose standbys one is warm",
        stuck_beside_a_cold_standby,
        [("falling-behind", "P 0", "advise", "job move_with_standby with processor P 0 and standby Standby-P 0-1")],
        lambda: WatchedGroup(TWICE),
    ),
    Fault(
        "a lagging task without a standby",
        lambda w: w.stick("P 0"),
        [("falling-behind", "P 0", "held", RESTART_A)],
        lambda: WatchedGroup(ACTIVES),
    ),
    Fault("a container that is frozen in a processor that lives", lambda w: w.freeze("P 0"), [("silent", "P 0", "advise", SWAP)]),
    Fault("a frozen standby", lambda w: w.freeze("Standby-P 1-0"), [("silent", "Standby-P 1-0", "advise", "samza-dagster place 'Standby-P 1-0' --to host-a")]),
    Fault(
        "a frozen standby that may be nowhere else",
        lambda w: w.freeze("Standby-P 1-0"),
        [("silent", "Standby-P 1-0", "advise", RESTART_A)],
        lambda: WatchedGroup(TWO, "ab"),
    ),
    Fault("a standby whose restore thread is dead", stall, [("standby-stalled", "Standby-P 0-0", "advise", "samza-dagster place 'Standby-P 0-0' --to host-c")]),
    Fault(
        "a location of which no container reports",
        lambda w: w.freeze("P 1", "Standby-P 0-0"),
        [
            ("host-sick", "P 1", "advise", "samza-dagster place 'P 1' --to STANDBY"),
            ("host-sick", "Standby-P 0-0", "advise", "samza-dagster place 'Standby-P 0-0' --to host-c"),
        ],
    ),
    Fault(
        "no processor is registered",
        lambda w: w.kill("a", "b", "c"),
        [("job-dead", "job", "advise", "samza-dagster processor run")],
    ),
)  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_what_is_told_names_what_a_group_can_do_and_the_client_takes_it(fault: Fault) -> None:
    """Nobody has chosen a mode. What is advised is carried out here, word by word."""
    world = fault.make()
    watching = watched(world)
    fault.inject(world)
    found = watching.go_on(300)
    names = ("signal", "processor", "verdict", "what_to_do")
    told = [tuple(value(event, name) for name in names) for event in found]
    assert [each[:3] for each in told] == [each[:3] for each in fault.told]
    for event, (*_, said), (*_, advised) in zip(found, told, fault.told, strict=True):
        assert said.startswith(advised)
        assert not [word for word in AS_NOWHERE if word in f"{event.description} {said}"]
        carry_out(world, said)
    assert watching.runs == []


def carry_out(world: WatchedGroup, said: str) -> None:
    """As whoever reads it does; the client refuses what a group can't do."""
    command, _, _ = said.partition(", ")
    if command.startswith("samza-dagster place "):
        _, _, unit, _, destination = shlex.split(command)
        assert world.client().place(unit, destination).uuid
    elif command.startswith("job move_with_standby "):
        active, standby = command.partition(" processor ")[2].split(" and standby ")
        assert world.client().view().group_of(standby) == active
    else:
        assert command.startswith("samza-dagster processor run ")
        required = {option.opts[0] for option in run_command.params if option.required}
        assert all(f" {option} <" in command for option in required)


def test_a_dead_processors_tasks_move_by_themselves_and_nothing_is_told() -> None:
    """Its session's time, the debounce, a version: that is the group's own business."""
    world = WatchedGroup()
    watching = watched(world, "act")
    world.freeze("P 0")
    assert watching.go_on(25) == []
    world.kill("a")
    assert watching.go_on(SESSION_AND_DEBOUNCE_S) == []
    world.await_all("b")
    assert watching.go_on(10) == []
    world.agree({"P 0": "b", "P 1": "b", "Standby-P 0-0": "c", "Standby-P 1-0": "c"})
    assert watching.go_on(300) == []
    assert (watching.runs, world.asked) == ([], [])


def test_a_group_that_is_there_again_is_told_to_be_well() -> None:
    """Also where nobody reports metrics: that a processor is registered is enough."""
    world = WatchedGroup()
    watching = watched(world)
    before = world.group
    world.freeze(*world.places)
    world.kill("a", "b", "c")
    assert [value(e, "signal") for e in watching.go_on(60)] == ["job-dead"]
    world.group = before
    (over,) = watching.go_on(30)
    assert "looks well again" in str(over.description)


def test_while_a_barrier_is_awaited_nothing_is_asked() -> None:
    """Who waits is named; once all have joined it is decided again."""
    world = WatchedGroup()
    watching = watched(world, "act")
    world.stick("P 0")
    world.await_all("a", "b")
    (event,) = watching.go_on(300)
    assert (value(event, "verdict"), value(event, "because")) == (
        "watch",
        "version 4 isn't agreed on, waits for c; agreed is 3",
    )
    assert watching.runs == []
    world.group = replace(
        world.group, agreed=4, running=dict.fromkeys(world.group.running, Running(4))
    )
    watching.go_on(60)
    assert [each.job_name for each in watching.runs] == ["move_with_standby"]


def test_while_two_processors_have_one_id_nothing_is_asked() -> None:
    """No version is made meanwhile."""
    world = WatchedGroup()
    watching = watched(world, "act")
    world.stick("P 0")
    again = world.group.members[1]._replace(sequence="0000000009")
    world.group = replace(world.group, members=(*world.group.members, again))
    (event,) = watching.go_on(300)
    assert "two processors have the id b" in value(event, "because")
    assert watching.runs == []


def test_in_act_a_task_is_moved_by_one_run_which_swaps_it_with_its_standby() -> None:
    """Once, whatever follows, until somebody has looked."""
    world = WatchedGroup()
    watching = watched(world, "act")
    world.freeze("P 0")
    watching.go_on(300)
    (launched,) = watching.runs
    assert launched.job_name == "move_with_standby"
    config = launched.run_config["ops"]["plan_move_with_standby"]["config"]
    assert (config["processor"], config["standby"]) == ("P 0", "Standby-P 0-0")
    world.client().place("P 0", STANDBY)
    assert world.places["P 0"] == "b"
    world.frozen = {}
    assert "looks well again" in " ".join(str(e.description) for e in watching.go_on(60))
    assert len(watching.runs) == 1
