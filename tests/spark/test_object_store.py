"""Snapshots on a place that is no directory: an S3 endpoint, a real server on loopback."""

from __future__ import annotations

import subprocess
import sys
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest

from samza_dagster.metadata import Connection
from samza_dagster.sandbox import process
from samza_dagster.sandbox.ports import LOOPBACK, free_ports
from samza_dagster.snapshots import Tables, take_fleet
from tests.rig.waiting import until
from tests.spark.conftest import RECORDED_AT_MS, at

pytestmark = pytest.mark.cluster
UV = Path(sys.executable).parent / "uv"
MOTO = "moto[s3]>=5.1,<6"


@contextmanager
def s3(directory: Path) -> Generator[Tables]:
    """A bucket of moto's server, from an environment of its own: Dagster can't be beside what it needs."""
    environment = directory / "environment"
    into = ("--python", str(environment / "bin" / "python"))
    subprocess.run([UV, "venv", "--quiet", "--python", sys.executable, environment], check=True)
    subprocess.run(
        [UV, "pip", "install", "--quiet", *into, MOTO, "flask", "flask-cors"], check=True
    )
    port = free_ports(1, LOOPBACK)[0]
    command = [str(environment / "bin" / "moto_server"), "-H", LOOPBACK, "-p", str(port)]
    server = process.spawn("s3", process.with_default_signals(command), log=directory / "s3.log")
    endpoint = f"http://{LOOPBACK}:{port}"
    bucket = urllib.request.Request(f"{endpoint}/warehouse", method="PUT")

    def is_made() -> bool:
        try:
            return urllib.request.urlopen(bucket, timeout=5).status == HTTPStatus.OK
        except OSError:
            return False

    try:
        until("there is a bucket", is_made, seconds=60)
        place = {"aws_endpoint": endpoint, "aws_region": "us-east-1", "aws_allow_http": "true"}
        keys = {"aws_access_key_id": "k", "aws_secret_access_key": "s"}
        yield Tables("s3a://warehouse/samza", place | keys)
    finally:
        process.stop_groups([server], timeout_s=10)


def holds(tables: Tables, spark: Any, job: Connection) -> None:
    """Two snapshots, each read back by its own files and from the table; then made room."""
    for later_ms in (0, 60_000):
        taken = take_fleet(spark, [job], at(RECORDED_AT_MS + later_ms), tables)
        assert taken.counts["container_locality"] == len(taken.rows("container_locality")) == 4
        newest = tables.last("changelog_lag").to_pylist()
        assert sorted(map(repr, newest)) == sorted(map(repr, taken.rows("changelog_lag")))
    table = tables.opened("task_locality")
    assert table.to_pyarrow_table().num_rows == 2 * 8
    assert tables.tidy(at(60_000) - at(30_000), at(RECORDED_AT_MS + 60_000))["task_locality"] == 8


def test_an_s3_endpoint_holds_the_tables(
    tmp_path: Path, spark: Any, recorded_job: Connection
) -> None:
    """By `s3a:`, as Spark calls it, and with `deltalake`'s options alone."""
    with s3(tmp_path) as tables:
        holds(tables, spark, recorded_job)
