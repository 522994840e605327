"""The snapshot assets over rows as Spark gives them; Spark itself has its own level."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from samza_dagster.errors import Unreachable
from samza_dagster.metadata import resource_manager as resource_managers
from samza_dagster.metadata.resource_manager import Application, Cluster, Node
from samza_dagster.orchestration.assets.snapshot_store import SnapshotStore, TakenSnapshot
from samza_dagster.orchestration.assets.snapshots import (
    DATASETS,
    snapshot_assets,
    snapshot_assets_job,
)
from samza_dagster.orchestration.policies import PlacementPolicies
from samza_dagster.orchestration.resource import SamzaClientResource
from samza_dagster.snapshots.class_archive import archive_path

pytestmark = pytest.mark.dagster
NOW_MS = 1_700_000_000_000


def lag_row(processor: str, lag: int | None) -> dict[str, Any]:
    return {
        "snapshot_time": NOW_MS,
        "job_name": "demo",
        "store": "joiner-state",
        "processor_id": processor,
        "task_name": f"task of {processor}",
        "mode": "Standby" if "-" in processor else "Active",
        "host": "host-1",
        "lag_records": lag,
        "unknown_because": None if lag is not None else "no-observation",
    }


class FixedStore(SnapshotStore):
    """Rows instead of Spark; `lags` as `processor=lag`, empty for unknown; none: no broker."""

    lags: list[str]

    def take(self, samza: SamzaClientResource) -> TakenSnapshot:
        if not self.lags:
            raise Unreachable("a snapshot", seen="no broker", fix="start it")
        pairs = (text.split("=") for text in self.lags)
        lag = [lag_row(p, int(value) if value else None) for p, value in pairs]
        place = [{"snapshot_time": NOW_MS, "processor_id": "0", "host": "host-1"}]
        rows = {"container_locality": place, "task_locality": [], "changelog_lag": lag}
        return TakenSnapshot(NOW_MS, rows, dict.fromkeys(rows, "/data"), {"lag": 0.5})


def materialize(*lags: str, yarn: str = "") -> dg.ExecuteInProcessResult:
    definitions = dg.Definitions(
        assets=[snapshot_assets()],
        jobs=[snapshot_assets_job("demo/1")],
        resources={
            "samza": SamzaClientResource(
                bootstrap_servers="here:9092", job_name="demo", yarn_resource_manager=yarn
            ),
            "samza_policies": PlacementPolicies(lag_limit=100),
            "snapshot_store": FixedStore(lags=list(lags)),
        },
    )
    with dg.DagsterInstance.ephemeral() as instance:
        return definitions.resolve_job_def("snapshot_assets").execute_in_process(
            instance=instance, raise_on_error=False
        )


def metadata(result: dg.ExecuteInProcessResult, asset: str) -> dict[str, Any]:
    (event,) = [
        e for e in result.get_asset_materialization_events() if e.asset_key == dg.AssetKey(asset)
    ]
    return {k: v.value for k, v in event.materialization.metadata.items()}


def test_one_run_materializes_all_three_at_one_time() -> None:
    """Rows, their count, the time and what it took."""
    result = materialize("0=0", "0-0=30")
    times = {
        metadata(result, name)["snapshot_time"]
        for name in ("container_locality", "task_locality", "changelog_lag")
    }
    assert times == {NOW_MS / 1000}
    shown = metadata(result, "container_locality")
    assert shown["dagster/row_count"] == 1
    row = shown["rows"].records[0].data
    assert (row["processor_id"], row["host"]) == ("0", "host-1")
    assert metadata(result, "task_locality")["dagster/row_count"] == 0


@pytest.mark.parametrize("reached", [True, False])
def test_containers_are_held_against_yarn_where_its_address_is_given(
    monkeypatch: pytest.MonkeyPatch, reached: bool
) -> None:
    """What can't be asked is told; without an address nothing is."""
    assert "yarn" not in metadata(materialize("0=0"), "container_locality")
    application = Application("application_1_0004", "RUNNING", rpc_address="host-1:33257")
    nodes = {"host-1": Node("host-1", "RUNNING"), "host-2": Node("host-2", "RUNNING")}

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


@pytest.mark.longdagster
@pytest.mark.parametrize("dataset", DATASETS)
def test_what_is_shown_of_a_dataset_are_columns_of_its_table(dataset: str) -> None:
    """Each is told with its unit, which a column that isn't in the table wouldn't be; the asset's page has room for ten."""
    shown = metadata(materialize("0=0", "0-0=30"), dataset)
    columns = shown["rows"].schema.columns
    assert len(columns) <= 10
    assert all(column.description for column in columns)


@pytest.mark.parametrize(
    ("lags", "passed"),
    [(("0-0=100",), True), (("0-0=101",), False), (("0-0=",), False), (("0=900",), True)],
)
def test_the_check_holds_standbys_to_the_limit(lags: tuple[str, ...], passed: bool) -> None:
    """An unknown lag isn't a small one; an active's lag isn't the check's."""
    (check,) = materialize(*lags).get_asset_check_evaluations()
    assert check.passed is passed


def test_a_broker_that_is_away_is_the_run_s_failure_text() -> None:
    """What was seen and what to do."""
    data = materialize().failure_data_for_node("take_snapshot")
    assert data is not None
    assert data.user_failure_data is not None
    assert "no broker" in str(data.user_failure_data.description)


def test_spark_starts_from_the_class_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that `snapshots.class_archive` writes; the session passes over one that isn't there."""
    given: dict[str, Any] = {}

    def no_spark(master: str, *, class_archive: Path) -> None:
        given.update(master=master, class_archive=class_archive)
        raise Unreachable("a session", seen="this test starts none")

    monkeypatch.setenv("SAMZA_DAGSTER_HOME", str(tmp_path))
    monkeypatch.setattr("samza_dagster.snapshots.spark_session", no_spark)
    samza = SamzaClientResource(bootstrap_servers="here:9092", job_name="demo")
    with pytest.raises(Unreachable, match="starts none"):
        SnapshotStore(spark_master="local[1]").take(samza)
    assert given["class_archive"] == archive_path()
    assert given["class_archive"].parent == tmp_path / "artifacts" / "archives"
    assert given["master"] == "local[1]"
