"""The stage: a job of real Samza containers and a Dagster with the repository's definitions."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import dagster as dg

from samza_dagster.client.placement_client import PlacementClient
from samza_dagster.metadata.connection import Connection
from samza_dagster.sandbox import demo_job
from samza_dagster.sandbox.dagster_stack import DagsterStack
from samza_dagster.sandbox.demo.run import LOCATION
from samza_dagster.sandbox.lifecycle import Sandbox
from samza_dagster.sandbox.progress import Phases
from tests.rig.demo_sandbox import OPTIONS
from tests.rig.job import ROOT, alive
from tests.rig.pace import PACE
from tests.rig.topic_records import records_of
from tests.rig.waiting import until

_LOCALITY = "set-container-host-assignment"
_REQUESTS = (b"ContainerPlacementRequestMessage", b"request/")
"""Samza's in the coordinator stream, our own in the state topic."""


@dataclass(frozen=True)
class Container:
    """A container by its agent's records; `pid` by the kernel's word."""

    host: str
    execution: str
    pid: int


@dataclass(frozen=True)
class Stage:
    """What the tests act on, and what they look at from outside."""

    sandbox: Sandbox
    stack: DagsterStack
    connection: Connection
    client: PlacementClient

    def locality(self) -> dict[str, str]:
        """Processor → host as the containers themselves told the coordinator stream."""
        found: dict[str, str] = {}
        for key, value in self._stream():
            parts = json.loads(key)
            if parts[1] == _LOCALITY and value:
                found[parts[2]] = json.loads(value)["values"]["host"]
        return found

    def requests(self) -> set[str]:
        """The keys of all requests that were ever asked, Samza's and ours."""
        state = records_of(self.connection, self.connection.state_topic)
        asked = {key for key, value in (*self._stream(), *state) if value}
        return {key.decode() for key in asked if any(kind in key for kind in _REQUESTS)}

    def run_id(self, job: str) -> str:
        """The newest run of a job; empty without one."""
        with self._instance() as instance:
            runs = instance.get_runs(dg.RunsFilter(job_name=job), limit=1)
        return runs[0].run_id if runs else ""

    def tags(self, run_id: str) -> dict[str, str]:
        """A run's tags."""
        with self._instance() as instance:
            run = instance.get_run_by_id(run_id)
        assert run is not None
        return dict(run.tags)

    def _instance(self) -> dg.DagsterInstance:
        return dg.DagsterInstance.from_config(str(self.stack.home))

    def containers(self) -> dict[str, Container]:
        """Who runs: the newest incarnation of each on its agent's record, if its process lives."""
        found: dict[str, Container] = {}
        for name, told in self.sandbox.status()["processors"].items():
            if told.get("pid") and alive(told["pid"]):
                found[name] = Container(told["host"], told["execution_id"], told["pid"])
        return found

    def all_run(self) -> dict[str, Container]:
        """All four, with nothing in flight or held any more."""

        def settled() -> dict[str, Container] | None:
            view = self.client.view()
            run = self.containers()
            quiet = not view.actions and not view.queued and len(run) == 4
            return run if quiet and _running(view.processors) else None

        return until("four containers run and nothing is in flight", settled, seconds=90)

    def _stream(self) -> list[tuple[bytes, bytes | None]]:
        return records_of(self.connection, self.connection.coordinator_stream_topic)


def _running(processors: object) -> bool:
    assert isinstance(processors, dict)
    return all(each.state == "running" for each in processors.values())


@contextlib.contextmanager
def staged(root: Path, **environment: str) -> Iterator[Stage]:
    """As `samza-dagster demo` does: Dagster starts as soon as the broker answers.

    It is under a path, as behind a proxy: what finds its way there does without one too.
    """
    options = replace(OPTIONS, name="browser", rate=50.0)
    sandbox = Sandbox(options.name, root=root)
    stacks: list[DagsterStack] = []
    failures: list[BaseException] = []

    def start(stack: DagsterStack) -> None:
        try:
            stack.start(timeout_s=240 * PACE)
        except BaseException as error:  # the test's own thread raises it
            failures.append(error)

    def on_broker(servers: str) -> None:
        env = {
            **demo_job.environment(servers),
            "DAGSTER_WEBSERVER_PATH_PREFIX": "/dagster",
            "SAMZA_DAGSTER_AUTO_FAILOVER": "act",
            "SAMZA_DAGSTER_SENSOR_INTERVAL_S": str(round(5 * PACE)),
            **environment,
        }
        stacks.append(
            DagsterStack(sandbox.dagster_home, ROOT / "definitions.py", env=env, location=LOCATION)
        )
        starter.start()

    starter = threading.Thread(target=lambda: start(stacks[0]), daemon=True)
    try:
        sandbox.up(options, Phases(print), on_broker=on_broker)
        starter.join()
        if failures:
            raise failures[0]
        connection = demo_job.connection(str(sandbox.status()["bootstrap_servers"]))
        with PlacementClient(connection) as client:
            yield Stage(sandbox, stacks[0], connection, client)
    finally:
        for stack in stacks:
            stack.stop(timeout_s=10)
        if starter.ident is not None:
            starter.join()
        sandbox.down()
