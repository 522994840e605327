"""The same snapshot on a cluster: a standalone master and two workers, driven in Spark's client mode."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from samza_dagster.java.spark_home import spark_java_home
from samza_dagster.metadata import Connection
from samza_dagster.orchestration.assets.snapshot_store import SnapshotStore
from samza_dagster.sandbox import process
from samza_dagster.sandbox.ports import LOOPBACK, free_ports
from samza_dagster.snapshots import take_fleet
from tests.rig.job import ROOT
from tests.rig.waiting import until
from tests.spark.conftest import RECORDED_AT_MS, at, pyspark_home

pytestmark = pytest.mark.cluster
WORKERS = 2


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    """Its address, once both workers are registered. Workers find our code as any library."""
    url = f"spark://{LOOPBACK}:{free_ports(1, LOOPBACK)[0]}"
    environment = {
        **os.environ,
        "JAVA_HOME": str(spark_java_home()),
        "SPARK_LOCAL_IP": LOOPBACK,
        "PYTHONPATH": str(ROOT),
        "PYSPARK_PYTHON": sys.executable,
    }
    started: list[process.ProcessRecord] = []

    def start(name: str, kind: str, *arguments: str) -> None:
        command = [str(pyspark_home() / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}"]
        started.append(
            process.spawn(
                name,
                process.with_default_signals([*command, "--host", LOOPBACK, *arguments]),
                log=tmp_path / f"{name}.log",
                environment=environment,
            )
        )

    try:
        start("master", "master.Master", "--port", url.rpartition(":")[2], "--webui-port", "0")
        for number in range(WORKERS):
            work = ("--work-dir", str(tmp_path / f"work-{number}"))
            room = ("--cores", "1", "--memory", "700m", "--webui-port", "0")
            start(f"worker-{number}", "worker.Worker", *room, *work, url)
        log = tmp_path / "master.log"
        until(
            "both workers are registered",
            lambda: log.exists() and log.read_text().count("Registering worker") == WORKERS,
            seconds=90,
        )
        yield url
    finally:
        process.stop_groups(started, timeout_s=10)


def test_a_cluster_s_workers_take_the_snapshot(
    master: str,
    recorded_job: Connection,
    in_parts: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By its master's address and a user's settings alone: executors read the reports."""
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)  # the workers' Python, as a user says it
    settings = {
        "spark.driver.host": LOOPBACK,
        "spark.driver.bindAddress": LOOPBACK,
        "spark.executor.memory": "512m",
        "spark.executor.cores": "1",
    }
    store = SnapshotStore(uri=str(tmp_path / "tables"), master=master, spark_config=settings)
    with closing(store.workers()) as workers:
        taken = take_fleet(workers, [recorded_job], at(RECORDED_AT_MS), store.tables())
    assert taken.counts["container_locality"] == 4
    assert taken.counts["task_locality"] == 8
    assert {row["processor_id"] for row in taken.rows("container_locality")} == {
        *("0", "1", "0-0", "1-0"),
    }
    assert {row["lag_records"] is None for row in taken.rows("changelog_lag")} == {False}
    assert taken.unread == {}
    assert list(tmp_path.glob("work-*/app-*/*/stderr")), "no executor was started"
