"""The demo job with our coordinator on a real YARN, as tests look at it."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import urllib.request
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from samza_dagster.agent import procfs
from samza_dagster.client.placement_client import PlacementClient
from samza_dagster.cluster.yarn.gateway import class_path
from samza_dagster.model import StatusCode
from samza_dagster.sandbox import demo_job, process
from samza_dagster.sandbox.coordinator_process import ROLE as COORDINATOR
from samza_dagster.sandbox.launch import MAIN_CLASS
from samza_dagster.sandbox.lifecycle import OURS, Options, Sandbox
from samza_dagster.sandbox.ports import LOOPBACK, free_ports
from samza_dagster.sandbox.process import ProcessRecord
from samza_dagster.sandbox.progress import Phases
from samza_dagster.sandbox.yarn import relay as relay_program
from samza_dagster.sandbox.yarn.cluster import YarnCluster
from samza_dagster.sandbox.yarn.namespace import RELAY
from samza_dagster.sandbox.yarn.processes import (
    NODE_DIRECTORY,
    java_processes,
    pids_of_executions,
)
from tests.rig.job import alive, parent_of, runs
from tests.rig.kernel_witness import KernelWitness
from tests.rig.pace import PACE
from tests.rig.sandbox_job import Container, SandboxJob
from tests.rig.waiting import until

OPTIONS = Options(name="ours-on-yarn", yarn=True, coordinator=OURS, state_mb=4.0, rate=200.0 / PACE)
CONTAINERS = 4
EXCLUDED = "excluded-nodes"
"""Below the sandbox's directory; the setting `yarn.resourcemanager.nodes.exclude-path` has to name it."""
_SERVERS = "org.apache.hadoop.yarn.server"
_NODE_MANAGER = f"{_SERVERS}.nodemanager.NodeManager"
_RESOURCE_MANAGER = f"{_SERVERS}.resourcemanager.ResourceManager"
_AGENT = f"agent/{demo_job.JOB_NAME}-{demo_job.JOB_ID}"


@contextlib.contextmanager
def ours_on_yarn(root: Path, **options: Any) -> Generator[Sandbox]:
    """2 actives, 2 standbys, 4 nodes, a steady load, `options` on top; standbys have caught up.

    It is ended by its record, as where whoever started it was killed. No process outlives it.
    """
    box = Sandbox(OPTIONS.name, root=root)
    box.up(replace(OPTIONS, **options), Phases(print))
    directory = box.directory / "yarn"
    try:
        yield box
    finally:
        started, ran = box.registry.live(), pids_of_executions(directory)
        Sandbox(OPTIONS.name, root=root).down()
    assert not [record for record in started if record.is_alive]
    # Each host's processes end with its first one, by the kernel.
    until("no container is left", lambda: not any(map(alive, ran.values())))
    assert pids_of_executions(directory) == {}


@contextlib.contextmanager
def witnessed(box: Sandbox) -> Generator[KernelWitness]:
    """The kernel's view of its containers; no two own one processor, or share a host within a group."""
    with closing(KernelWitness(box.directory / "yarn", _AGENT)) as witness:
        yield witness
        violations = [line for line in witness.journal() if line["what"] == "VIOLATION"]
        assert violations == []


@contextlib.contextmanager
def undisturbed(box: Sandbox) -> Generator[None]:
    """`witnessed`; in the end the same processes run, of the same application."""
    with witnessed(box):
        before, identifier = pids(box), application(box)["id"]
        yield
        assert pids(box) == before
        found = application(box)
        assert (found["id"], found["state"]) == (identifier, "RUNNING")


class JobOnYarn(SandboxJob):
    """The job of such a sandbox. Agents know processes by their ids on their hosts: these are of this machine."""

    def containers(self, hosts: Iterable[str]) -> list[Container]:
        """Those that live on these hosts, by the kernel, in their names' order."""
        wanted, found = set(hosts), list[Container]()
        for pid, environment in java_processes(MAIN_CLASS):
            state = Path(environment.get("LOGGED_STORE_BASE_DIR", "/"))
            host = state.parent.name
            if state.parent.parent != self.sandbox.directory / "yarn" or host not in wanted:
                continue
            processor = environment["SAMZA_CONTAINER_ID"]
            execution = environment["EXECUTION_ENV_CONTAINER_ID"]
            with contextlib.suppress(OSError):  # it has ended
                found.append(Container(host, processor, execution, parent_of(pid), pid))
        return sorted(found)


def cluster(box: Sandbox) -> YarnCluster:
    """Its YARN, to end parts of."""
    found = box.own_yarn.nodes.cluster
    assert found is not None
    return found


def processors(box: Sandbox) -> Mapping[str, Mapping[str, Any]]:
    """As the coordinator's status tells them, with the process ids of this machine."""
    return box.status()["processors"]


def pids(box: Sandbox) -> dict[str, int]:
    """Of each container, by its incarnation and the kernel; those that the coordinator says run."""
    running = {each["execution_id"] for each in processors(box).values()}
    return {
        execution: pid
        for execution, pid in pids_of_executions(box.directory / "yarn").items()
        if execution in running
    }


def all_run(box: Sandbox) -> bool:
    """By the coordinator's word and the kernel's, on hosts whose agents are heard."""
    facts = box.status()
    found = facts["processors"].values()
    return (
        len(found) == CONTAINERS
        and all(map(runs, found))
        and {each["state"] for each in facts["hosts"].values()} == {"alive"}
    )


def place(client: PlacementClient, processor: str, destination: str, seconds: float = 60) -> None:
    """Places and demands SUCCEEDED by then."""
    request = client.place(processor, destination, request_expiry_s=seconds * PACE)
    answer = client.wait(request.uuid, timeout_s=seconds * PACE)
    assert answer.status_code is StatusCode.SUCCEEDED, answer


def coordinator(box: Sandbox) -> ProcessRecord:
    """The one that runs."""
    (record,) = box.registry.live(COORDINATOR)
    return record


def coordinator_elsewhere(box: Sandbox, *options: str) -> ProcessRecord:
    """One more, at an address of its own that the sandbox asks from now on."""
    address = f"{LOOPBACK}:{free_ports(1)[0]}"
    through = box.directory / "yarn" / "namespace" / "elsewhere"
    nodes = box.own_yarn.nodes
    relay = (sys.executable, "-I", relay_program.__file__)
    outside, inside = f"{address}={through}", f"{through}={address}"
    for command in ((*relay, outside), nodes.inside((*relay, inside))):
        process.spawn(RELAY, command, log=through.with_suffix(".log"), on_spawn=box.registry.add)
    nodes.note(coordinator=address)
    return process.spawn(
        COORDINATOR,
        [*box.files.command, *options],
        log=box.files.log,
        environment=box.files.environment,
        on_spawn=box.registry.add,
    )


def hadoop_gateway(box: Sandbox) -> int:
    """The process id of the JVM through which the coordinator speaks with YARN."""
    (pid,) = hadoop_gateways(box)
    return pid


def hadoop_gateways(box: Sandbox) -> list[int]:
    """Those of all coordinators that run."""
    leaders = {record.pid for record in box.registry.live(COORDINATOR)}
    return [each.pid for each in procfs.all_processes() if each.ppid in leaders]


def decommission(box: Sandbox, *hosts: str, within_s: int = 600) -> None:
    """As an operator does, gracefully: these nodes take nothing more; without any, all do again.

    The ResourceManager reads them from the file that `EXCLUDED` names.
    """
    (box.directory / EXCLUDED).write_text("".join(f"{host}\n" for host in hosts))
    program = (
        *("java", "-cp", class_path(cluster(box).configuration)),
        *("org.apache.hadoop.yarn.client.cli.RMAdminCLI", "-refreshNodes", "-g", str(within_s)),
        "-server",
    )
    asked = subprocess.run(
        box.own_yarn.nodes.inside(program),
        env=box.files.environment,
        capture_output=True,
        text=True,
        timeout=60 * PACE,
        check=False,
    )
    assert asked.returncode == 0, asked.stderr


def agents(box: Sandbox) -> dict[str, int]:
    """Host → process id of its agent, by the kernel; empty while one takes another's place."""
    found = list(every_agent(box))
    return dict(found) if len(dict(found)) == len(found) else {}


def node_managers(box: Sandbox) -> dict[str, int]:
    """Host → process id of its NodeManager, by the kernel."""
    return {Path(its[NODE_DIRECTORY]).name: pid for pid, its in _java(box, _NODE_MANAGER)}


def resource_managers(box: Sandbox) -> list[int]:
    """The process id of the ResourceManager, if it runs."""
    return [pid for pid, _ in _java(box, _RESOURCE_MANAGER)]


def _java(box: Sandbox, main_class: str) -> Iterator[tuple[int, dict[str, str]]]:
    for pid, environment in java_processes(main_class):
        if Path(environment.get(NODE_DIRECTORY, "/")).parent == box.directory / "yarn":
            yield pid, environment


def every_agent(box: Sandbox) -> Iterator[tuple[str, int]]:
    """Host and process id of each agent."""
    mark = f"{NODE_DIRECTORY}={box.directory / 'yarn'}/".encode()
    for each in procfs.all_processes():
        try:
            words = Path(f"/proc/{each.pid}/cmdline").read_bytes().split(b"\0")
            environment = Path(f"/proc/{each.pid}/environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"agent.pyz" in words and b"--hold" not in words:
            yield from (
                (variable.removeprefix(mark).decode(), each.pid)
                for variable in environment
                if variable.startswith(mark)
            )


def free_host(box: Sandbox, group: str, hosts: Collection[str] = ()) -> str:
    """A host, of `hosts` if there are any, without a container of the group."""
    taken = {each["host"] for name, each in processors(box).items() if name.split("-")[0] == group}
    return next(h.name for h in box.hosts if h.name not in taken and (not hosts or h.name in hosts))


def application(box: Sandbox) -> dict[str, Any]:
    """The newest application, by the ResourceManager; empty while that hasn't recovered it."""
    found = applications(box)
    return found[-1] if found else {}


def running(box: Sandbox) -> int:
    """How many containers the newest application has, by the ResourceManager."""
    return application(box)["runningContainers"]


def applications(box: Sandbox) -> list[dict[str, Any]]:
    """All of them, in the order of their submission, by the ResourceManager."""
    url = f"{cluster(box).url}/ws/v1/cluster/apps"
    with urllib.request.urlopen(url, timeout=10) as answer:
        found = json.load(answer)["apps"].get("app", [])
    return sorted(found, key=lambda each: each["id"])


def node_states(box: Sandbox) -> set[str]:
    """Those of its nodes, by the ResourceManager; empty while no node is back after its restart."""
    return {node.state for node in cluster(box).state().nodes.values()}


def node_state(box: Sandbox, host: str) -> str:
    """That of one node; empty for one that the ResourceManager hasn't heard of."""
    found = cluster(box).state().nodes.get(host)
    return found.state if found else ""
