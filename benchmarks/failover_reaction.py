"""Failure heard of → the start of the replacement leaves the coordinator.

`python -m benchmarks.failover_reaction`. Real broker, coordinator and agents, a stub in
each container's place. An active is killed with SIGKILL; from the arrival of its agent's
report at the coordinator to the last byte of the start command that replaces it:

- `same host`: its host has room, the resource is reserved there first;
- `standby's place`: host affinity is off, so the active fails over at once: its standby
  is stopped and seen dead, the place is reserved, both by the standby's agent.

Waits for a lease or for a request that can't be granted are in neither. The coordinator's
share leaves out the time in which agents' last answers were waited for: the reservation,
and a standby's process coming to its end. The bound is on the median of that share.

Peer: a transaction of one record by the same Kafka client on the same broker, in the same
run. Each step that the coordinator takes is one such commit, and a failover has two or more.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

from rich.table import Table

from benchmarks.downtime_picture import console
from benchmarks.response_latency import percentile
from benchmarks.results_file import keep
from samza_dagster.metadata.kafka_client import KafkaCluster
from samza_dagster.metadata.topics import ensure_topic
from samza_dagster.sandbox.broker import Broker
from tests.rig.job import Job, kill
from tests.rig.kill_points import KilledJob

BOUND_MS = 50.0
TIMED = "tests.rig.timed_coordinator"


def reaction(times: list[dict[str, Any]], dead: str, started: str) -> tuple[float, float]:
    """Milliseconds from the report of `dead` to the start of `started`: all, the coordinator's."""
    begun = next(t["at"] for t in times if (t["what"], t["id"]) == ("heard dead", dead))
    left = next(t["at"] for t in times if (t["what"], t["id"]) == ("left start", started))
    between = [t for t in times if begun <= t["at"] <= left]
    # What it waits for last is the latest word of an agent before the start.
    asked = min(t["at"] for t in between if t["what"] in ("left stop", "left reserve"))
    heard = max(t["at"] for t in between if t["what"].startswith("heard") and t["id"] != dead)
    return (left - begun) * 1000, (asked - begun + left - heard) * 1000


def failovers(bootstrap_servers: str, directory: Path, name: str, count: int) -> dict[str, Any]:
    """Kills the active `count` times; host affinity decides where it goes."""
    in_place = name == "same host"
    job = Job(
        directory,
        bootstrap_servers,
        f"reaction-{'in-place' if in_place else 'standby'}",
        actives=1,
        coordinator_module=TIMED,
        settings={
            "job.host-affinity.enabled": str(in_place).lower(),
            "cluster-manager.container.retry.count": "-1",
        },
    )
    ensure_topic(KafkaCluster(bootstrap_servers), job.input_topic, partitions=4)
    every: list[float] = []
    own: list[float] = []
    try:
        settled = KilledJob(job.start())
        for _ in range(count):
            before = settled.settle()
            kill(before["0"]["pid"])
            after = settled.settle()
            expected = before["0" if in_place else "0-0"]["host"]
            if after["0"]["host"] != expected:
                raise SystemExit(f"{name}: on {after['0']['host']} instead of {expected}")
            text = job.kill_file.with_suffix(".times").read_text()
            times = [json.loads(line) for line in text.splitlines()]
            both = reaction(times, before["0"]["execution_id"], after["0"]["execution_id"])
            every.append(both[0])
            own.append(both[1])
    finally:
        job.close()
    return {"whole": summary(every), "coordinator's share": summary(own)}


def transactions(bootstrap_servers: str, count: int) -> dict[str, float]:
    """Begin to committed, one record of a kilobyte each."""
    cluster, topic = KafkaCluster(bootstrap_servers), "peer"
    ensure_topic(cluster, topic)
    producer = cluster.producer(transactional_id=f"peer-{uuid.uuid4().hex}", timeout_ms=30_000)
    producer.init_transactions(30)
    took: list[float] = []
    for number in range(count + 10):
        began = time.perf_counter()
        producer.begin_transaction()
        producer.produce(topic, key=str(number % 10), value=b"v" * 1_000)
        producer.commit_transaction(30)
        took.append((time.perf_counter() - began) * 1_000)
    return summary(took[10:])  # the first ones open connections


def summary(values: list[float]) -> dict[str, float]:
    """n, p50, p90, max in ms."""
    return {
        "n": len(values),
        "p50_ms": round(statistics.median(values), 1),
        "p90_ms": round(percentile(values, 0.90), 1),
        "max_ms": round(max(values), 1),
    }


def main() -> int:
    """A table on stderr, JSON on stdout; exit 1 when a median is over its bound."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=30, help="failovers of each kind")
    parser.add_argument("--json", type=Path, help="write the result there as well")
    asked = parser.parse_args()
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as scratch:
        broker = Broker(Path(scratch) / "broker").start()
        try:
            for number, name in enumerate(("same host", "standby's place")):
                place = Path(scratch) / f"job-{number}"
                results[name] = failovers(broker.bootstrap_servers, place, name, asked.count)
            peer = transactions(broker.bootstrap_servers, 100)
        finally:
            broker.close()
    table = Table(title="report of an active's death to the start that replaces it")
    for column in ("", "", "n", "p50 ms", "p90 ms", "max ms", "× the peer"):
        table.add_column(column, justify="right" if column else "left")
    for name, parts in [*results.items(), ("a Kafka transaction", {"peer": peer})]:
        for part, row in parts.items():
            times = row["p50_ms"] / peer["p50_ms"]
            table.add_row(name, part, *(str(value) for value in row.values()), f"{times:.1f}")
    console().print(table)
    document = json.dumps({"bound_p50_ms": BOUND_MS, "reaction": results, "transaction": peer})
    print(document)
    if asked.json:
        keep(document, asked.json)
    within = all(p["coordinator's share"]["p50_ms"] < BOUND_MS for p in results.values())
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main())
