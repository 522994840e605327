"""One job's name and id on two clusters in one code location: neither steers the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from lookout import FailoverStage, failover_stages
from placement_runs import WORLDS, SteppedSamza

from samza_dagster import SamzaJobComponent
from samza_dagster.orchestration.bounce import ScheduledBounce, check_alone
from samza_dagster.orchestration.operations import runs as bounce_runs
from samza_dagster.orchestration.policies import PlacementPolicies
from samza_dagster.orchestration.watch.reported import acknowledgement
from tests.rig.sensor_ticks import tick
from tests.rig.stepped_job import SteppedJob

pytestmark = pytest.mark.dagster
VIA = "move_via_new_standby"


class Placed(SamzaJobComponent):
    """The component over the world of its `bootstrap_servers`."""

    def build_resources(self) -> dict[str, Any]:
        samza = SteppedSamza(
            bootstrap_servers=self.bootstrap_servers,
            job_name=str(self.app_name),
            prefix=self.prefix,
        )
        return {**super().build_resources(), "samza": samza}


def placed(cluster: str, prefix: str) -> dg.Definitions:
    return dg.build_defs_for_component(
        Placed(
            bootstrap_servers=cluster,
            app_name="orders",
            prefix=prefix,
            policies=PlacementPolicies(verify_timeout_s=1),
            bounces=[ScheduledBounce(name="nightly", cron="0 2 * * *")],
        )
    )


@pytest.fixture
def both() -> Iterator[dg.RepositoryDefinition]:
    """`orders/1` on cluster east and `orders/1` on cluster west."""
    WORLDS.update({"east:9092": SteppedJob.demo(), "west:9092": SteppedJob.demo()})
    made = dg.Definitions.merge(placed("east:9092", "east"), placed("west:9092", "west"))
    yield made.get_repository_def()
    WORLDS.clear()


@pytest.fixture
def instance(dagster_home: Callable[[Path], Path], tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    """On SQLite: a schedule's context and the command line open it anew."""
    with dg.DagsterInstance.from_config(str(dagster_home(tmp_path))) as made:
        yield made


def bounced(instance: dg.DagsterInstance, both: dg.RepositoryDefinition, prefix: str) -> str:
    """The id of a bounce of that cluster, which is under way."""
    job = both.get_job(f"{prefix}_rolling_bounce")
    tags, status = (
        {**job.tags, bounce_runs.BOUNCE: bounce_runs.RUNNING},
        dg.DagsterRunStatus.STARTED,
    )
    return instance.create_run_for_job(job, status=status, tags=tags).run_id


@pytest.mark.longdagster
def test_a_bounce_of_one_cluster_skips_no_tick_of_the_other_s(
    both: dg.RepositoryDefinition, instance: dg.DagsterInstance
) -> None:
    """West's own tick is skipped."""
    west = bounced(instance, both, "west")
    ticked = {
        prefix: both.get_schedule_def(f"{prefix}_bounce_nightly").evaluate_tick(
            dg.build_schedule_context(instance=instance, scheduled_execution_time=datetime.now(UTC))
        )
        for prefix in ("east", "west")
    }
    assert len(ticked["east"].run_requests or []) == 1
    assert f"bounce {west} is started" in str(ticked["west"].skip_message)


def test_bounces_of_two_clusters_may_go_on_side_by_side(
    both: dg.RepositoryDefinition, instance: dg.DagsterInstance
) -> None:
    """One at a time is a rule of each; the younger of one cluster is refused."""
    bounced(instance, both, "west")
    east = bounced(instance, both, "east")
    run = instance.get_run_by_id(east)
    assert run is not None
    check_alone(instance, run)


@pytest.mark.longdagster
def test_an_expected_downtime_is_the_cluster_s_own(
    both: dg.RepositoryDefinition, instance: dg.DagsterInstance
) -> None:
    """Measured by a run of that job there, not by the other's."""

    def move(prefix: str, *, dry_run: bool) -> dg.ExecuteInProcessResult:
        config = {"processor": "0", "destination": "host-2", "dry_run": dry_run}
        return both.get_job(f"{prefix}_move_container").execute_in_process(
            run_config={"ops": {"plan_move_container": {"config": config}}}, instance=instance
        )

    assert move("west", dry_run=False).success
    for prefix, measured in (("west", True), ("east", False)):
        text = move(prefix, dry_run=True).output_for_node("plan_move_container", "preview")
        assert ("not measured yet" not in text) is measured


@pytest.mark.longdagster
def test_each_cluster_s_choices_stay_as_they_are(
    both: dg.RepositoryDefinition, instance: dg.DagsterInstance
) -> None:
    """The second round of ticks has nothing to replace."""
    WORLDS["east:9092"].at = {"41": "host-1"}
    WORLDS["west:9092"].at = {"7": "host-1"}
    for again in (False, True):
        for prefix in ("east", "west"):
            requests = tick(instance, both, f"{prefix}_choices").dynamic_partitions_requests or []
            assert bool(requests) is not again
            assert all(isinstance(one, dg.AddDynamicPartitionsRequest) for one in requests)
    offered = both.get_job("east_restart_container").partitions_def
    assert offered is not None
    assert offered.get_partition_keys(dynamic_partitions_store=instance) == ["41"]


def test_two_components_of_one_job_under_one_prefix_are_refused_at_load() -> None:
    """Their runs couldn't be told apart."""
    for prefix, key in (("", "samza"), ("east", "east_samza")):
        with pytest.raises(dg.DagsterError, match=f"key '{key}'"):
            dg.Definitions.merge(
                placed("east:9092", prefix), placed("west:9092", prefix)
            ).get_repository_def()


@pytest.fixture
def watched() -> Iterator[list[FailoverStage]]:
    """`demo/1` without a prefix, and `demo/1` on another cluster under `east`."""
    with failover_stages("", "east") as both:
        yield both


def failed_over(one: FailoverStage) -> None:
    """Its host-0 falls silent, and it asks for a failover of `0`."""
    one.world.words["host-0"] = 15_000
    assert one.told(3) == ["host-sick ask"]


@pytest.mark.parametrize("cap", [1, 3])
def test_a_failover_of_the_cluster_without_a_prefix_holds_back_none_of_the_other_s(
    watched: list[FailoverStage], cap: int
) -> None:
    """It neither blocks that group nor counts for its cap, also after a lost cursor."""
    plain, east = watched
    east.tick()
    failed_over(plain)
    east.cursor = None
    east.world.words["host-0"] = 15_000
    assert east.told(3, cap_per_hour=cap) == ["host-sick ask"]


def test_a_trouble_of_the_cluster_without_a_prefix_is_not_over_on_the_other(
    watched: list[FailoverStage],
) -> None:
    """East's host-0 has been well all the time: nothing is to be told of it."""
    plain, east = watched
    failed_over(plain)
    east.world.words["host-3"] = 15_000
    east.tick()
    east.world.words["host-3"] = 100
    assert east.told(6) == []


def test_an_acknowledgement_in_the_cluster_without_a_prefix_lifts_no_block_of_the_other(
    watched: list[FailoverStage],
) -> None:
    """The job acknowledges for its own component alone."""
    plain, east = watched
    for one in watched:
        failed_over(one)
        one.world.start("0", "host-0")
    assert plain.acknowledge().success
    for one in watched:
        one.world.own.clear()
    assert east.told(4) == ["host-sick held"]
    assert plain.told(4) == ["host-sick ask"]
    key = east.samza.asset_key("placement_history")
    event = acknowledgement("demo/1", "0", at_ms=0, who="me", why="looked at, too", key=key)
    east.instance.report_runless_asset_event(event)
    assert east.told(4) == ["host-sick ask"]
