"""One component of several Samza jobs: its definitions exist once, and each run is about one job."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest
from placement_runs import WORLDS
from run_results import failure
from several_jobs import component, loaded, two_jobs

from samza_dagster import SamzaJobComponent
from samza_dagster.client.views import HostView
from samza_dagster.errors import InvalidInput
from samza_dagster.orchestration.bounce import ScheduledBounce
from samza_dagster.orchestration.operations.runs import BOUNCE, PROGRESS
from samza_dagster.orchestration.tags import ACTION, GROUP, JOB, SLOT, tags_from_run_config
from tests.rig.sensor_ticks import tick
from tests.rig.stepped_job import SteppedJob

pytestmark = pytest.mark.dagster


@pytest.fixture
def instance(dagster_home: Callable[[Path], Path], tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    with two_jobs(str(dagster_home(tmp_path))) as made:
        yield made


def launched(
    instance: dg.DagsterInstance,
    several: dg.RepositoryDefinition,
    job: str,
    config: dict[str, Any] | None = None,
    **how: Any,
) -> dg.ExecuteInProcessResult:
    ops = {f"plan_{job}": {"config": config or {}}}
    return several.get_job(job).execute_in_process(
        run_config={"ops": ops}, instance=instance, raise_on_error=False, **how
    )


def known(instance: dg.DagsterInstance, of: SamzaJobComponent) -> set[str]:
    """The jobs that a component's partitions are of."""
    return set(instance.get_dynamic_partitions(f"{of.tag}/jobs"))


def test_definitions_exist_once_however_many_jobs_there_are() -> None:
    """With the names and asset keys that a component of one job has."""
    one = dg.build_defs_for_component(SamzaJobComponent(bootstrap_servers="x:1", app_name="orders"))
    repository, many = one.get_repository_def(), loaded(jobs=[f"job-{n}" for n in range(200)])
    for names in (
        lambda of: {job.name for job in of.get_all_jobs() if not job.name.startswith("__ASSET")},
        lambda of: {sensor.name for sensor in of.sensor_defs},
        lambda of: of.asset_graph.get_all_asset_keys(),
    ):
        assert names(many) == names(repository)


def test_a_list_of_one_name_is_that_job_and_nothing_is_asked() -> None:
    """Its tags, partitions and assets are those of `app_name`."""
    made = component(jobs=["orders"])
    assert (made.job, made.jobs) == ("orders/1", [])
    job = loaded(jobs=["orders"]).get_job("rolling_bounce")
    assert job.tags[JOB] == "orders/1"
    assert job.partitions_def is None


def test_one_job_and_several_at_once_are_refused() -> None:
    """Of which of both the component is isn't guessed."""
    with pytest.raises(InvalidInput, match="app_name for one Samza job, jobs for several"):
        component(app_name="wordcount")


def test_choices_name_job_and_processor(instance: dg.DagsterInstance) -> None:
    """One list answers both questions of the Launchpad; what is gone leaves it, jobs too."""
    several = loaded()
    assert several.get_sensor_def("choices")
    WORLDS["billing/2"].at = {"7": "host-1"}
    tick(instance, several, "choices")
    offered = several.get_job("restart_container").partitions_def
    assert offered is not None
    keys = offered.get_partition_keys(dynamic_partitions_store=instance)
    assert set(keys) == {"orders/1/0", "orders/1/1", "orders/1/0-0", "orders/1/1-0", "billing/2/7"}
    assert known(instance, component()) == {"orders/1", "billing/2"}
    assert not tick(instance, several, "choices").dynamic_partitions_requests
    del WORLDS["billing/2"].at["7"]
    tick(instance, several, "choices")
    keys = offered.get_partition_keys(dynamic_partitions_store=instance)
    assert all(key.startswith("orders/1/") for key in keys)


def test_two_code_locations_keep_each_its_own_choices(instance: dg.DagsterInstance) -> None:
    """Of one instance, both without a prefix: neither takes the other's for gone."""
    theirs = component(jobs=["orders", "orders/2*"])
    tick(instance, loaded(), "choices")
    tick(instance, dg.build_defs_for_component(theirs).get_repository_def(), "choices")
    assert known(instance, component()) == {"orders/1", "billing/2"}
    assert known(instance, theirs) == {"orders/1"}
    assert not tick(instance, loaded(), "choices").dynamic_partitions_requests


def test_the_form_offers_the_hosts_of_the_chosen_processors_job(
    instance: dg.DagsterInstance,
) -> None:
    """Each job has hosts of its own."""
    WORLDS["billing/2"].hosts = {
        "here": HostView("here", "alive"),
        "there": HostView("there", "alive"),
    }
    WORLDS["billing/2"].at = {"0": "here"}
    made = loaded().get_job("move_container").get_run_config_for_partition_key("billing/2/0")
    assert made["ops"]["plan_move_container"]["config"]["destination"] == "there or ANY_HOST"


def test_a_run_is_about_the_job_of_its_partition(instance: dg.DagsterInstance) -> None:
    """It asks that job alone, and is tagged as a run of a component of that job is."""
    several = loaded()
    tick(instance, several, "choices")
    done = launched(instance, several, "restart_container", partition_key="billing/2/0-0")
    assert done.success
    assert [p for p, _ in WORLDS["billing/2"].asked] == ["0-0"]
    assert WORLDS["orders/1"].asked == []
    run = instance.get_run_by_id(done.run_id)
    assert run is not None
    tags = {JOB: "billing/2", SLOT: "billing/2", GROUP: "billing/2/0"}
    assert tags.items() <= run.tags.items()


def test_a_run_is_about_the_job_that_it_is_tagged_with(instance: dg.DagsterInstance) -> None:
    """As runs of sensors and schedules are; the processor is the config's."""
    done = launched(
        instance, loaded(), "restart_container", {"processor": "1"}, tags={JOB: "orders/1"}
    )
    assert done.success
    assert [p for p, _ in WORLDS["orders/1"].asked] == ["1"]


@pytest.mark.parametrize(
    ("tags", "seen"),
    [({}, "none was chosen"), ({JOB: "other/1"}, "other/1, which isn't one of it")],
)
def test_a_run_about_no_job_of_the_component_is_refused(
    instance: dg.DagsterInstance, tags: dict[str, str], seen: str
) -> None:
    """What would make it right is told; nothing is asked of anybody."""
    done = launched(instance, loaded(), "restart_container", {"processor": "0"}, tags=tags)
    told = failure(done, "plan_restart_container")[0]
    assert seen in told
    assert "choose its partition in the Launchpad" in told
    assert not any(world.asked for world in WORLDS.values())


def test_a_run_about_a_whole_job_is_chosen_by_that_job() -> None:
    """The queue's limits are per Samza job, as for a component of one."""
    chosen = loaded().get_job("rolling_bounce").partitioned_config
    assert chosen is not None
    made = chosen.get_tags_for_partition_key("orders/1")
    assert {
        JOB: "orders/1",
        SLOT: "orders/1",
        GROUP: "orders/1/rolling_bounce",
    }.items() <= made.items()
    implied = tags_from_run_config({}, {**made, "dagster/partition": "orders/1"})
    assert implied == {GROUP: "orders/1/rolling_bounce"}


def test_jobs_of_a_pattern_are_those_that_kafka_has_now(instance: dg.DagsterInstance) -> None:
    """A job that is deployed later is there at the next tick."""
    several = loaded(jobs=["orders*/*"])
    WORLDS["orders-eu/3"] = SteppedJob.demo()
    tick(instance, several, "choices")
    assert known(instance, component(jobs=["orders*/*"])) == {"orders/1", "orders-eu/3"}
    del WORLDS["orders-eu/3"]
    tick(instance, several, "choices")
    assert known(instance, component(jobs=["orders*/*"])) == {"orders/1"}


def test_a_schedule_bounces_each_job_that_it_names(instance: dg.DagsterInstance) -> None:
    """A run for each, tagged as that job's."""
    bounces = [
        ScheduledBounce(name="all", cron="0 2 * * *"),
        ScheduledBounce(name="some", cron="0 3 * * *", jobs=["bill*/*"]),
    ]
    several = loaded(bounces=bounces)
    for name, wanted in (("all", {"orders/1", "billing/2"}), ("some", {"billing/2"})):
        with dg.build_schedule_context(
            instance=instance,
            repository_def=several,
            scheduled_execution_time=datetime.now(UTC),
            resources=dict(several.get_top_level_resources()),
        ) as context:
            ticked = several.get_schedule_def(f"bounce_{name}").evaluate_tick(context)
        requests = ticked.run_requests or []
        assert {one.tags[JOB] for one in requests} == wanted
        assert len({one.run_key for one in requests}) == len(wanted)


def test_two_components_of_several_stand_side_by_side(instance: dg.DagsterInstance) -> None:
    """Under a prefix everything is behind it, the tag of each job as well."""
    both = dg.Definitions.merge(
        dg.build_defs_for_component(component()),
        dg.build_defs_for_component(component(prefix="east")),
    ).get_repository_def()
    tick(instance, both, "east_choices")
    assert known(instance, component(prefix="east")) == {"east/orders/1", "east/billing/2"}
    done = launched(instance, both, "restart_container", {"processor": "0"})
    assert not done.success
    config = {"ops": {"plan_restart_container": {"config": {}}}}
    done = both.get_job("east_restart_container").execute_in_process(
        run_config=config, instance=instance, partition_key="east/orders/1/1", raise_on_error=False
    )
    assert done.success
    run = instance.get_run_by_id(done.run_id)
    assert run is not None
    assert (run.tags[JOB], run.tags[GROUP]) == ("east/orders/1", "east/orders/1/1")


def test_the_overview_has_a_line_for_each_job(
    instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By one look at each; what Dagster has recorded of the week stands beside it."""
    instance.report_runless_asset_event(
        dg.AssetMaterialization(
            "placement_history",
            partition="orders/1",
            metadata={"job": "orders/1", "succeeded": 1},
        )
    )
    job = loaded().get_job("rolling_bounce")
    for name, status, tags in (
        (
            "orders/1",
            dg.DagsterRunStatus.STARTED,
            {BOUNCE: "running", PROGRESS: "3/7, about 2 min left"},
        ),
        ("billing/2", dg.DagsterRunStatus.SUCCESS, {BOUNCE: "done", PROGRESS: "4/4"}),
    ):
        about = {JOB: name, ACTION: "rolling_bounce", **tags}
        instance.create_run_for_job(job, tags=about, status=status)
    # Dagster makes no queued run without a code server.
    queued = SimpleNamespace(tags={JOB: "orders/1", ACTION: "restart_container"})
    real = instance.get_runs

    def get_runs(filters: dg.RunsFilter | None = None, **more: Any) -> Any:
        is_of_queue = filters is not None and list(filters.statuses) == [dg.DagsterRunStatus.QUEUED]
        return [queued] if is_of_queue else real(filters, **more)

    monkeypatch.setattr(instance, "get_runs", get_runs)
    done = loaded().get_job("look_at_fleet").execute_in_process(instance=instance)
    (event,) = done.get_asset_materialization_events()
    told = event.materialization.metadata["jobs"].value
    rows = {each.data["job"]: each.data for each in told.records}
    assert set(rows) == {"orders/1", "billing/2"}
    assert rows["orders/1"]["moves_7d"] == "1 / 0"
    assert rows["billing/2"]["moves_7d"] == "0 / 0"
    assert rows["orders/1"]["now"] == "rolling_bounce runs: 3/7, about 2 min left"
    assert rows["orders/1"]["waits"] == "restart_container is queued in Dagster"
    assert (rows["billing/2"]["now"], rows["billing/2"]["waits"]) == ("-", "-")
    assert "host-1" in str(rows["orders/1"]["hosts"])
