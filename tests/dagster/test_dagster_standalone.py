"""The component's jobs over a standalone group: what is moved is a task, what is restarted a processor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from samza_dagster import SamzaJobComponent
from samza_dagster.client import PlacementClient
from samza_dagster.errors import InvalidInput
from samza_dagster.metadata.zookeeper import ZooKeeperAddress, connect
from samza_dagster.orchestration.resource import SamzaClientResource
from samza_dagster.orchestration.watch import checks
from samza_dagster.standalone.layout import GroupPaths
from samza_dagster.standalone.zookeeper_group import ZooKeeperGroup
from tests.rig.secured_zookeeper import PASSWORD, USER, SecuredZooKeeper
from tests.rig.sensor_ticks import ticked
from tests.rig.standalone_job import StandaloneJob

pytestmark = pytest.mark.dagster
JOBS: dict[str, StandaloneJob] = {}


def opened(samza: SamzaClientResource) -> PlacementClient:
    """What `open_client` opens over ZooKeeper, over the group in memory."""
    access = JOBS[samza.zookeeper].access(JOBS[samza.zookeeper].topics)
    return PlacementClient(replace(access, whole_processors=samza.whole_processors))


@pytest.fixture
def job(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> StandaloneJob:
    monkeypatch.setattr(SamzaClientResource, "open_client", opened)
    made = JOBS["zk:2181"] = StandaloneJob()
    return made


def component(**more: Any) -> SamzaJobComponent:
    return SamzaJobComponent("here:9092", "j", deployment="standalone", zookeeper="zk:2181", **more)


def run(
    instance: dg.DagsterInstance, name: str, config: Mapping[str, Any]
) -> dg.ExecuteInProcessResult:
    definitions = dg.build_defs_for_component(component())
    job = definitions.get_job_def(name)
    (first,) = (
        n.name for n in job.graph.nodes if n.name.startswith("plan") or len(job.graph.nodes) == 1
    )
    return job.execute_in_process({"ops": {first: {"config": dict(config)}}}, instance=instance)


def test_what_a_group_cannot_serve_is_not_there() -> None:
    """Those jobs need a standby on request, which a group doesn't have."""
    repository = dg.build_defs_for_component(component()).get_repository_def()
    names = {job.name for job in repository.get_all_jobs()}
    assert {"move_container", "move_with_standby", "drain_host", "rolling_bounce"} <= names
    assert not names & {"fail_over", "spin_up_standby", "move_via_new_standby"}


@pytest.mark.parametrize(
    "given",
    [{"deployment": "standalone"}, {"zookeeper": "zk:2181"}],
)
def test_a_deployment_and_its_zookeeper_go_together(given: dict[str, Any]) -> None:
    """Nobody means one without the other."""
    with pytest.raises(InvalidInput, match="deployment"):
        SamzaJobComponent("here:9092", "j", **given)


@pytest.mark.parametrize(
    ("name", "config", "places"),
    [
        ("move_container", {"processor": "P 0", "destination": "host-c"}, {"P 0": "c"}),
        (
            "move_container",
            {"processor": "P 0", "destination": "STANDBY"},
            {"P 0": "b", "Standby-P 0-0": "a"},
        ),
        ("move_with_standby", {"processor": "P 0"}, {"P 0": "b", "Standby-P 0-0": "a"}),
        ("relocate_standby", {"processor": "Standby-P 0-0"}, {"Standby-P 0-0": "c"}),
        ("drain_host", {"host": "host-a", "steady_s": 0}, {"P 0": "b", "Standby-P 0-0": "c"}),
    ],
)
def test_tasks_are_moved_by_the_jobs_that_move_containers(
    job: StandaloneJob,
    instance: dg.DagsterInstance,
    name: str,
    config: dict[str, Any],
    places: dict[str, str],
) -> None:
    """And verified: an active by what it commits, a standby by what it reports from there."""
    before = job.places
    result = run(instance, name, config)
    assert result.success
    assert job.places == {**before, **places}


def test_a_processor_is_restarted_and_nothing_moves(
    job: StandaloneJob, instance: dg.DagsterInstance
) -> None:
    """Its id in the place of a container's."""
    before = job.places
    assert run(instance, "restart_container", {"processor": "b"}).success
    assert [(r.processor_id, r.destination_host) for r in job.asked] == [("b", "LAST_SEEN")]
    assert job.places == before


def test_a_bounce_restarts_each_processor_once_and_moves_no_task(
    job: StandaloneJob, instance: dg.DagsterInstance
) -> None:
    """Who has standbys alone goes first, as in a cluster."""
    before = job.places
    assert run(instance, "rolling_bounce", {"canaries": 0, "bake_s": 0}).success
    assert [r.processor_id for r in job.asked] == ["c", "a", "b"]
    assert {r.destination_host for r in job.asked} == {"LAST_SEEN"}
    assert job.places == before


def test_the_sensor_invariants_tells_what_is_wrong_with_a_group(
    job: StandaloneJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As checks of its assets, with the patience that all have; a processor's registrations are in its cursor."""
    now_ms, cursor = [1_000_000_000_000], None
    monkeypatch.setattr(checks.time, "time_ns", lambda: now_ms[0] * 1_000_000)
    made = component()
    (sensor,) = (one for one in made.build_sensors() if one.name == "invariants")
    told: dict[str, bool] = {}
    with dg.DagsterInstance.ephemeral() as own:
        for tick in range(20):
            now_ms[0] += 10_000
            members = list(job.group.members)
            if 0 < tick < 4:  # b comes back under another number
                members[1] = members[1]._replace(sequence=f"000000001{tick}")
            job.group = replace(job.group, members=tuple(members[:2] if tick < 8 else ()))
            result = ticked(own, sensor, made.build_resources()["samza"], cursor)
            assert isinstance(result, dg.SensorResult)
            cursor = result.cursor
            for event in result.asset_events or []:
                assert isinstance(event, dg.AssetCheckEvaluation)
                told[event.check_name] = event.passed
            if tick == 4:
                assert told["none_flaps"] is False
                assert told["coordinated"] is True
    assert told["coordinated"] is False
    assert told["live_copies"] is False
    assert told["same_host"] is True


def test_patterns_of_jobs_find_the_groups_that_zookeeper_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As they are when asked, by a login whose password is in the environment alone; each is a job by itself."""
    monkeypatch.setenv("ZK_PASSWORD", PASSWORD)
    login = {"security.protocol": "SASL_PLAINTEXT", "sasl.username": USER}
    acl = {"sasl.password": PASSWORD, "acl": f"sasl:{USER}:cdrwa"}
    with SecuredZooKeeper(tmp_path, must_log_in=True) as server:
        made = SamzaJobComponent(
            "127.0.0.1:1",
            jobs=["orders-*", "carts/2"],
            deployment="standalone",
            zookeeper=server.hosts,
            zookeeper_config={**login},
            zookeeper_config_env={"sasl.password": "ZK_PASSWORD"},
        )
        samza: SamzaClientResource = made.build_resources()["samza"]
        assert [each.job for each in samza.each()] == ["carts/2"]
        session = connect(ZooKeeperAddress(server.hosts, settings={**login, **acl}))
        for name, job_id in (
            ("orders-eu", "1"),
            ("orders-us", "1"),
            ("orders-us", "7"),
            ("x", "1"),
        ):
            paths = GroupPaths.of({"job.name": name, "job.id": job_id, "app.name": "shop"})
            ZooKeeperGroup(session, paths, lambda: None).prepare()
        found = samza.each()
        assert [each.job for each in found] == ["carts/2", "orders-eu/1", "orders-us/1"]
        with found[1].open_client() as client:
            assert client.view().agreement is not None
        session.stop()
        session.close()


def test_a_secret_of_zookeeper_stands_in_no_yaml() -> None:
    """The UI would show it; what is refused names where it may be."""
    with pytest.raises(InvalidInput, match=r"zookeeper_config_env: \{sasl\.password") as refused:
        component(zookeeper_config={"sasl.password": "s3cret"})
    assert "s3cret" not in str(refused.value)
    with pytest.raises(InvalidInput, match=r"security\.protocol.*sasl\.password"):
        component(zookeeper_config={"security.protocol": "SASL_SSL", "sasl.username": "samza"})
