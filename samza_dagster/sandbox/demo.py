"""`make demo`: the main job, end to end, on real parts.

Sandbox up, standbys caught up, Dagster up; Dagster moves active container 0 onto the host of
its standby; an outsider judges that nothing was lost and how long the outputs were
silent; Spark writes where everything is now.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from samza_dagster.client.placement_client import PlacementClient
from samza_dagster.client.views import JobView
from samza_dagster.errors import ActionFailed
from samza_dagster.metadata.connection import Connection
from samza_dagster.metadata.kafka_store import KafkaMetadataStore
from samza_dagster.metadata.placement_store import ContainerPlacementMetadataStore
from samza_dagster.model import PlacementResponse
from samza_dagster.sandbox import kafka_client, lifecycle, standby_lag
from samza_dagster.sandbox.artifacts import jar_paths
from samza_dagster.sandbox.dagster_stack import DagsterStack
from samza_dagster.sandbox.demo_job import CHANGELOG_TOPIC, JOB_ID, JOB_NAME
from samza_dagster.sandbox.judge import Judge, Verdict
from samza_dagster.sandbox.process import interrupts_deferred
from samza_dagster.sandbox.progress import Phases, artifact_progress
from samza_dagster.sandbox.restore_log import restored_records

PROCESSOR = "0"
ROOT = Path(__file__).resolve().parent.parent.parent


@dataclass
class Findings:
    """What the demo has seen so far; its JSON is the last line that it prints."""

    moved: bool = False
    responses: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    downtime_s: float | None = None
    missing: int | None = None
    unexplained: int | None = None
    restored: int | None = None
    produced_in_gap: int | None = None
    lag: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    locality_before: dict[str, str | None] = field(default_factory=dict[str, str | None])
    locality_after: dict[str, str | None] = field(default_factory=dict[str, str | None])
    assets: bool = False
    failure: str | None = None

    @property
    def all_held(self) -> bool:
        """Everything that the demo promises was seen."""
        return (
            self.failure is None
            and self.moved
            and self.assets
            and self.missing == 0
            and self.unexplained == 0
            and self.downtime_s is not None
            and self.restored is not None
            and self.produced_in_gap is not None
            and self.restored <= 2 * max(self.produced_in_gap, 1)
        )

    def to_json(self, phases: Mapping[str, float], elapsed_s: float) -> dict[str, Any]:
        """The summary; seconds rounded to hundredths."""
        return {
            **self.__dict__,
            "ok": self.all_held,
            "phases_s": dict(phases),
            "elapsed_s": round(elapsed_s, 2),
        }


class Demo:
    """One run of the demo on the sandbox named `name`; `tell` shows a line to a person."""

    def __init__(self, name: str, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._sandbox = lifecycle.Sandbox(name)
        self._name = name
        self._phases = Phases(tell)
        self._stack: DagsterStack | None = None
        self._stack_failure: BaseException | None = None
        self._starter = threading.Thread(target=self._start_dagster, daemon=True)
        self._applied: dict[int, int] = {}
        self._partitions: tuple[int, ...] = ()
        self._destination = ""
        self._ends: tuple[int, ...] = ()
        self._servers = ""
        self._began_ms = 0
        self.findings = Findings()
        self.links: dict[str, str] = {}

    @property
    def seconds(self) -> dict[str, float]:
        """Seconds of each phase that has ended."""
        return self._phases.seconds

    def run(self, options: lifecycle.Options) -> None:
        """Everything from nothing to the verdict; what it started is running after it."""

        def broker_is_up(servers: str) -> None:
            self._servers = servers
            self._stack = DagsterStack(
                self._sandbox.dagster_home,
                ROOT / "workspace.yaml",
                env={
                    "SAMZA_DAGSTER_BOOTSTRAP_SERVERS": servers,
                    "SAMZA_DAGSTER_JOB_NAME": JOB_NAME,
                    "SAMZA_DAGSTER_JOB_ID": JOB_ID,
                },
            )
            with interrupts_deferred():
                self._starter.start()

        with artifact_progress("sandbox and Spark") as on_jar:
            with self._phases.phase("Spark's Kafka jars"):
                jar_paths("spark-kafka", progress=on_jar)
            self._sandbox.up(options, self._phases, on_jar=on_jar, on_broker=broker_is_up)
        with contextlib.closing(Judge(self._servers)) as judge:
            with self._phases.phase("outsider reads inputs and outputs"):
                judge.judge(deadline_s=120)
            with self._phases.phase("Dagster"):
                self._starter.join()
                if self._stack_failure is not None:
                    raise self._stack_failure
            assert self._stack is not None
            self._sandbox.registry.update(dagster_url=self._stack.url)
            self._move(self._stack)
            with self._phases.phase("verdict"):
                self._judge(judge)
        self._materialize(self._stack)

    def close(self) -> None:
        """Stops all that the demo started and confirms it."""
        if self._stack is not None:
            self._stack.stop(timeout_s=10)  # a run that is under way is ended hard
        if self._starter.ident is not None:
            self._starter.join()  # a start under way was told to end, with what it spawned last
        self._sandbox.down()

    def _start_dagster(self) -> None:
        """Beside the containers' start: it needs the broker's address and nothing else."""
        assert self._stack is not None
        try:
            self._stack.start(timeout_s=180)
        except Exception as error:  # the main thread raises it
            self._stack_failure = error

    def _connection(self) -> Connection:
        return Connection(bootstrap_servers=self._servers, job_name=JOB_NAME, job_id=JOB_ID)

    def _view(self) -> JobView:
        with PlacementClient(self._connection()) as client:
            return client.view()

    def _move(self, stack: DagsterStack) -> None:
        before = self._view()
        self._tell(host_map("before", before))
        self.findings.locality_before = hosts_of(before)
        active, standby = before.processors[PROCESSOR], before.processors[f"{PROCESSOR}-0"]
        self._destination = standby.host or ""
        self._partitions = tuple(int(task.rpartition(" ")[2]) for task in active.tasks)
        self._began_ms = time.time_ns() // 1_000_000
        with (
            self._phases.phase("move_with_standby, launched in Dagster"),
            self._responses_shown(),
        ):
            run_id = stack.launch(
                "move_with_standby",
                {
                    "ops": {
                        "plan_move_with_standby": {
                            "config": {
                                "processor": PROCESSOR,
                                "reason": "demo: empty the active's host",
                                "requested_by": "samza-dagster demo",
                            }
                        }
                    }
                },
            )
            self.links["move_with_standby"] = stack.run_url(run_id)
            self._tell(f"run {self.links['move_with_standby']}")
            status = stack.wait(run_id, timeout_s=300)
        after = self._view()
        self._tell(host_map("after", after))
        self.findings.locality_after = hosts_of(after)
        moved = after.processors[PROCESSOR]
        self.findings.moved = (
            status == "SUCCESS"
            and moved.host == self._destination
            and moved.state == "running"
            and moved.execution_id != active.execution_id
            and after.processors[f"{PROCESSOR}-0"].host not in (active.host, moved.host)
        )
        if status != "SUCCESS":
            raise ActionFailed(
                "move_with_standby in Dagster",
                seen=f"run {run_id} ended {status}",
                fix=self.links["move_with_standby"],
            )

    @contextlib.contextmanager
    def _responses_shown(self) -> Generator[None]:
        """Tails the coordinator stream as a stranger would and tells each status."""
        store = KafkaMetadataStore(self._servers, self._connection().coordinator_stream_topic)
        watch = ContainerPlacementMetadataStore(store).watch_responses(
            lambda response, change: self._on_response(response, change.timestamp_ms)
        )
        try:
            yield
        finally:
            watch.close()
            store.close()

    def _on_response(self, response: PlacementResponse, at_ms: int) -> None:
        seconds = (at_ms - self._began_ms) / 1000
        self._tell(
            f"  +{seconds:5.1f} s  {response.processor_id:<4}{response.status_code:<12}"
            f"{response.response_message}"
        )
        self.findings.responses.append(
            {
                "uuid": response.uuid,
                "processor_id": response.processor_id,
                "status": str(response.status_code),
                "message": response.response_message,
                "at_s": seconds,
            }
        )
        if not response.status_code.is_terminal:
            return
        if response.processor_id == PROCESSOR:
            with contextlib.closing(kafka_client.consumer(self._servers)) as consumer:
                self._ends = kafka_client.end_offsets(consumer, CHANGELOG_TOPIC)
        else:
            # The store that the standby left behind: what the active won't have to restore.
            state = self._state_directory(self._destination)
            for partition in self._partitions:
                offset = standby_lag.applied_offset(state, f"Partition {partition}")
                self._applied[partition] = -1 if offset is None else offset

    def _state_directory(self, host: str) -> Path:
        return next(h.state_directory for h in self._sandbox.hosts if h.name == host)

    def _judge(self, judge: Judge) -> None:
        now_ms = time.time_ns() // 1_000_000
        verdict: Verdict = judge.judge(
            deadline_s=60,
            partitions=self._partitions,
            window_ms=(self._began_ms - 5_000, now_ms),
        )
        findings = self.findings
        findings.missing, findings.unexplained = verdict.missing, verdict.unexplained
        if verdict.gaps:
            longest = max(verdict.gaps, key=lambda gap: gap.gap_ms)
            findings.downtime_s = longest.gap_ms / 1000
            self._tell(
                f"downtime of container {PROCESSOR}: {findings.downtime_s:.1f} s "
                f"(longest silence of its outputs; usual {longest.usual_ms} ms)"
            )
        self._tell(
            f"{verdict.completed:,} (key, epoch) completed by the inputs, {verdict.missing} missing "
            f"in the outputs, {verdict.duplicates} twice"
        )
        with PlacementClient(self._connection()) as client:
            findings.lag = [replica.to_json() for replica in client.lag()]
            execution_id = client.view().processors[PROCESSOR].execution_id
        host = next(h for h in self._sandbox.hosts if h.name == self._destination)
        log = host.directory / "incarnations" / str(execution_id) / "container.log"
        restored = restored_records(log.read_text(errors="replace"))
        if set(restored) >= set(self._partitions) and self._ends:
            findings.restored = sum(restored[p] for p in self._partitions)
            findings.produced_in_gap = sum(
                max(0, self._ends[p] - 1 - self._applied[p]) for p in self._partitions
            )
            self._tell(
                f"restored {findings.restored:,} of {sum(self._ends[p] for p in self._partitions):,} "
                f"records of the changelog; {findings.produced_in_gap:,} came since the standby "
                "left the store"
            )

    def _materialize(self, stack: DagsterStack) -> None:
        with self._phases.phase("Spark assets"):
            run_id = stack.launch("snapshot_assets")
            self.links["snapshot_assets"] = stack.run_url(run_id)
            status = stack.wait(run_id, timeout_s=240)
        for asset in ("container_locality", "task_locality", "changelog_lag"):
            self.links[asset] = stack.asset_url(asset)
        self.findings.assets = status == "SUCCESS"
        if status != "SUCCESS":
            raise ActionFailed(
                "snapshot_assets in Dagster",
                seen=f"run {run_id} ended {status}",
                fix=self.links["snapshot_assets"],
            )


def hosts_of(view: JobView) -> dict[str, str | None]:
    """Processor id → host."""
    return {name: processor.host for name, processor in sorted(view.processors.items())}


def host_map(title: str, view: JobView) -> str:
    """Host × container as text; an active in brackets."""
    lines = [f"{title}:"]
    for host in sorted(view.hosts):
        here = [
            f"[{p.processor_id}]" if p.mode == "Active" else p.processor_id
            for p in sorted(view.processors.values(), key=lambda p: p.processor_id)
            if p.host == host
        ]
        lines.append(f"  {host:<10}{'  '.join(here) or '-'}")
    return "\n".join(lines)
