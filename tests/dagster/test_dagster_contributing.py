"""The job, the sensor and the check of CONTRIBUTING.md, as they stand there."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import dagster as dg
import pytest
from placement_runs import SteppedSamza

from samza_dagster.orchestration.tags import tags_from_run_config
from tests.rig.stepped_job import FAILED, SteppedJob

pytestmark = pytest.mark.dagster
PAGE = Path(__file__).resolve().parents[2] / "CONTRIBUTING.md"
CONFIG = {"ops": {"restart": {"config": {"processor": "0-0", "reason": "far behind"}}}}


@pytest.fixture(scope="module")
def example() -> Iterator[ModuleType]:
    """A module of the page's only block of Python."""
    (code,) = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    module = sys.modules["contributing_example"] = ModuleType("contributing_example")
    exec(compile(code, str(PAGE), "exec", dont_inherit=True), module.__dict__)
    yield module
    del sys.modules["contributing_example"]


@pytest.fixture
def definitions(
    example: ModuleType, world: SteppedJob, request: pytest.FixtureRequest
) -> dg.Definitions:
    """All that its component makes, over a world."""

    class Tried(example.OurSamzaJob):
        def build_resources(self) -> dict[str, Any]:
            samza = SteppedSamza(bootstrap_servers=request.node.name, job_name="demo", job_id="1")
            return super().build_resources() | {"samza": samza}

    no_context: Any = None
    return Tried(bootstrap_servers="here", app_name="demo").build_defs(no_context)


def restarted(definitions: dg.Definitions, instance: dg.DagsterInstance, **more: Any) -> Any:
    job = definitions.resolve_job_def("restart_standby")
    return job.execute_in_process(CONFIG, instance=instance, raise_on_error=False, **more)


def test_the_job_asks_once_in_its_group_and_fails_as_the_request_does(
    definitions: dg.Definitions, world: SteppedJob, instance: dg.DagsterInstance
) -> None:
    """A run of the same chain follows what was asked; the queue keeps the run from others of the group."""
    first = restarted(definitions, instance)
    assert first.success
    with dg.DagsterInstance.ephemeral() as another:
        assert restarted(definitions, another, run_id=first.run_id).success
    assert world.asked == [("0-0", "LAST_SEEN")]
    tags = definitions.resolve_job_def("restart_standby").tags
    assert tags_from_run_config(CONFIG, tags)["samza/container-group"] == "demo/1/0"
    world.ends = [(FAILED, "no room")]
    failed = restarted(definitions, instance).failure_data_for_node("restart")
    assert "no room" in failed.user_failure_data.description


def test_the_sensor_launches_it_once_for_an_incarnation(
    definitions: dg.Definitions, world: SteppedJob, instance: dg.DagsterInstance
) -> None:
    """That is far behind; a lag that isn't known is none."""
    world.lag_now = {"0-0": [100_001, 5], "1-0": [None, 99_999]}
    sensor = definitions.resolve_sensor_def("far_behind")
    with dg.build_sensor_context(
        instance, resources={"samza": definitions.resources["samza"]}
    ) as context:
        (request,) = sensor.evaluate_tick(context).run_requests or ()
    assert request.run_key == f"0-0/{world.incarnation('0-0')}"
    assert request.run_config == CONFIG


@pytest.mark.parametrize(("needed_mb", "passed"), [(900, True), (901, False)])
def test_the_check_asks_for_room_on_a_living_host(
    definitions: dg.Definitions,
    world: SteppedJob,
    instance: dg.DagsterInstance,
    needed_mb: int,
    passed: bool,
) -> None:
    """The roomiest has 900 MB."""
    world.container_memory_mb = needed_mb
    check = dg.AssetCheckKey(dg.AssetKey("container_locality"), "room_for_one_more")
    job = dg.define_asset_job("look", dg.AssetSelection.checks(check))
    looked = dg.Definitions.merge(definitions, dg.Definitions(jobs=[job])).resolve_job_def("look")
    (told,) = looked.execute_in_process(instance=instance).get_asset_check_evaluations()
    assert told.passed == passed
