"""Processors and hosts are offered as partitions, and a chosen one is what a run acts on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import dagster as dg
import pytest
from placement_runs import SteppedSamza, definitions_over, placement_job
from run_results import failure

from samza_dagster.client.views import HostView
from samza_dagster.orchestration.choices import BACKFILL, choices_sensor
from samza_dagster.orchestration.jobs import of_component
from samza_dagster.orchestration.tags import GROUP
from tests.rig.sensor_ticks import partitions_kept
from tests.rig.stepped_job import SteppedJob

pytestmark = pytest.mark.dagster
PROCESSORS, HOSTS = "demo/1/processors", "demo/1/hosts"


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    """One a test: partitions are the instance's."""
    with dg.DagsterInstance.ephemeral() as made:
        yield made


def keep_current(instance: dg.DagsterInstance) -> Any:
    """A tick, and what the daemon does with its result."""
    samza = SteppedSamza(bootstrap_servers="reexecuted", job_name="demo", job_id="1")
    with dg.build_sensor_context(instance=instance, resources={"samza": samza}) as context:
        result = choices_sensor("demo/1").evaluate_tick(context)
    partitions_kept(instance, result)
    return result


def launch(
    instance: dg.DagsterInstance, job: str, key: str, **config: Any
) -> dg.ExecuteInProcessResult:
    return placement_job(job).execute_in_process(
        run_config={"ops": {f"plan_{job}": {"config": config}}},
        instance=instance,
        partition_key=key,
        raise_on_error=False,
    )


def test_the_choices_are_those_of_the_job_now(
    world: SteppedJob, instance: dg.DagsterInstance
) -> None:
    """What is new is added, what is gone is deleted; nothing is done when nothing changed."""
    keep_current(instance)
    assert set(instance.get_dynamic_partitions(PROCESSORS)) == {"0", "0-0", "1", "1-0"}
    assert set(instance.get_dynamic_partitions(HOSTS)) == set(world.hosts)
    assert not keep_current(instance).dynamic_partitions_requests
    world.at["0-1"] = "host-4"
    del world.at["1-0"]
    world.hosts["host-9"] = HostView("host-9", "alive")
    keep_current(instance)
    assert set(instance.get_dynamic_partitions(PROCESSORS)) == {"0", "0-0", "0-1", "1"}
    assert "host-9" in instance.get_dynamic_partitions(HOSTS)


def test_a_job_takes_its_processor_from_the_partition(
    world: SteppedJob, instance: dg.DagsterInstance
) -> None:
    """And a drain its host; a config may name the same."""
    keep_current(instance)
    assert launch(instance, "restart_container", "1").success
    assert launch(instance, "restart_container", "1", processor="1").success
    assert [p for p, _ in world.asked] == ["1", "1"]
    assert launch(instance, "drain_host", "host-2", cold=True).success
    assert world.at["1"] != "host-2"


@pytest.mark.parametrize(
    ("job", "field", "key", "named"),
    [("restart_container", "processor", "1", "0"), ("drain_host", "host", "host-2", "host-1")],
)
def test_a_config_that_names_another_than_the_chosen_partition_is_refused(
    world: SteppedJob, instance: dg.DagsterInstance, job: str, field: str, key: str, named: str
) -> None:
    """Both are told: the one that was clicked would have been left alone in silence."""
    keep_current(instance)
    result = launch(instance, job, key, **{field: named})
    text, _ = failure(result, f"plan_{job}")
    assert f"{field} {named} in the config, {key} as the chosen partition" in text
    assert world.requests == {}


def test_neither_is_explained_and_nothing_asked(
    world: SteppedJob, instance: dg.DagsterInstance
) -> None:
    """The form has no required field any more; the run says what it lacks."""
    result = (
        definitions_over("reexecuted")
        .get_job_def("restart_container")
        .execute_in_process(instance=instance, raise_on_error=False)
    )
    assert "no partition chosen" in failure(result, "plan_restart_container")[0]
    assert world.requests == {}


def test_a_backfill_over_all_of_them_is_refused(
    world: SteppedJob, instance: dg.DagsterInstance
) -> None:
    """Nothing would keep its order or its bound."""
    keep_current(instance)
    result = placement_job("restart_container").execute_in_process(
        instance=instance, partition_key="0", tags={BACKFILL: "b"}, raise_on_error=False
    )
    assert not result.success
    assert world.requests == {}


def test_the_form_offers_where_the_chosen_processor_may_go(
    world: SteppedJob, instance: dg.DagsterInstance
) -> None:
    """First where its state is warm, then the legal hosts and any of them; as it is it can be launched."""
    samza = SteppedSamza(bootstrap_servers="reexecuted", job_name="demo", job_id="1")
    job = of_component(placement_job("move_container"), "demo/1", "", {}, samza)
    offered = {key: job.get_run_config_for_partition_key(key) for key in ("0", "0-0")}
    of_0, of_standby = (
        config["ops"]["plan_move_container"]["config"]["destination"] for config in offered.values()
    )
    assert of_0 == "STANDBY or host-2 or host-4 or ANY_HOST"
    assert of_standby == "host-2 or host-4 or ANY_HOST"
    assert job.get_run_config_for_partition_key("9") == {}, "one that is gone"
    keep_current(instance)
    assert launch(instance, "move_container", "0", destination=of_0).success
    assert [to for _, to in world.asked] == ["STANDBY"]


def test_of_several_destinations_the_first_that_no_rule_forbids_is_taken(
    world: SteppedJob, instance: dg.DagsterInstance
) -> None:
    """`host-3` has the standby; a host that isn't there is no preference but a slip, and is told."""
    keep_current(instance)
    assert launch(instance, "move_container", "0", destination="host-3 or host-4 or host-2").success
    assert world.asked == [("0", "host-4")]
    told = launch(instance, "move_container", "0", destination="host-33 or host-2")
    assert "host-33" in failure(told, "plan_move_container")[0]
    assert len(world.asked) == 1


def test_a_chosen_processor_s_group_is_the_run_s_tag() -> None:
    """By it the queue keeps runs of a group apart; a drain's partition is a host."""
    tagged = placement_job("restart_container").get_tags_for_partition_key("3-0", None)
    assert tagged[GROUP] == "demo/1/3"
    of_host = placement_job("drain_host").get_tags_for_partition_key("3-0", None)
    assert of_host[GROUP] != "demo/1/3", "a host's name, whatever it looks like"
