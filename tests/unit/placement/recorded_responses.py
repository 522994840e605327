"""Scenes in which every kind of request comes to every kind of end, and what was answered in each.

`python -m tests.unit.placement.recorded_responses` writes `tests/data/responses.json` anew.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from samza_dagster.placement import commands as cmd
from samza_dagster.placement.state import AskKind, Limits, Phase, Stage
from samza_dagster.simulation.hosts import Trouble
from tests.unit.placement.scenes import QUICK, Scene, ask, held, own, running

FILE = Path(__file__).parents[2] / "data" / "responses.json"
SCENES: dict[str, Callable[[], Scene]] = {}
START, STOP, FAIL_OVER = AskKind.START_STANDBY, AskKind.STOP_STANDBY, AskKind.FAIL_OVER


def scene(made: Callable[[], Scene]) -> Callable[[], Scene]:
    SCENES[made.__name__.replace("_", " ")] = made
    return made


def written() -> dict[str, list[str]]:
    """Scene → its answers in order: uuid, status and text."""
    return {
        name: [f"{r.uuid} {r.status}: {r.message}" for r in made().sent(cmd.WriteResponse)]
        for name, made in SCENES.items()
    }


def placed(processor: str, to: str, *, trouble: tuple[str, Trouble] | None = None) -> Scene:
    world = running(limits=QUICK)
    if trouble is not None:
        world.trouble(*trouble)
    world.submit(ask(processor, to))
    world.until_all_run()
    return world


def asked(kind: AskKind, processor: str, to: str = "", world: Scene | None = None) -> Scene:
    world = world or running(limits=QUICK)
    world.submit(own(kind, processor, to))
    world.until_all_run()
    return world


# -- moves ---------------------------------------------------------------------------------


@scene
def moved_to_a_host() -> Scene:
    return placed("0", "host-3")


@scene
def moved_to_any_host() -> Scene:
    return placed("0", "ANY_HOST")


@scene
def restarted() -> Scene:
    return placed("0", "LAST_SEEN")


@scene
def restarted_by_force() -> Scene:
    return placed("0", "FORCE_RESTART_LAST_SEEN")


@scene
def a_standby_moved() -> Scene:
    return placed("0-0", "host-3")


@scene
def changed_places_with_its_standby() -> Scene:
    return placed("0", "STANDBY")


@scene
def no_resource_in_time() -> Scene:
    world = running()
    world.submit(ask("0", "ANY_HOST"))
    world.expire("0")
    return world


@scene
def died_and_no_resource_in_time() -> Scene:
    world = running()
    world.submit(ask("0", "host-3"))
    world.crash("0")
    world.until(lambda: world.phases()["0"] is Phase.WAITING)
    world.expire("0")
    world.until_all_run()
    return world


@scene
def its_stop_failed() -> Scene:
    return placed("0", "host-3", trouble=("host-1", Trouble.STUBBORN))


@scene
def its_start_failed() -> Scene:
    return placed("0", "host-3", trouble=("host-3", Trouble.NO_START))


@scene
def it_died_and_started_at_its_destination() -> Scene:
    world = running()
    world.submit(ask("0", "host-3"))
    world.crash("0")
    world.until_all_run()
    return world


@scene
def the_source_was_lost_while_it_stopped() -> Scene:
    world = running(limits=QUICK)
    world.submit(ask("0", "host-3"))
    world.until_stage(Stage.STOPPING)
    world.lose("host-1")
    world.until_all_run()
    return world


@scene
def another_deployment_began_meanwhile() -> Scene:
    world = running()
    world.submit(ask("0", "host-3"))
    world.submit(ask("0-0", "host-4", uuid="u2"))
    world.until_stage(Stage.STOPPING)
    world.deploy({"0": ("0", "0-0"), "1": ("1", "1-0")}, deployment_id="run-2")
    return world


@scene
def another_coordinator_took_over_while_it_stopped() -> Scene:
    world = running()
    world.submit(ask("0", "host-3"))
    world.submit(ask("0-0", "host-4", uuid="u2"))
    world.until_stage(Stage.STOPPING)
    world.restart_coordinator()
    return world


@scene
def another_coordinator_took_over_on_the_way_back() -> Scene:
    world = running()
    world.trouble("host-2", Trouble.NO_START)
    world.submit(ask("0", "STANDBY"))
    world.until_stage(Stage.FALLBACK_SOURCE)
    world.restart_coordinator()
    return world


# -- in a standby's place ------------------------------------------------------------------


@scene
def the_standby_survived_its_stop() -> Scene:
    return placed("0", "STANDBY", trouble=("host-2", Trouble.STUBBORN))


@scene
def the_active_survived_its_stop_after_the_standby_gave_way() -> Scene:
    return placed("0", "STANDBY", trouble=("host-1", Trouble.STUBBORN))


@scene
def the_start_in_the_standbys_place_failed() -> Scene:
    return placed("0", "STANDBY", trouble=("host-2", Trouble.NO_START))


@scene
def the_standby_died_before_it_was_stopped() -> Scene:
    world = running()
    world.submit(ask("0", "STANDBY"))
    world.crash("0-0")
    world.until_all_run()
    return world


@scene
def given_up_after_the_standby_gave_way() -> Scene:
    world = running(limits=QUICK)
    world.submit(ask("0", "STANDBY"))
    world.until_stage(Stage.RESERVING)
    world.control(AskKind.CANCEL)
    return world


@scene
def failed_over() -> Scene:
    return asked(FAIL_OVER, "0")


@scene
def failed_over_while_it_was_down() -> Scene:
    world = running(limits=QUICK)
    world.evict("0")
    world.submit(own(FAIL_OVER, "0"))
    world.until_phase("0", Phase.RUNNING)
    return world


@scene
def failed_over_to_another_place_than_its_standbys() -> Scene:
    world = running(limits=QUICK)
    world.evict("0")
    world.trouble("host-2", Trouble.STUBBORN)
    world.submit(own(FAIL_OVER, "0"))
    world.until_phase("0", Phase.RUNNING)
    return world


@scene
def it_had_failed_over_already() -> Scene:
    world = running(limits=QUICK)
    world.lose("host-1")
    return asked(FAIL_OVER, "0", world=world)


@scene
def its_host_came_back_with_it() -> Scene:
    world = running(limits=QUICK)
    world.fill("host-3")
    world.fill("host-4")
    world.trouble("host-2", Trouble.STUBBORN)
    world.lose("host-1")
    world.until_phase("0-0", Phase.RUNNING)
    world.calm("host-2")
    world.submit(own(FAIL_OVER, "0"))
    world.come_back("host-1")
    return world


@scene
def an_active_needed_the_standby_that_moves() -> Scene:
    world = running(limits=QUICK)
    world.submit(ask("0-0", "host-3", hold=True, expiry_ms=60_000))
    world.until_stage(Stage.HELD)
    world.evict("0")
    world.until_all_run()
    return world


# -- standbys on request -------------------------------------------------------------------


@scene
def a_standby_started() -> Scene:
    return asked(START, "0", "host-3")


@scene
def a_standby_that_did_not_start() -> Scene:
    world = running()
    world.trouble("host-3", Trouble.NO_START)
    return asked(START, "0", "host-3", world)


@scene
def a_standby_stopped() -> Scene:
    return asked(STOP, "0-0")


@scene
def a_standby_stopped_that_had_no_process() -> Scene:
    world = running()
    world.evict("0-0")
    return asked(STOP, "0-0", world=world)


@scene
def a_standby_that_survived_its_stop() -> Scene:
    world = running()
    world.trouble("host-2", Trouble.STUBBORN)
    return asked(STOP, "0-0", world=world)


# -- hold, commit, release and cancel ------------------------------------------------------


@scene
def held_and_committed() -> Scene:
    world = held()
    world.control(AskKind.COMMIT)
    world.until_all_run()
    return world


@scene
def held_and_released() -> Scene:
    world = held()
    world.control(AskKind.RELEASE)
    return world


@scene
def held_too_long() -> Scene:
    world = held()
    world.until_stage(None)
    return world


@scene
def died_while_its_destination_was_held() -> Scene:
    world = held()
    world.crash("0")
    world.until_all_run()
    return world


@scene
def the_destination_was_lost_while_it_was_held() -> Scene:
    world = held()
    world.lose("host-3")
    return world


@scene
def cancelled() -> Scene:
    world = running()
    world.submit(ask("0", "host-3"))
    world.submit(ask("0-0", "host-4", uuid="u2"))
    world.control(AskKind.CANCEL, of="u2")
    world.control(AskKind.CANCEL, uuid="c2")
    return world


@scene
def controls_refused() -> Scene:
    world = running()
    world.submit(ask("0", "host-3"))
    world.submit(ask("0-0", "host-4", uuid="u2", hold=True))
    world.control(AskKind.COMMIT, of="u2")
    world.control(AskKind.COMMIT, uuid="c2")
    world.until_stage(Stage.STOPPING)
    world.control(AskKind.CANCEL, uuid="c3")
    world.control(AskKind.RELEASE, uuid="c4", of="u9")
    return world


# -- refused -------------------------------------------------------------------------------


@scene
def refused() -> Scene:
    world = running(limits=Limits(max_standbys=1))
    world.submit(ask("7", "host-3", uuid="r1"))
    world.submit(ask("0", "host-2", uuid="r2"))
    world.submit(ask("0", "nowhere", uuid="r3"))
    world.submit(ask("0", "STANDBY", uuid="r4", hold=True))
    world.submit(ask("0", "host-3", uuid="r5", expiry_ms=90_000_000))
    world.submit(own(STOP, "0", uuid="r6"))
    world.submit(own(START, "0", "host-3", uuid="r7"))
    world.submit(own(FAIL_OVER, "0-0", uuid="r8"))
    return world


if __name__ == "__main__":
    FILE.write_text(json.dumps(written(), indent=1) + "\n", encoding="utf-8")
