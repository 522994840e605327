"""The demo job on a real YARN as tests ask and look at it: Dagster's jobs, processes, times."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Collection, Generator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import dagster as dg

from samza_dagster.coordinator.launch import LaunchTemplate
from samza_dagster.metadata.connection import Connection
from samza_dagster.model.naming import checkpoint_topic
from samza_dagster.orchestration.jobs import placement_jobs
from samza_dagster.orchestration.policies import PlacementPolicies
from samza_dagster.orchestration.resource import SamzaClientResource
from samza_dagster.sandbox import demo_job
from samza_dagster.sandbox.coordinator_process import CoordinatorFiles
from samza_dagster.sandbox.lifecycle import Options, Sandbox
from samza_dagster.sandbox.progress import Phases
from samza_dagster.sandbox.yarn.processes import NODE_DIRECTORY, containers, java_processes
from tests.rig.am_rules import NAMESPACE, REQUEST, RESPONSE
from tests.rig.job import alive
from tests.rig.pace import PACE
from tests.rig.topic_records import timed_records_of
from tests.rig.waiting import until

OPTIONS = Options(name="yarn", yarn=True, state_mb=4.0, rate=200.0 / PACE)
MASTER = "org.apache.samza.clustermanager.ClusterBasedJobCoordinatorRunner"


@contextlib.contextmanager
def yarn_sandbox(root: Path, **options: Any) -> Generator[Sandbox]:
    """2 actives, 2 standbys, 4 nodes, a steady load, `options` on top; standbys have caught up.

    It is ended by its record, as where whoever started it was killed.
    """
    box = Sandbox(OPTIONS.name, root=root)
    box.up(replace(OPTIONS, **options), Phases(print))
    try:
        yield box
    finally:
        started, ran = box.registry.live(), box.yarn.processors().values()
        for each in ran:
            with contextlib.suppress(ProcessLookupError):
                os.kill(each["pid"], signal.SIGCONT)
        Sandbox(OPTIONS.name, root=root).down()
    assert not [record for record in started if record.is_alive]
    # Each host's processes end with its first one, by the kernel.
    until("no container is left", lambda: not any(alive(each["pid"]) for each in ran))
    assert containers(box.directory / "yarn") == {}


class Jobs:
    """Runs of the product's own jobs in this process."""

    def __init__(self, servers: str, instance: dg.DagsterInstance, *, yarn: str = "") -> None:
        self.instance = instance
        self._definitions = dg.Definitions(
            jobs=placement_jobs(f"{demo_job.JOB_NAME}/{demo_job.JOB_ID}"),
            resources={
                "samza": SamzaClientResource(
                    bootstrap_servers=servers,
                    job_name=demo_job.JOB_NAME,
                    job_id=demo_job.JOB_ID,
                    yarn_resource_manager=yarn,
                ),
                "samza_policies": PlacementPolicies(
                    timeout_s=round(240 * PACE),
                    verify_timeout_s=round(120 * PACE),
                ),
            },
        )

    def run(self, job: str, **config: Any) -> dg.ExecuteInProcessResult:
        """A run of it to its end, be that a failure."""
        op = "plan_bounce" if job == "rolling_bounce" else f"plan_{job}"
        return self._definitions.get_job_def(job).execute_in_process(
            run_config={"ops": {op: {"config": config}}},
            instance=self.instance,
            raise_on_error=False,
        )


def listed(sandbox: Sandbox, what: str) -> Any:
    """What the ResourceManager says below `/ws/v1/cluster/`."""
    url = f"{sandbox.status()['resource_manager']}/ws/v1/cluster/{what}"
    with urllib.request.urlopen(url, timeout=10) as answer:
        return json.load(answer)


def kill_application(sandbox: Sandbox) -> None:
    """As an operator kills the job by YARN."""
    facts = sandbox.status()
    request = urllib.request.Request(
        f"{facts['resource_manager']}/ws/v1/cluster/apps/{facts['application']}/state",
        data=json.dumps({"state": "KILLED"}).encode(),
        headers={"Content-Type": "application/json"},
        method="PUT",
    )
    with urllib.request.urlopen(request, timeout=10):
        pass


def run_coordinator(
    directory: Path, servers: str, *options: str
) -> subprocess.CompletedProcess[str]:
    """A coordinator of ours that is told to lead the job; it ends at once when it may not."""
    files = CoordinatorFiles(directory)
    config = demo_job.job_config(servers, actives=2, standbys=1)
    files.write(config, LaunchTemplate(command=("false",), stop_grace_s=1.0))
    command = (sys.executable, "-m", "samza_dagster.cli.main", "coordinator", "run")
    return subprocess.run(
        [*command, *files.arguments, *options],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def places(sandbox: Sandbox) -> dict[str, str]:
    """Processor → the host that its one process runs on, by the kernel."""
    return {
        pid: each["host"]
        for pid, each in sandbox.yarn.processors().items()
        if len(each["pids"]) == 1
    }


def application_master(sandbox: Sandbox) -> int | None:
    """The process id of the Application Master, None while there is none."""
    return next(iter(_masters(sandbox)), None)


def master_host(sandbox: Sandbox) -> str:
    """The host that it runs on, empty while there is none."""
    return next(iter(_masters(sandbox).values()), "")


def _masters(sandbox: Sandbox) -> dict[int, str]:
    hosts = {
        pid: Path(environment.get(NODE_DIRECTORY, "/"))
        for pid, environment in java_processes(MASTER)
    }
    return {pid: h.name for pid, h in hosts.items() if h.parent == sandbox.directory / "yarn"}


@dataclass(frozen=True)
class Restarted:
    """A restart as the topics tell it. Times in ms since the epoch.

    `works_ms`: an active's first commit after its AM's SUCCEEDED, a standby's first report of the
    new process that has an offset.
    """

    processor: str
    asked_ms: int
    works_ms: int

    @property
    def seconds(self) -> float:
        """From its request until it works."""
        return (self.works_ms - self.asked_ms) / 1000


def restarts(
    connection: Connection, tasks: Mapping[str, Collection[str]], executions: Mapping[str, str]
) -> list[Restarted]:
    """Each processor's newest restart by a placement, in order.

    `tasks` are those of each, `executions` the processes that run now.
    """
    asked: dict[str, int] = {}
    launched: dict[str, int] = {}
    for at_ms, key, value in timed_records_of(connection, connection.coordinator_stream_topic):
        _, kind, name = json.loads(key)
        if kind != NAMESPACE or value is None:
            continue
        told = json.loads(value)
        if name.endswith(REQUEST):
            asked[told["processorId"]] = at_ms
        elif name.endswith(RESPONSE) and told["statusCode"] == "SUCCEEDED":
            launched[told["processorId"]] = at_ms
    found: list[Restarted] = []
    for processor, asked_ms in sorted(asked.items(), key=lambda each: each[1]):
        works_ms = (
            _first_report(connection, executions[processor])
            if "-" in processor
            else _first_commit(connection, tasks[processor], launched[processor])
        )
        found.append(Restarted(processor, asked_ms, works_ms))
    return found


def _first_report(connection: Connection, execution_id: str) -> int:
    for at_ms, _, value in timed_records_of(connection, demo_job.METRICS_TOPIC):
        document = json.loads(value or b"{}")
        if document["header"].get("exec-env-container-id") != execution_id:
            continue
        for name, group in document["metrics"].items():
            offsets = [v for gauge, v in group.items() if gauge.endswith("-offset")]
            if name.endswith("TaskInstanceMetrics") and any(v is not None for v in offsets):
                return at_ms
    raise AssertionError(f"no report of {execution_id} has an offset")


def _first_commit(connection: Connection, tasks: Collection[str], after_ms: int) -> int:
    topic = checkpoint_topic(connection.job_name, connection.job_id)
    for at_ms, key, _ in timed_records_of(connection, topic):
        if at_ms > after_ms and json.loads(key).get("taskName") in tasks:
            return at_ms
    raise AssertionError(f"nothing of {', '.join(tasks)} was committed since its restart")
