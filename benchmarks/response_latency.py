"""Request acknowledged by the broker → first response at an independent consumer.

One command, `make bench`. Real broker, coordinator and agents; a stub stands in each
container's place, so that 200 restarts take a minute. Requests go out and responses come
in through plain Kafka clients that know nothing of ours. The peer is Samza 1.8.0's own
Application Master, as recorded on YARN in `tests/data/wire/scenarios.jsonl`: its
placement thread polls every 5 s.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import statistics
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.results_file import keep
from samza_dagster.metadata.kafka_client import KafkaCluster
from samza_dagster.metadata.topics import ensure_topic
from samza_dagster.model.naming import coordinator_stream_topic
from samza_dagster.sandbox.broker import Broker
from tests.rig.job import Job

RECORDED = Path(__file__).parent.parent / "tests" / "data" / "wire" / "scenarios.jsonl"
NAMESPACE = "samza-place-container-v1"


class Probe:
    """Sends requests and times the first response, with bare Kafka clients."""

    def __init__(self, bootstrap_servers: str, topic: str, deployment_id: str) -> None:
        from confluent_kafka import Consumer, Producer, TopicPartition

        self._topic, self._deployment_id = topic, deployment_id
        self._producer: Any = Producer(
            {"bootstrap.servers": bootstrap_servers, "acks": "all", "linger.ms": 0}
        )
        self._consumer: Any = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": f"probe-{uuid.uuid4()}",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
            }
        )
        partition = TopicPartition(topic, 0)
        end = self._consumer.get_watermark_offsets(partition)[1]
        self._consumer.assign([TopicPartition(topic, 0, end)])
        self._seen: dict[str, list[tuple[float, str]]] = {}
        self._news = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        while not self._closed:
            message = self._consumer.poll(0.2)
            if message is None or message.error() or not message.value():
                continue
            kind, _, suffix = json.loads(message.key())[2].partition(".")
            if suffix != "ContainerPlacementResponseMessage":
                continue
            status = json.loads(message.value())["statusCode"]
            with self._news:
                self._seen.setdefault(kind, []).append((time.monotonic(), status))
                self._news.notify_all()

    def request(self, processor: str, destination: str) -> tuple[float, str]:
        """Seconds to the first response and the final status of one placement."""
        request = str(uuid.uuid4())
        key = f'[1,"{NAMESPACE}","{request}.ContainerPlacementRequestMessage"]'
        value = {
            "processorId": processor,
            "deploymentId": self._deployment_id,
            "subType": "ContainerPlacementRequestMessage",
            "uuid": request,
            "destinationHost": destination,
            "statusCode": "CREATED",
            "timestamp": int(time.time() * 1000),
        }
        acknowledged: list[float] = []
        self._producer.produce(
            self._topic,
            key=key,
            value=json.dumps(value),
            on_delivery=lambda error, _message: acknowledged.append(
                float("nan") if error else time.monotonic()
            ),
        )
        self._producer.flush(10)

        def finished() -> bool:
            return any(
                status in ("SUCCEEDED", "FAILED", "BAD_REQUEST")
                for _, status in self._seen.get(request, [])
            )

        with self._news:
            if not self._news.wait_for(finished, timeout=60):
                raise TimeoutError(f"no outcome of {request} for {processor} within 60 s")
            answers = self._seen[request]
        return answers[0][0] - acknowledged[0], answers[-1][1]

    def close(self) -> None:
        """Ends the listening thread."""
        self._closed = True
        self._thread.join(timeout=5)
        self._consumer.close()


def percentile(values: list[float], share: float) -> float:
    """The smallest value that at least `share` of all values don't exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def recorded_peer() -> list[float]:
    """Seconds to the first response of Samza's AM, from the recorded scenarios."""
    seconds: list[float] = []
    for line in RECORDED.read_text().splitlines():
        events = json.loads(line).get("events", [])
        asked = [e["t"] for e in events if e.get("kind") == "req" and e.get("status") == "CREATED"]
        first = [e["t"] for e in events if e.get("kind") == "resp" and e.get("status")]
        if len(asked) == 1 and first:
            seconds.append(first[0] - asked[0])
    return seconds


@contextlib.contextmanager
def moving(probe: Probe, processors: list[str]) -> Iterator[None]:
    """Keeps restarts of these processors running all the time."""
    stop = threading.Event()

    def restart(processor: str) -> None:
        while not stop.is_set():
            probe.request(processor, "LAST_SEEN")

    threads = [threading.Thread(target=restart, args=(p,), daemon=True) for p in processors]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join(timeout=60)


def summary(values: list[float]) -> dict[str, float]:
    """n, p50, p90, p99, max in seconds."""
    return {
        "n": len(values),
        "p50_s": round(statistics.median(values), 4),
        "p90_s": round(percentile(values, 0.90), 4),
        "p99_s": round(percentile(values, 0.99), 4),
        "max_s": round(max(values), 4),
    }


def measure(count: int) -> dict[str, Any]:
    """The three distributions and the ratio to the peer."""
    with tempfile.TemporaryDirectory() as scratch:
        broker = Broker(Path(scratch) / "broker").start()
        try:
            job = Job(Path(scratch) / "job", broker.bootstrap_servers, "bench", actives=4)
            ensure_topic(KafkaCluster(broker.bootstrap_servers), job.input_topic, partitions=4)
            try:
                job.start()
                status = job.status()
                assert status is not None
                probe = Probe(
                    broker.bootstrap_servers,
                    coordinator_stream_topic("bench", "1"),
                    status["deployment_id"],
                )
                for _ in range(5):
                    probe.request("0", "LAST_SEEN")
                idle = [probe.request("0", "LAST_SEEN") for _ in range(count)]
                with moving(probe, ["1", "2-0"]):
                    busy = [probe.request("0", "LAST_SEEN") for _ in range(count)]
                probe.close()
            finally:
                job.close()
        finally:
            broker.close()
    outcomes = {status for _, status in idle + busy}
    if outcomes != {"SUCCEEDED"}:
        raise SystemExit(f"not every restart succeeded: {sorted(outcomes)}")
    peer = summary(recorded_peer())
    results = {
        "idle": summary([s for s, _ in idle]),
        "moves running": summary([s for s, _ in busy]),
    }
    return {
        "what": "request acknowledged to first response",
        "ours": results,
        "peer": {"Samza 1.8.0 AM (recorded)": peer},
        "ratio_p50": {name: round(peer["p50_s"] / r["p50_s"], 1) for name, r in results.items()},
    }


def main() -> int:
    """Prints a table to stderr and JSON to stdout; exit 1 when a bound is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100, help="requests per distribution")
    parser.add_argument("--json", type=Path, help="write the results there as well")
    asked = parser.parse_args()
    results = measure(asked.count)
    table = Table(title=results["what"])
    for column in ("", "n", "p50 ms", "p90 ms", "p99 ms", "max ms", "peer / ours (p50)"):
        table.add_column(column, justify="right" if column else "left")
    rows = {**results["ours"], **results["peer"]}
    for name, row in rows.items():
        cells = [f"{row[key] * 1000:.1f}" for key in ("p50_s", "p90_s", "p99_s", "max_s")]
        table.add_row(name, str(row["n"]), *cells, str(results["ratio_p50"].get(name, "")))
    Console(stderr=True).print(table)
    document = json.dumps(results)
    print(document)
    if asked.json:
        keep(document, asked.json)
    bounds = all(r["p50_s"] < 0.1 and r["p99_s"] < 0.5 for r in results["ours"].values())
    return 0 if bounds else 1


if __name__ == "__main__":
    sys.exit(main())
