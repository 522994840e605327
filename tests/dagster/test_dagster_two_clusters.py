"""One job's name and id on two clusters in one code location: neither steers the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from lookout import LOOKOUTS, Lookout, LookoutSamza
from placement_runs import WORLDS, SteppedSamza

from samza_dagster import SamzaJobComponent
from samza_dagster.orchestration.bounce.job import check_alone
from samza_dagster.orchestration.bounce.schedules import ScheduledBounce
from samza_dagster.orchestration.operations import runs as bounce_runs
from samza_dagster.orchestration.policies import PlacementPolicies
from samza_dagster.orchestration.watch import auto_failover
from samza_dagster.orchestration.watch.auto_failover import acknowledge_job, auto_failover_sensor
from samza_dagster.orchestration.watch.reported import acknowledgement
from samza_dagster.orchestration.watch.settings import AutoFailover
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


def bounced(
    instance: dg.DagsterInstance,
    both: dg.RepositoryDefinition,
    prefix: str,
    status: dg.DagsterRunStatus = dg.DagsterRunStatus.STARTED,
    state: str = bounce_runs.RUNNING,
) -> str:
    """The id of a bounce of that cluster, under way if nothing else is said."""
    job = both.get_job(f"{prefix}_rolling_bounce")
    tags = {**job.tags, bounce_runs.BOUNCE: state}
    return instance.create_run_for_job(job, status=status, tags=tags).run_id


def tick(instance: dg.DagsterInstance, both: dg.RepositoryDefinition, sensor: str) -> Any:
    resources = both.get_top_level_resources()
    with dg.build_sensor_context(
        instance=instance, repository_def=both, resources=dict(resources)
    ) as context:
        return both.get_sensor_def(sensor).evaluate_tick(context)


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
            for one in requests:
                name, keys = one.partitions_def_name, list(one.partition_keys)
                assert isinstance(one, dg.AddDynamicPartitionsRequest)
                instance.add_dynamic_partitions(name, keys)
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


class Watched:
    """`auto_failover` of one of two jobs `demo/1` in one instance, over its own world."""

    def __init__(self, instance: dg.DagsterInstance, prefix: str) -> None:
        self.instance, self.prefix = instance, prefix
        self.world = LOOKOUTS[prefix or "plain"] = Lookout()
        self.cursor: str | None = None
        self.samza = LookoutSamza(
            bootstrap_servers=prefix or "plain", job_name="demo", prefix=prefix
        )

    def tick(self, cap_per_hour: int = 3) -> list[str]:
        """What it tells, each as `<signal> <verdict>`, or `over`."""
        for world in LOOKOUTS.values():
            world.now_ms += 5_000
            world.alive()
        sensor = auto_failover_sensor(
            AutoFailover.model_validate({"mode": "act", "cap_per_hour": cap_per_hour})
        )
        with dg.build_sensor_context(
            instance=self.instance, cursor=self.cursor, resources={"samza": self.samza}
        ) as context:
            result = sensor(context)
        if isinstance(result, dg.SkipReason):
            return []
        assert isinstance(result, dg.SensorResult)
        self.cursor, told = result.cursor, list[str]()
        for event in result.asset_events or []:
            assert isinstance(event, dg.AssetObservation)
            self.instance.report_runless_asset_event(event)
            verdict = event.metadata.get("verdict")
            told.append(f"{event.metadata['signal'].value} {verdict.value if verdict else 'over'}")
        return told


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Watched, Watched]]:
    """`demo/1` without a prefix, and `demo/1` on another cluster under `east`."""
    with dg.DagsterInstance.ephemeral() as instance:
        plain, east = Watched(instance, ""), Watched(instance, "east")
        monkeypatch.setattr(auto_failover.time, "time_ns", lambda: east.world.now_ms * 1_000_000)
        monkeypatch.setattr(auto_failover, "since_boot", lambda: ("boot", east.world.now_ms))
        yield plain, east
    LOOKOUTS.clear()


def failed_over(one: Watched) -> None:
    """Its host-0 falls silent, and it asks for a failover of `0`."""
    one.world.words["host-0"] = 15_000
    assert [t for _ in range(3) for t in one.tick()] == ["host-sick ask"]


@pytest.mark.parametrize("cap", [1, 3])
def test_a_failover_of_the_cluster_without_a_prefix_holds_back_none_of_the_other_s(
    watched: tuple[Watched, Watched], cap: int
) -> None:
    """It neither blocks that group nor counts for its cap, also after a lost cursor."""
    plain, east = watched
    east.tick()
    failed_over(plain)
    east.cursor = None
    east.world.words["host-0"] = 15_000
    assert [t for _ in range(3) for t in east.tick(cap)] == ["host-sick ask"]


def test_a_trouble_of_the_cluster_without_a_prefix_is_not_over_on_the_other(
    watched: tuple[Watched, Watched],
) -> None:
    """East's host-0 has been well all the time: nothing is to be told of it."""
    plain, east = watched
    failed_over(plain)
    east.world.words["host-3"] = 15_000
    east.tick()
    east.world.words["host-3"] = 100
    assert [t for _ in range(6) for t in east.tick()] == []


def test_an_acknowledgement_in_the_cluster_without_a_prefix_lifts_no_block_of_the_other(
    watched: tuple[Watched, Watched],
) -> None:
    """The job acknowledges for its own component alone."""
    plain, east = watched
    for one in watched:
        failed_over(one)
        one.world.start("0", "host-0")
    config = {"processor": "0", "reason": "west's agent was started again"}
    done = acknowledge_job("demo/1").execute_in_process(
        run_config={"ops": {"acknowledge": {"config": config}}},
        instance=plain.instance,
        resources={"samza": plain.samza},
    )
    assert done.success
    for one in watched:
        one.world.own.clear()
    assert [t for _ in range(4) for t in east.tick()] == ["host-sick held"]
    assert [t for _ in range(4) for t in plain.tick()] == ["host-sick ask"]
    key = east.samza.asset_key("placement_history")
    event = acknowledgement("demo/1", "0", at_ms=0, who="me", why="looked at, too", key=key)
    east.instance.report_runless_asset_event(event)
    assert [t for _ in range(4) for t in east.tick()] == ["host-sick ask"]
