"""Snapshots on places that are no directories: an S3 endpoint and HDFS, real servers on loopback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from datetime import timedelta
from http import HTTPStatus
from pathlib import Path

import pytest

from samza_dagster.directories import artifacts_directory
from samza_dagster.metadata import Connection
from samza_dagster.sandbox import process
from samza_dagster.sandbox.ivy import retrieve, retrieved_path
from samza_dagster.sandbox.java_check import find_java
from samza_dagster.sandbox.ports import LOOPBACK, free_ports
from samza_dagster.sandbox.yarn.cluster import JVM_OPTIONS
from samza_dagster.snapshots import Tables, Workers, take_fleet
from tests.rig.waiting import until
from tests.spark.conftest import RECORDED_AT_MS, at, newest, pyspark_home

pytestmark = pytest.mark.cluster
UV = Path(sys.executable).parent / "uv"
MOTO = "moto[s3]>=5.1,<6"
SERVERS = ("org.apache.hadoop", "hadoop-client-minicluster", "3.4.1")


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


def holds(tables: Tables, workers: Workers, job: Connection) -> None:
    """Two snapshots two days apart, each read back by its own files and from the table; then the first is dropped."""
    for later_ms in (0, 2 * 86_400_000):
        taken = take_fleet(workers, [job], at(RECORDED_AT_MS + later_ms), tables)
        assert taken.counts["container_locality"] == len(taken.rows("container_locality")) == 4
        told = newest(tables, "changelog_lag")
        assert sorted(map(repr, told)) == sorted(map(repr, taken.rows("changelog_lag")))
    assert tables.opened("task_locality").to_pyarrow_table().num_rows == 2 * 8
    assert tables.tidy(timedelta(days=1))["task_locality"] == 8
    assert tables.opened("task_locality").to_pyarrow_table().num_rows == 8


def test_an_s3_endpoint_holds_the_tables(
    tmp_path: Path, workers: Workers, recorded_job: Connection
) -> None:
    """By `s3a:`, as Spark calls it, and with `deltalake`'s options alone."""
    with s3(tmp_path) as tables:
        holds(tables, workers, recorded_job)


def hadoop_servers() -> Path:
    """NameNode and DataNode of the release whose client pyspark carries, fetched once."""
    kept = artifacts_directory() / "hdfs-of-tests"
    jar = retrieved_path(kept, *SERVERS)
    if not jar.is_file():
        kept.mkdir(parents=True, exist_ok=True)
        retrieve([SERVERS], kept, lambda: None)
    return jar


@contextmanager
def hdfs(directory: Path) -> Generator[Tables]:
    """A NameNode and a DataNode."""
    name, *others = (f"{LOOPBACK}:{port}" for port in free_ports(5, LOOPBACK))
    web, data, data_web, data_calls = others
    site = {
        "fs.defaultFS": f"hdfs://{name}",
        "hadoop.tmp.dir": str(directory / "hadoop"),
        "dfs.namenode.http-address": web,
        "dfs.datanode.address": data,
        "dfs.datanode.http.address": data_web,
        "dfs.datanode.ipc.address": data_calls,
        "dfs.replication": "1",
    }
    settings = directory / "settings"
    settings.mkdir()
    entries = (f"<property><name>{k}</name><value>{v}</value></property>" for k, v in site.items())
    text = f"<configuration>{''.join(entries)}</configuration>"
    for file in ("core-site.xml", "hdfs-site.xml"):  # the latter over Hadoop's own for HDFS
        (settings / file).write_text(text)
    jars = (settings, hadoop_servers(), pyspark_home() / "jars" / "*")
    path = os.pathsep.join(map(str, jars))
    server = [str(find_java().program), "-Xmx256m", *JVM_OPTIONS, "-cp", path]
    namenode = [*server, "org.apache.hadoop.hdfs.server.namenode.NameNode"]
    subprocess.run([*namenode, "-format", "-nonInteractive"], check=True, timeout=60)
    started: list[process.ProcessRecord] = []

    def has_a_datanode() -> bool:
        state = f"http://{web}/jmx?qry=Hadoop:service=NameNode,name=FSNamesystemState"
        try:
            (told,) = json.load(urllib.request.urlopen(state, timeout=5))["beans"]
        except (OSError, ValueError):
            return False
        return told["NumLiveDataNodes"] == 1

    try:
        datanode = [*server, "org.apache.hadoop.hdfs.server.datanode.DataNode"]
        for role, command in (("namenode", namenode), ("datanode", datanode)):
            log = directory / f"{role}.log"
            started.append(process.spawn(role, process.with_default_signals(command), log=log))
        until("there is a DataNode", has_a_datanode, seconds=90)
        yield Tables(f"hdfs://{name}/samza")
    finally:
        process.stop_groups(started, timeout_s=10)


def test_hdfs_holds_the_tables(tmp_path: Path, workers: Workers, recorded_job: Connection) -> None:
    """A real NameNode and DataNode, and `deltalake`'s own client of them: no Hadoop is beside Python."""
    with hdfs(tmp_path) as tables:
        holds(tables, workers, recorded_job)
