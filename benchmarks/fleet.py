"""What one component of many Samza jobs costs: to load, and a tick of each of its sensors.

`python -m benchmarks.fleet` (two minutes, 200 jobs). Loaded is beside a bare Dagster, in one
process, by processor time. A tick reads a coordinator stream of each job from a real broker: what
Samza's own Application Master wrote of a job of two actives and two standbys, as recorded.
`--in-memory` takes librdkafka's mock broker instead, within this process: to try the benchmark.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
from rich.console import Console
from rich.table import Table

from benchmarks.measured_code import ROOT
from benchmarks.results_file import keep
from samza_dagster import SamzaJobComponent
from samza_dagster.metadata.kafka_client import KafkaCluster
from samza_dagster.metadata.topics import ensure_topic
from samza_dagster.model.naming import coordinator_stream_topic
from samza_dagster.sandbox.broker import Broker
from tests.rig.am_rules import deployed
from tests.rig.sensor_ticks import tick

LOAD = """
import json, sys, time
start = time.process_time()
import dagster as dg, dagster.components, jinja2
imported = time.process_time()
from samza_dagster import SamzaJobComponent
jobs = [f"job-{n:03}" for n in range(int(sys.argv[1]))]
component = SamzaJobComponent(bootstrap_servers="nowhere:1", jobs=jobs)
dg.build_defs_for_component(component).get_repository_def()
loaded = time.process_time()
print(json.dumps({"bare_dagster_s": imported - start, "component_s": loaded - imported}))
"""
LOADED_WITHIN_S = 1.0
TICK_WITHIN_S = 5.0


def load(jobs: int) -> dict[str, float]:
    """Seconds of processor time; the better of three."""
    command = [sys.executable, "-c", LOAD, str(jobs)]
    runs = [
        json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout)
        for _ in range(3)
    ]
    return min(runs, key=lambda run: run["component_s"])


@contextlib.contextmanager
def real_broker(topics: list[str]) -> Iterator[str]:
    """A broker of this machine that has these topics."""
    with tempfile.TemporaryDirectory() as scratch:
        broker = Broker(Path(scratch) / "broker").start()
        try:
            cluster = KafkaCluster(broker.bootstrap_servers)
            for topic in topics:
                ensure_topic(cluster, topic, partitions=1)
            yield broker.bootstrap_servers
        finally:
            broker.close()


@contextlib.contextmanager
def mock_broker(_topics: list[str]) -> Iterator[str]:
    """librdkafka's own: it makes each topic when it is first asked for."""
    from confluent_kafka import Producer

    within = Producer({"bootstrap.servers": "none", "test.mock.num.brokers": 1, "log_level": 0})
    (found,) = within.list_topics(timeout=5).brokers.values()
    yield f"{found.host}:{found.port}"


def deploy(servers: str, jobs: dict[str, str]) -> None:
    """Writes the recorded coordinator stream of each job: name → topic."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": servers})
    for job, topic in jobs.items():
        for key, value in deployed(job):
            text = json.dumps(key, separators=(",", ":"))
            producer.produce(topic, key=text, value=value, partition=0)
        producer.flush(30)


def ticks(servers: str, jobs: list[str], home: Path) -> dict[str, dict[str, Any]]:
    """The third tick of each sensor, when what the first one found is recorded: seconds, and what it told.

    `first_s` is the first, of a process that has no connections yet.
    """
    component = SamzaJobComponent(bootstrap_servers=servers, jobs=jobs)
    repository = dg.build_defs_for_component(component).get_repository_def()
    found: dict[str, dict[str, Any]] = {}
    with dg.DagsterInstance.local_temp(str(home)) as instance:
        for sensor in sorted(repository.sensor_defs, key=lambda one: one.name):
            cursor: str | None = None
            for _ in range(3):
                wall, processor = time.monotonic(), time.process_time()
                told = tick(instance, repository, sensor.name, cursor)
                cursor = told.cursor
                taken_s = round(time.monotonic() - wall, 3)
                found[sensor.name] = {
                    "first_s": found.get(sensor.name, {}).get("first_s", taken_s),
                    "tick_s": taken_s,
                    "processor_s": round(time.process_time() - processor, 3),
                    "told": (told.skip_message or f"{len(told.asset_events)} events")[:300],
                }
    return found


def main() -> int:
    """Prints a table to stderr and JSON to stdout; exit 1 when a bound is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--in-memory", action="store_true", help="librdkafka's mock broker")
    parser.add_argument("--json", type=Path, help="write the results there as well")
    asked = parser.parse_args()
    loaded = load(asked.jobs)
    topics = {
        job: coordinator_stream_topic(job, "1")
        for job in (f"job-{number:03}" for number in range(asked.jobs))
    }
    broker = mock_broker if asked.in_memory else real_broker
    with broker([*topics.values()]) as servers, tempfile.TemporaryDirectory() as home:
        deploy(servers, topics)
        measured = ticks(servers, [*topics], Path(home))
    table = Table(title=f"a component of {asked.jobs} jobs")
    for column in ("sensor", "first tick s", "tick s", "of processor s", "told"):
        table.add_column(column)
    for name, row in measured.items():
        seconds = (str(row[of]) for of in ("first_s", "tick_s", "processor_s"))
        table.add_row(name, *seconds, row["told"][:80])
    Console(stderr=True).print(table)
    document = json.dumps({"jobs": asked.jobs, "load": loaded, "ticks": measured})
    print(document)
    if asked.json:
        keep(document, asked.json)
    in_time = max(row["tick_s"] for row in measured.values()) <= TICK_WITHIN_S
    return 0 if in_time and loaded["component_s"] <= LOADED_WITHIN_S else 1


if __name__ == "__main__":
    sys.exit(main())
