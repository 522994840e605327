"""The demo's move: active container 0 goes to the host of its standby, launched in Dagster."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator, Sequence

from samza_dagster.client.placement_client import PlacementClient
from samza_dagster.client.views import JobView, ProcessorView
from samza_dagster.errors import ActionFailed
from samza_dagster.metadata.connection import Connection
from samza_dagster.metadata.kafka_store import KafkaMetadataStore
from samza_dagster.metadata.placement_store import ContainerPlacementMetadataStore
from samza_dagster.model import PlacementResponse
from samza_dagster.placement import texts
from samza_dagster.sandbox.dagster_runs import DagsterRuns
from samza_dagster.sandbox.demo_findings import Findings
from samza_dagster.sandbox.demo_map import host_map, hosts_of
from samza_dagster.sandbox.demo_restore import Restored, RestoreWatch
from samza_dagster.sandbox.hosts import SimulatedHost
from samza_dagster.sandbox.progress import Phases

PROCESSOR = "0"
_JOB = "move_with_standby"


class DemoMove:
    """One move; what it shows goes to `findings`.

    Made where the move begins: it reads the map before it.
    """

    def __init__(
        self,
        connection: Connection,
        hosts: Sequence[SimulatedHost],
        findings: Findings,
        tell: Callable[[str], None],
    ) -> None:
        self._connection = connection
        self._hosts = hosts
        self._findings = findings
        self._tell = tell
        before = self._view()
        self._active = before.processors[PROCESSOR]
        self._standby = before.processors[f"{PROCESSOR}-0"]
        self.partitions = tuple(int(task.rpartition(" ")[2]) for task in self._active.tasks)
        self._restore = RestoreWatch(
            connection.bootstrap_servers, self._host_of(self._standby), self.partitions
        )
        self._standby_stops = False
        self._tell(host_map("before", before))
        findings.locality_before = hosts_of(before)
        self.began_ms = time.time_ns() // 1_000_000

    def run(self, runs: DagsterRuns, phases: Phases) -> str:
        """Moves and returns the run's page; raises `ActionFailed` when the run did not succeed."""
        with phases.phase(f"{_JOB}, launched in Dagster"), self._responses_shown():
            run_id = runs.launch(_JOB, _run_config())
            link = runs.run_url(run_id)
            self._tell(f"run {link}")
            status = runs.wait(run_id, timeout_s=900)
        after = self._view()
        self._tell(host_map("after", after))
        self._findings.locality_after = hosts_of(after)
        moved = after.processors[PROCESSOR]
        self._findings.moved = (
            status == "SUCCESS"
            and moved.host == self._standby.host
            and moved.state == "running"
            and moved.execution_id != self._active.execution_id
            and after.processors[self._standby.processor_id].host
            not in (self._active.host, moved.host)
        )
        if status != "SUCCESS":
            raise ActionFailed(f"{_JOB} in Dagster", seen=f"run {run_id} ended {status}", fix=link)
        return link

    def restored(self, execution_id: str | None) -> Restored | None:
        """What the moved active, now `execution_id`, read of the changelog."""
        return self._restore.result(execution_id)

    def _view(self) -> JobView:
        with PlacementClient(self._connection) as client:
            return client.view()

    def _host_of(self, processor: ProcessorView) -> SimulatedHost:
        for host in self._hosts:
            if host.name == processor.host:
                return host
        raise ActionFailed(
            f"find the host of container {processor.processor_id}",
            seen=f"{processor.host} is none of the sandbox's",
        )

    @contextlib.contextmanager
    def _responses_shown(self) -> Generator[None]:
        """Tails the coordinator stream as a stranger would and tells each status."""
        store = KafkaMetadataStore(
            self._connection.bootstrap_servers, self._connection.coordinator_stream_topic
        )
        watch = ContainerPlacementMetadataStore(store).watch_responses(
            lambda response, change: self._on_response(response, change.timestamp_ms)
        )
        try:
            yield
        finally:
            watch.close()
            store.close()

    def _on_response(self, response: PlacementResponse, at_ms: int) -> None:
        seconds = (at_ms - self.began_ms) / 1000
        self._tell(
            f"  +{seconds:5.1f} s  {response.processor_id:<4}{response.status_code:<12}"
            f"{response.response_message}"
        )
        self._findings.add_response(response, seconds)
        if response.status_code.is_terminal:
            self._restore.active_arrived()
        elif response.response_message == texts.STANDBY_STOP_IN_PROGRESS:
            self._standby_stops = True
        elif self._standby_stops and response.response_message == texts.RESOURCES_REQUESTED:
            self._restore.standby_left()  # it is dead: its host is being reserved for the active


def _run_config() -> dict[str, object]:
    config = {
        "processor": PROCESSOR,
        "reason": "demo: empty the active's host",
        "requested_by": "samza-dagster demo",
    }
    return {"ops": {"plan_move_with_standby": {"config": config}}}
