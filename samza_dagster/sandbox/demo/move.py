"""The demo's move: active container 0 goes to its standby's host, launched in Dagster."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator, Mapping
from typing import Any

from samza_dagster.client.placement_client import PlacementClient
from samza_dagster.client.responses import details_of
from samza_dagster.errors import ActionFailed
from samza_dagster.metadata.connection import Connection
from samza_dagster.metadata.kafka_store import KafkaMetadataStore
from samza_dagster.metadata.placement_store import ContainerPlacementMetadataStore
from samza_dagster.model import PlacementResponse
from samza_dagster.model.placement_messages import StatusCode
from samza_dagster.placement.state import Stage
from samza_dagster.sandbox.dagster_runs import DagsterRuns
from samza_dagster.sandbox.demo.findings import MoveFindings
from samza_dagster.sandbox.demo.restore import Restored, RestoreWatch
from samza_dagster.sandbox.hosts import SimulatedHost
from samza_dagster.sandbox.lifecycle import Sandbox
from samza_dagster.sandbox.progress import Phases
from samza_dagster.sandbox.readiness import RUNNING

PROCESSOR = "0"
STANDBY = "0-0"
_JOB = "move_with_standby"


class DemoMove:
    """The demo's move; its results go to `findings`.

    Create it right before the move, because it reads the map then. The sandbox's status is the
    source, independent of the client that Dagster uses.
    """

    def __init__(
        self,
        connection: Connection,
        sandbox: Sandbox,
        findings: MoveFindings,
        tell: Callable[[str], None],
    ) -> None:
        self._connection = connection
        self._sandbox = sandbox
        self._findings = findings
        self._tell = tell
        before = sandbox.status()
        self._active: Mapping[str, Any] = before["processors"][PROCESSOR]
        self._standby: Mapping[str, Any] = before["processors"][STANDBY]
        with PlacementClient(connection) as client:
            tasks = client.view().processors[PROCESSOR].tasks
        self.partitions = tuple(int(task.rpartition(" ")[2]) for task in tasks)
        self._destination = self._host(self._standby["host"])
        self._restore = RestoreWatch(
            connection.bootstrap_servers, self._destination.state_directory, self.partitions
        )
        self._standby_stops = False
        self._tell(_host_map("before", before))
        findings.locality_before = _hosts_of(before)
        self.began_ms = time.time_ns() // 1_000_000

    def run(self, runs: DagsterRuns, phases: Phases) -> str:
        """Move and return the run's page; raise `ActionFailed` when the run did not succeed."""
        with phases.phase(f"{_JOB}, launched in Dagster"), self._show_responses():
            run_id = runs.launch(_JOB, _run_config())
            link = runs.run_url(run_id)
            self._tell(f"run {link}")
            status = runs.wait(run_id, timeout_s=900)
        after = self._sandbox.status()
        self._tell(_host_map("after", after))
        hosts = self._findings.locality_after = _hosts_of(after)
        moved = after["processors"].get(PROCESSOR, {})
        self._findings.moved = (
            status == "SUCCESS"
            and moved.get("host") == self._standby["host"]
            and moved["state"] == RUNNING
            and moved["execution_id"] != self._active["execution_id"]
            and hosts.get(STANDBY) not in (None, self._active["host"], moved["host"])
        )
        if status != "SUCCESS":
            raise ActionFailed(f"{_JOB} in Dagster", seen=f"run {run_id} ended {status}", fix=link)
        return link

    def restored(self) -> Restored | None:
        """Return the records that the moved active read of the changelog; None while unknown."""
        runner = self._sandbox.runner
        execution_id = runner.processors().get(PROCESSOR, {}).get("execution_id")
        return self._restore.result(runner.container_log(self._destination, str(execution_id)))

    def _host(self, name: str) -> SimulatedHost:
        for host in self._sandbox.hosts:
            if host.name == name:
                return host
        raise ActionFailed(f"find host {name}", seen="it is none of the sandbox's")

    @contextlib.contextmanager
    def _show_responses(self) -> Generator[None]:
        """Tail the coordinator stream as an independent reader and show each status."""
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
        if response.processor_id == STANDBY:  # Samza's own Application Master moves it first
            if response.status_code is StatusCode.SUCCEEDED:
                self._restore.note_standby_left()
        elif response.status_code.is_terminal:
            self._restore.note_active_arrived()
        elif (stage := details_of(response).stage) == Stage.STOPPING_STANDBY:
            self._standby_stops = True
        elif self._standby_stops and stage == Stage.RESERVING:
            self._restore.note_standby_left()  # it is dead: its host is reserved for the active


def _run_config() -> dict[str, object]:
    config = {
        "processor": PROCESSOR,
        "reason": "demo: empty the active's host",
        "requested_by": "samza-dagster demo",
    }
    return {"ops": {"plan_move_with_standby": {"config": config}}}


def _hosts_of(facts: Mapping[str, Any]) -> dict[str, str | None]:
    """Return processor id → host, by a sandbox's status."""
    return {name: each.get("host") for name, each in sorted(facts["processors"].items())}


def _host_map(title: str, facts: Mapping[str, Any]) -> str:
    """Return host × container as text, by a sandbox's status; an active in brackets."""
    lines = [f"{title}:"]
    for host in sorted(facts["hosts"]):
        here = [
            f"[{name}]" if each.get("mode") == "Active" else name
            for name, each in sorted(facts["processors"].items())
            if each.get("host") == host
        ]
        lines.append(f"  {host:<10}{'  '.join(here) or '-'}")
    return "\n".join(lines)
