"""The snapshot assets over tables with given rows; Spark itself has its own level."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from run_results import failure

from samza_dagster import SamzaJobComponent
from samza_dagster.client import PlacementClient
from samza_dagster.errors import Unreachable
from samza_dagster.metadata import resource_manager as resource_managers
from samza_dagster.metadata.resource_manager import Application, Cluster, YarnNode
from samza_dagster.orchestration.assets.datasets import (
    DATASETS,
    described,
    figures,
    snapshot_assets,
    snapshot_assets_job,
    snapshot_schedules,
)
from samza_dagster.orchestration.assets.fleet import fleet_overview
from samza_dagster.orchestration.assets.snapshot_store import SnapshotStore
from samza_dagster.orchestration.policies import PlacementPolicies
from samza_dagster.orchestration.resource import SamzaClientResource
from samza_dagster.snapshots import FleetSnapshot
from samza_dagster.snapshots.schemas import DATASETS as TABLES
from samza_dagster.snapshots.tables import arrow_table

pytestmark = pytest.mark.dagster
NOW = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)


def row_of(**values: Any) -> dict[str, Any]:
    """A row of its dataset; columns that aren't given are null."""
    at_ms = int(NOW.timestamp() * 1000)
    return {"snapshot_time": at_ms, "job_name": "demo", "job_id": "1", **values}


def lag_row(processor: str, lag: int | None) -> dict[str, Any]:
    return row_of(
        store="joiner-state",
        processor_id=processor,
        task_name=f"task of {processor}",
        mode="Standby" if "-" in processor else "Active",
        host="host-1",
        lag_records=lag,
        came_at=NOW - timedelta(minutes=3),
        unknown_because=None if lag is not None else "no-observation",
        why=None if lag is not None else "it has reported no offset",
    )


class FixedStore(SnapshotStore):
    """Given rows instead of Kafka's; `lags` as `processor=lag`, empty for unknown; none: no broker."""

    lags: list[str]
    minutes: int = 0

    def take(self, samza: SamzaClientResource) -> FleetSnapshot:
        if not self.lags:
            raise Unreachable("a snapshot", seen="no broker", fix="start it")
        pairs = (text.split("=") for text in self.lags)
        rows = {
            "changelog_lag": [lag_row(p, int(value) if value else None) for p, value in pairs],
            "container_locality": [
                row_of(processor_id="0", host="host-1", mode="Active", reported_at=NOW)
            ],
            "restore_forecast": [
                row_of(processor_id="0", host=host, is_warm=warm, restore_s=took)
                for host, warm, took in (
                    ("host-2", True, 4.0),
                    ("host-3", False, 700.0),
                    (None, False, 700.0),
                )
            ],
            "host_loss": [
                row_of(host=host, processor_id="0", has_standby=True, downtime_s=took)
                for host, took in (("host-1", 4.0), ("host-2", 90.0), ("host-3", None))
            ],
        }
        return FleetSnapshot(
            at=NOW + timedelta(minutes=self.minutes),
            tables=self.tables(),
            found={name: arrow_table(name, rows.get(name, ())) for name in TABLES},
            unreadable=0,
            unread={},
            unpublished={"demo/1": "no right to write there"},
            seconds={"judge": 0.5},
        )


@pytest.fixture(autouse=True)
def _tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tables of a test are its own, with an instance that has a home there and without."""
    (tmp_path / "snapshots").mkdir()
    monkeypatch.setenv("SAMZA_DAGSTER_HOME", str(tmp_path))


class AwayJob(SamzaClientResource):
    """Its brokers are away: what isn't asked of Spark is unknown at once."""

    def open_client(self) -> PlacementClient:
        raise Unreachable("a client", seen="no broker", fix="start it")


def materialize(
    *lags: str,
    yarn: str = "",
    instance: dg.DagsterInstance | None = None,
    minutes: int = 0,
    hosts: Sequence[str] = (),
) -> dg.ExecuteInProcessResult:
    definitions = dg.Definitions(
        assets=[snapshot_assets(), fleet_overview()],
        jobs=[snapshot_assets_job("demo/1")],
        resources={
            "samza": AwayJob(
                bootstrap_servers="here:9092",
                job_name="demo",
                yarn_resource_manager=yarn,
                hosts=list(hosts),
            ),
            "samza_policies": PlacementPolicies(lag_limit=100),
            "snapshot_store": FixedStore(lags=list(lags), minutes=minutes),
        },
    )
    job = definitions.resolve_job_def("snapshot_assets")
    if instance is not None:
        return job.execute_in_process(instance=instance, raise_on_error=False)
    with dg.DagsterInstance.ephemeral() as made:
        return job.execute_in_process(instance=made, raise_on_error=False)


def metadata(result: dg.ExecuteInProcessResult, asset: str) -> dict[str, Any]:
    (event,) = [
        e for e in result.get_asset_materialization_events() if e.asset_key == dg.AssetKey(asset)
    ]
    return {k: v.value for k, v in event.materialization.metadata.items()}


def test_one_run_materializes_all_of_them_at_one_time() -> None:
    """Rows, their count, the time, the columns of the table and what it took."""
    result = materialize("0=0", "0-0=30")
    assert {metadata(result, name)["snapshot_time"] for name in DATASETS} == {NOW.timestamp()}
    told = metadata(result, "container_locality")
    assert told["dagster/row_count"] == 1
    row = told["rows"].records[0].data
    assert (row["processor_id"], row["host"]) == ("0", "host-1")
    assert metadata(result, "task_locality")["dagster/row_count"] == 0
    for name in DATASETS:
        columns = metadata(result, name)["dagster/column_schema"].columns
        assert [(c.name, c.type) for c in columns] == [(c.name, c.type) for c in TABLES[name]]


def test_a_time_is_one_that_a_person_reads() -> None:
    """No milliseconds since the epoch; how long ago stands beside it."""
    told = metadata(materialize("0-0=30"), "changelog_lag")["rows"].records[0].data
    assert told["came_at"] == "2023-11-14 22:10:20 UTC, since 3 min"


def test_what_hurts_most_comes_first() -> None:
    """What isn't known before what is."""
    told = metadata(materialize("0-0=30"), "host_loss")
    assert [r.data["host"] for r in told["rows"].records] == ["host-3", "host-2", "host-1"]
    assert (told["max_downtime_s"], told["without_standby"]) == (90.0, 0)


def test_what_could_not_be_published_is_a_warning_of_the_run(tmp_path: Path) -> None:
    """With the job and why."""
    with dg.instance_for_test(temp_dir=str(tmp_path)) as instance:
        result = materialize("0-0=30", instance=instance)
        logged = [e.user_message for e in instance.all_logs(result.run_id)]
    assert any("isn't published: no right to write there" in text for text in logged)


def test_the_map_comes_first_of_all_metadata() -> None:
    """The page of an asset shows metadata in its order."""
    assert next(iter(metadata(materialize("0-0=30"), "container_locality"))) == "map"


def test_where_logs_are_files_a_picture_is_told_by_its_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shorter than what the UI shows in place; the file is where the web server looks for it."""
    with dg.instance_for_test(temp_dir=str(tmp_path)) as instance:
        result = materialize("0-0=30", instance=instance)
        shown = metadata(result, "container_locality")["map"]
        path = f"{result.run_id}/pictures/map"
        assert shown == f"![map](/logs/{path}/svg)"
        file: Any = instance.compute_log_manager
        newest = "newest-container_locality/pictures/map"
        assert f"(/logs/{newest}/svg)" in described("", "container_locality")
        monkeypatch.setenv("DAGSTER_WEBSERVER_PATH_PREFIX", "/dagster")
        assert f"(/dagster/logs/{newest}/svg)" in described("", "container_locality")
        assert Path(file.get_captured_local_path(newest.split("/"), "svg")).exists()
        assert (
            Path(file.get_captured_local_path(path.split("/"), "svg"))
            .read_text()
            .startswith("<svg")
        )


def test_the_lineage_is_what_feeds_what() -> None:
    """Each is drawn below what it is computed from."""
    definition = snapshot_assets("east")
    for name in DATASETS:
        fed = {key.path[-1] for key in definition.asset_deps[dg.AssetKey(["east", name])]}
        assert fed == set(DATASETS[name].fed_by), name


@pytest.mark.parametrize("running", [True, False])
def test_the_schedule_is_off_until_it_is_switched_on(*, running: bool) -> None:
    """Where it is on, an asset says when it is no longer fresh."""
    settings = SnapshotStore(running=running, fresh_within_min=20)
    wanted = dg.DefaultScheduleStatus.RUNNING if running else dg.DefaultScheduleStatus.STOPPED
    assert {s.default_status for s in snapshot_schedules(settings)} == {wanted}
    spec = next(iter(snapshot_assets("", settings).specs))
    assert (spec.freshness_policy is not None) is running


def test_no_snapshot_begins_while_one_is_under_way() -> None:
    """A slow one isn't followed by a queue of them."""
    taking = snapshot_schedules(SnapshotStore())[0]
    with dg.instance_for_test() as instance:
        context = dg.build_schedule_context(instance, scheduled_execution_time=NOW)
        assert isinstance(taking(context), dg.RunRequest)
        instance.create_run_for_job(
            dg.GraphDefinition(name="snapshot_assets").to_job(),
            tags={"samza/snapshot-of": ""},
            status=dg.DagsterRunStatus.STARTED,
        )
        skipped = taking(context)
    assert isinstance(skipped, dg.SkipReason)
    assert "isn't done yet" in str(skipped.skip_message)


@pytest.mark.parametrize(
    "attributes", [{"app_name": "orders"}, {"jobs": ["orders", "billing"]}], ids=["one", "several"]
)
def test_a_snapshot_of_another_code_location_keeps_none_from_beginning(
    attributes: dict[str, Any],
) -> None:
    """Their jobs have one name: what is under way is told by the brokers and Samza jobs it is about."""
    east, west = (
        dg.build_defs_for_component(SamzaJobComponent(f"{cluster}:9092", **attributes))
        for cluster in ("east", "west")
    )
    with dg.instance_for_test() as instance:
        context = dg.build_schedule_context(instance, scheduled_execution_time=NOW)

        def tick(location: dg.Definitions) -> Any:
            return location.resolve_schedule_def("snapshots").evaluate_tick(context)

        job = east.resolve_job_def("snapshot_assets")
        instance.create_run_for_job(job, tags=job.tags, status=dg.DagsterRunStatus.STARTED)
        assert "isn't done yet" in tick(east).skip_message
        assert len(tick(west).run_requests) == 1


def test_the_first_snapshot_of_a_day_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """It drops what is older than `keep_days` and says how many rows; the others of that day don't."""
    kept: list[timedelta] = []

    def tidy(_store: SnapshotStore, keep: timedelta) -> dict[str, int]:
        kept.append(keep)
        return {"changelog_lag": 12}

    monkeypatch.setattr(FixedStore, "tidy", tidy)
    with dg.instance_for_test() as instance:
        first = materialize("0-0=1", instance=instance)
        assert metadata(first, "changelog_lag")["rows_dropped"] == 12
        second = materialize("0-0=1", instance=instance, minutes=5)
        assert "rows_dropped" not in metadata(second, "changelog_lag")
        materialize("0-0=1", instance=instance, minutes=24 * 60)
    assert kept == [timedelta(days=30)] * 2


def test_a_snapshot_counts_where_no_room_could_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is in the tables; the next day's tries again."""

    def tidy(_store: SnapshotStore, _keep: timedelta) -> dict[str, int]:
        raise Unreachable("the tables", seen="no answer")

    monkeypatch.setattr(FixedStore, "tidy", tidy)
    assert materialize("0-0=1").success


@pytest.mark.parametrize("reached", [True, False])
def test_containers_are_held_against_yarn_where_its_address_is_given(
    monkeypatch: pytest.MonkeyPatch, reached: bool
) -> None:
    """What can't be asked is told; without an address nothing is."""
    assert "yarn" not in metadata(materialize("0=0"), "container_locality")
    application = Application("application_1_0004", "RUNNING", rpc_address="host-1:33257")
    nodes = {"host-1": YarnNode("host-1", "RUNNING"), "host-2": YarnNode("host-2", "RUNNING")}

    class Yarn:
        def cluster(self, name: str, ident: str) -> Cluster:
            return Cluster("http://rm:8088", nodes, application)

        def containers(self, _application: Application) -> dict[str, tuple[str, str]]:
            if not reached:
                raise Unreachable("ask it", seen="http://host-1:33257/am: timed out")
            return {"0": ("container_1", "host-2")}

    monkeypatch.setattr(resource_managers, "resource_manager", lambda _: Yarn())
    shown = metadata(materialize("0=0", yarn="http://rm:8088"), "container_locality")
    assert shown["yarn_differences"] == reached
    row = shown["by_yarn"].records[0].data
    if reached:
        assert shown["yarn"] == "application_1_0004 is RUNNING"
        assert row["difference"] == "it runs on host-2, and reported host-1 last"
    else:
        assert "its Application Master can't be asked: http://host-1:33257/am" in shown["yarn"]
        assert (row["stream"], bool(row["difference"])) == ("host-1", False)


def test_lag_is_numeric_so_that_it_is_plotted() -> None:
    """All replicas, the standbys alone, and how many are unknown."""
    shown = metadata(materialize("0=500", "0-0=30", "1-0="), "changelog_lag")
    assert shown["max_lag_records"] == 500
    assert shown["max_standby_lag_records"] == 30
    assert shown["unknown_lags"] == 1


@pytest.mark.parametrize("dataset", ["changelog_lag", "standby_readiness", "host_loss"])
def test_the_largest_is_told_where_one_is_known_and_0_where_there_is_nothing(dataset: str) -> None:
    """A 0 would be plotted just when nobody can tell how far behind a standby is, or when it is ready."""

    def largest(*known: int | None) -> set[Any]:
        one = {**lag_row("0-0", None), "status": "unknown", "has_standby": True}
        figured = ("lag_records", "ready_in_s", "downtime_s")
        told = figures(dataset, [{**one, **dict.fromkeys(figured, value)} for value in known])
        return {value for name, value in told.items() if name.startswith("max_")}

    assert (largest(), largest(None), largest(7, None, 9)) == ({0}, set(), {9})


@pytest.mark.parametrize("dataset", DATASETS)
def test_what_is_shown_of_a_dataset_are_columns_of_its_table(dataset: str) -> None:
    """Each is told with its unit, which a column that isn't in the table wouldn't be; the asset's page has room for ten."""
    shown = metadata(materialize("0=0", "0-0=30"), dataset)
    columns = shown["rows"].schema.columns
    assert len(columns) <= 10
    assert all(column.description for column in columns)


def test_the_map_has_hosts_that_run_nothing() -> None:
    """One would move there: those that the forecasts name, and those that the component names."""
    told = metadata(materialize("0=0", hosts=["host-1", "host-9"]), "container_locality")
    assert {row.data["host"]: row.data["containers"] for row in told["hosts"].records} == {
        "host-1": 1,
        "host-2": 0,
        "host-3": 0,
        "host-9": 0,
    }


def test_a_broker_that_is_away_is_the_run_s_failure_text() -> None:
    """What was seen and what to do."""
    assert "no broker" in failure(materialize(), "take_snapshot")[0]


def test_spark_starts_by_dagster_pyspark_and_a_users_settings_win(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They are over ours, which are over Spark's own."""
    import dagster_pyspark.resources as pyspark_resources

    given: dict[str, Any] = {}

    def no_spark(config: dict[str, Any]) -> None:
        given.update(config)
        raise Unreachable("a session", seen="this test starts none")

    monkeypatch.setattr(pyspark_resources, "spark_session_from_config", no_spark)
    store = SnapshotStore(master="local[1]", spark_config={"spark.driver.memory": "3g"})
    with pytest.raises(Unreachable, match="starts none"):
        _ = store.workers().session
    assert given["spark.driver.memory"] == "3g"
    assert given["spark.master"] == "local[1]"
    assert given["spark.sql.catalogImplementation"] == "in-memory"
