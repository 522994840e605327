"""The uuids that requests are on record by, literally: a run in flight over an upgrade goes on by them.

With a changed value such a run would find nothing that it has asked for, and ask a second time.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from samza_dagster.client.views import HostView, JobView, ProcessorView
from samza_dagster.model import StatusCode, TaskMode
from samza_dagster.orchestration.drain import ACTION as DRAIN
from samza_dagster.orchestration.moves import acting
from samza_dagster.orchestration.operations.work import Chain
from samza_dagster.orchestration.plans.drain import DrainRules, drain_units
from samza_dagster.orchestration.plans.order import Schedule
from samza_dagster.orchestration.plans.units import Kind, Unit, UnitsPlan
from samza_dagster.orchestration.requests import step_request
from samza_dagster.orchestration.requests.step_request import StepRequest, request_uuid
from samza_dagster.orchestration.requests.verify import OwnCommits
from tests.rig import lags as rig
from tests.rig.bounce_world import BounceWorld
from tests.unit.orchestration.test_bounce_loop import Book, plan_of, run
from tests.unit.orchestration.test_orchestration_plan_sizes import LIMITS

pytestmark = pytest.mark.unit
AT = {"0": "host-1", "0-0": "host-2", "0-1": "host-4", "1": "host-1", "2": "host-2"}


def job() -> JobView:
    """With Samza's ids; standby 0-1 was spun up on request."""
    modes = {p: TaskMode.STANDBY if "-" in p else TaskMode.ACTIVE for p in AT}
    processors = {
        p: ProcessorView(p, modes[p], "running", host, extra=p == "0-1") for p, host in AT.items()
    }
    hosts = {name: HostView(name, "alive") for name in ("host-1", "host-2", "host-3", "host-4")}
    return JobView("demo", "1", "run-1", processors, hosts, coordinator="samza_dagster")


def test_a_run_of_one_move_finds_what_it_has_asked_for() -> None:
    """With a changed value a run that goes on after an upgrade would ask a second time."""
    cancels = list[str]()
    ended = SimpleNamespace(status_code=StatusCode.FAILED, response_message="")
    client = SimpleNamespace(
        view=job, cancel=lambda _, uuid: cancels.append(uuid), wait=lambda *_, **__: ended
    )
    step_request.cancel(cast("Any", client), "root", "the request")
    held = StepRequest("move", "the request", 0)
    assert {
        "move": request_uuid("root", acting.MOVE, 0),
        "move, second attempt": request_uuid("root", acting.MOVE, 1),
        "its commit": held.uuid_of(step_request.COMMIT, "root"),
        "its release": held.uuid_of(step_request.RELEASE, "root"),
        "its cancel": cancels[0],
        "a standby makes room": request_uuid("root", acting.RELOCATE, 0),
        "a standby is spun up": request_uuid("root", acting.SPIN_UP, 0),
        "it gives its place": request_uuid("root", acting.GIVES_PLACE, 0),
        "it is removed": request_uuid("root", acting.REMOVE_STANDBY, 0),
    } == {
        "move": "a8383852-37f3-5fcb-8d6b-161c79e29aff",
        "move, second attempt": "ed141130-aaf5-5924-987f-058ce9da770c",
        "its commit": "a758b103-13af-5c7e-8f14-85e7769607ec",
        "its release": "68c9e0a1-959c-559b-96a3-003f97dbe8d5",
        "its cancel": "5530be25-62c2-55e2-8616-1fd58972f6c1",
        "a standby makes room": "22db53a0-9d4d-51a5-aa4d-14e60973895a",
        "a standby is spun up": "1be7a046-01bd-5f25-a6e8-6501e2f938da",
        "it gives its place": "6d34401f-664a-5fa9-9b76-4828e5a40790",
        "it is removed": "5a73016d-904b-5678-b082-3853fe028bc8",
    }


def units(what: str, subject: str, planned: Iterable[Unit], attempt: int = 0) -> dict[str, str]:
    """Of each step that asks; `attempt` is the one that has started the unit's standby."""
    plan = UnitsPlan(what, subject, "demo/1", "samza_dagster", (), Schedule(), LIMITS, ())
    answers = dict.fromkeys(("response", "request", "own_request"), lambda _: None)
    nobody = cast("Any", SimpleNamespace(**answers, remembered=frozenset[str]))
    chain = Chain(nobody, "root", plan.coordinator, LIMITS, {}, OwnCommits(), plan.prefix)
    return {
        f"{unit.processor}: {step.name}": chain.asked(unit, step, standby_attempt=attempt).uuid
        for unit in planned
        for step in unit.steps
        if step.kind in (Kind.PLACE, Kind.START_STANDBY, Kind.STOP_STANDBY)
    }


def test_a_drain_finds_what_it_has_asked_for() -> None:
    """With a changed value a run that goes on after an upgrade would ask a second time."""
    drained = drain_units(job(), "host-1", *rig.lags({"0-0": 0, "1": 0}, 100), DrainRules())
    assert units(DRAIN, "host-1", drained) == {
        "0: away": "37394c37-7418-5b29-a319-ddf305e8ca3e",
        "0: move": "09d16cb9-ed9e-5117-9a9b-134a2a640e15",
        "1: spin_up": "08dda367-41ac-5e5b-a6f6-7d1fc32cb785",
        "1: gives_place": "0e3563d4-bfe5-5879-ad7b-8f9522b4d683",
        "1: move": "d14561cd-ca71-5ac8-98be-f160d4a3fc46",
    }
    again = units(DRAIN, "host-1", drained, attempt=1)
    assert again["1: gives_place"] == "f84a9d9c-3fc6-5089-8694-95206a874b6d"


def test_a_bounce_finds_what_it_has_asked_for() -> None:
    """With a changed value a run that goes on after an upgrade would restart somebody twice."""
    world = BounceWorld(at={"0": "host-1", "0-0": "host-2"})
    run(world, Book(), plan_of(world))
    assert {r.processor: (r.uuid, r.committed_by) for r in world.requests.values()} == {
        "0": ("4c6a3efa-6929-59f6-a3d7-5c87260fb178", "932b9cbe-fc4d-52c1-b4cb-9fbd8e0d8761"),
        "0-0": ("cf5124d1-16e6-5a39-96ef-2c9d5f934428", "54aca7a0-dae0-57a9-8724-8baab4ece2b2"),
    }
    held = StepRequest("bounce/0-0", "the request", 0)
    assert held.uuid_of(step_request.RELEASE, "root") == "d82c4ebe-e329-535e-b136-546a574efa47"
