"""The job of 1,000 containers with all that its sensors read: a leader, metrics, commits.

Changelog and input have a partition for each active. Metrics are Samza's own snapshots, of
three reports that still count, and commits of ten minutes, as containers leave them that report
and commit each minute, Samza's default.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from uuid import UUID

from fleet import ACTIVES, AUTHOR, HOSTS, Fleet, Member, members
from rpds import HashTrieMap

from samza_dagster.metadata import StateWriter, ensure_topic
from samza_dagster.metadata import coordinator_stream as stream
from samza_dagster.metadata.coordinator_stream import StreamRecord
from samza_dagster.metadata.state_topic import encode_record
from samza_dagster.model import SystemStreamPartition, TaskMode
from samza_dagster.model.naming import checkpoint_topic, group_of, transactional_id
from samza_dagster.placement import codec
from samza_dagster.placement.state import Group, Incarnation, JobState, Phase, Processor, Role

STORE = "orders"
RECORDS, BEHIND = 20, 5
REPORTS, REPORT_EVERY_MS, REPORT_PARTITIONS = 3, 60_000, 8
COMMITS, REMEMBERED = 10, 20_000
GROUPER = "org.apache.samza.container.grouper.stream.GroupByPartitionFactory"
BACKEND = "org.apache.samza.storage.KafkaChangelogStateBackendFactory"
TASK_METRICS = "org.apache.samza.container.TaskInstanceMetrics"
SAMPLES = Path(__file__).parents[1] / "data/wire/metrics-samples.jsonl"
# What one container of either kind reports each time: its task, itself, its reporter.
OF_ACTIVE, OF_STANDBY = (3, 5, 6), (7, 9, 6)


def execution(member: Member) -> str:
    return f"{member.processor}-of-1"


class ReportingFleet(Fleet):
    """`page` is the leader's address."""

    def __init__(self, bootstrap_servers: str, page: str) -> None:
        self.page = page
        super().__init__(bootstrap_servers)
        self.changelog, self.metrics = f"{self.name}-{STORE}-changelog", f"{self.name}-metrics"
        self._write_partitions()
        self._write_reports()
        self._write_commits()
        self._writer = StateWriter(
            self.bootstrap_servers, self.connection.state_topic, transactional_id(self.name, "1")
        )
        ensure_topic(self.cluster, self.connection.state_topic)
        self._writer.take_over()
        self._write_state()

    def config(self) -> dict[str, str]:
        return {
            **super().config(),
            "job.default.system": "kafka",
            f"stores.{STORE}.factory": "org.apache.samza.storage.kv.RocksDbKeyValueStorageEngineFactory",
            f"stores.{STORE}.changelog": f"kafka.{self.name}-{STORE}-changelog",
            "metrics.reporters": "snapshot",
            "metrics.reporter.snapshot.stream": f"kafka.{self.name}-metrics",
            "metrics.reporter.snapshot.interval": str(REPORT_EVERY_MS // 1000),
        }

    def records_of(self, member: Member) -> list[StreamRecord]:
        read = SystemStreamPartition(
            system="kafka", stream=f"{self.name}-input", partition=member.number
        )
        return [
            *super().records_of(member),
            stream.set_changelog(AUTHOR, member.task, member.number),
            stream.set_task_partition(AUTHOR, read, [member.task]),
        ]

    def beat(self) -> None:
        """The leader shows a sign of life."""
        self._commit([("leader", self._leader())])

    def set_phase(self, active: str, phase: Phase) -> None:
        """Of an active, as its coordinator records it."""
        group = self._groups()[active]
        changed = replace(group.processors[active], phase=phase)
        group = replace(group, processors={**group.processors, active: changed})
        self._commit([(f"group/{active}", {"epoch": 1, "group": codec.group_to_json(group)})])

    def close(self) -> None:
        self._writer.close()

    def _write_partitions(self) -> None:
        for topic in (self.changelog, f"{self.name}-input"):
            ensure_topic(self.cluster, topic, partitions=ACTIVES)
            every = [(n, b"key", b"value") for n in range(ACTIVES) for _ in range(RECORDS)]
            self.spread(topic, every)

    def _write_reports(self) -> None:
        ensure_topic(self.cluster, self.metrics, partitions=REPORT_PARTITIONS, config={})
        samples = [
            json.loads(json.loads(line)["value"]) for line in SAMPLES.read_text().splitlines()
        ]
        now_ms = time.time_ns() // 1_000_000
        told: list[tuple[int, bytes | None, bytes | None]] = []
        for late in reversed(range(REPORTS)):
            for member in members():
                of_it = OF_ACTIVE if member.mode is TaskMode.ACTIVE else OF_STANDBY
                at_ms = now_ms - late * REPORT_EVERY_MS
                told += [
                    (
                        member.number % REPORT_PARTITIONS,
                        member.host.encode(),
                        self._report(samples[place], member, at_ms),
                    )
                    for place in of_it
                ]
        self.spread(self.metrics, told)

    def _report(self, sample: dict[str, Any], member: Member, at_ms: int) -> bytes:
        """Samza's own snapshot as of this container."""
        source = sample["header"]["source"]
        if source.startswith("TaskName-"):
            source = f"TaskName-{member.task}"
        header = {
            **sample["header"],
            "job-name": self.name,
            "host": member.host,
            "container-name": f"samza-container-{member.processor}",
            "exec-env-container-id": execution(member),
            "source": source,
            "time": at_ms,
        }
        metrics = dict(sample["metrics"])
        if source.startswith("TaskName-Standby-"):
            gauges = {k: v for k, v in metrics[TASK_METRICS].items() if "changelog" not in k}
            applied = str(RECORDS - 1 - BEHIND)
            for prefix in ("", "side-inputs-"):
                gauges[f"{prefix}kafka-{self.changelog}-{member.number}-offset"] = applied
            metrics[TASK_METRICS] = gauges
        return json.dumps({"header": header, "metrics": metrics}, separators=(",", ":")).encode()

    def _write_commits(self) -> None:
        """Both versions of each, as Samza 1.8 writes them."""
        topic = checkpoint_topic(self.name, "1")
        ensure_topic(self.cluster, topic)
        self.produce(
            topic,
            [
                (self._commit_key(member, kind), json.dumps(value, separators=(",", ":")).encode())
                for number in range(COMMITS)
                for member in members()
                if member.mode is TaskMode.ACTIVE
                for kind, value in self._commit_of(member, number).items()
            ],
        )

    def _commit_of(self, member: Member, number: int) -> dict[str, dict[str, Any]]:
        read, own = f"{self.name}-input", str(member.number)
        marker = {
            "version": 1,
            "changelog-ssp": {
                "system": "kafka",
                "partition": member.number,
                "stream": self.changelog,
                "keyBucket": -1,
            },
            "changelog-offset": str(number),
        }
        first = {
            name: {"system": "kafka", "partition": own, "offset": offset, "stream": name}
            for name, offset in ((read, str(number)), (self.changelog, f"1-{number}:{number}"))
        }
        second = {
            "checkpoint-id": f"1-{number}",
            "input-offsets": {f"kafka.{read}.{own}": str(number)},
            "state-checkpoint-markers": {BACKEND: {STORE: json.dumps(marker)}},
            "version": 2,
        }
        return {
            "checkpoint": {
                f"SystemStreamPartition [kafka, {n}, {own}]": v for n, v in first.items()
            },
            "checkpoint-v2": second,
        }

    @staticmethod
    def _commit_key(member: Member, kind: str) -> bytes:
        key = {
            "systemstreampartition-grouper-factory": GROUPER,
            "taskName": member.task,
            "type": kind,
        }
        return json.dumps(key, separators=(",", ":")).encode()

    def _write_state(self) -> None:
        groups = self._groups()
        job = JobState(f"{self.name}/1", "run-1", groups=HashTrieMap(groups), next_epoch=2)
        self._commit(
            [
                ("job", {"state": codec.job_to_json(job)}),
                *(
                    (f"group/{name}", {"epoch": 1, "group": codec.group_to_json(group)})
                    for name, group in groups.items()
                ),
                *(
                    (
                        f"host/host-{n}",
                        {"host": f"host-{n}", "alive": True, "memory_mb": 4096, "cores": 8},
                    )
                    for n in range(HOSTS)
                ),
                *((f"uuid/{UUID(int=n)}", {"at_ms": n}) for n in range(REMEMBERED)),
                ("leader", self._leader()),
            ]
        )

    def _groups(self) -> dict[str, Group]:
        processors: dict[str, dict[str, Processor]] = {}
        for member in members():
            incarnation = Incarnation(1, execution(member), member.host, f"r-{member.processor}")
            processors.setdefault(group_of(member.processor), {})[member.processor] = Processor(
                member.processor, Role(member.mode.value), Phase.RUNNING, incarnation, member.host
            )
        return {name: Group(name, own) for name, own in processors.items()}

    def _leader(self) -> dict[str, Any]:
        now_ms = time.time_ns() // 1_000_000
        return {
            "epoch": 1,
            "host": "host-0",
            "coordinator_url": self.page,
            "since_ms": now_ms,
            "beat_ms": now_ms,
            "lease_ms": 120_000,
            "beat_every_ms": 40_000,
            "ended": False,
        }

    def _commit(self, records: list[tuple[str, dict[str, Any]]]) -> None:
        topic = self.connection.state_topic
        self._writer.commit([(topic, *encode_record(key, value)) for key, value in records])


@contextmanager
def leaders_page() -> Generator[str]:
    """The address of a page `/hosts` on which each agent was heard just now."""
    said = json.dumps(
        {"version": 1, "hosts": {f"host-{n}": {"silent_ms": 100} for n in range(HOSTS)}}
    ).encode()

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/hosts" else 404)
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()
