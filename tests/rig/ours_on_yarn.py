"""The demo job with our coordinator on a real YARN, as tests look at it."""

from __future__ import annotations

import contextlib
import json
import urllib.request
from collections.abc import Collection, Generator, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from samza_dagster.sandbox import demo_job
from samza_dagster.sandbox.lifecycle import OURS, Options, Sandbox
from samza_dagster.sandbox.progress import Phases
from samza_dagster.sandbox.yarn.cluster import YarnCluster
from samza_dagster.sandbox.yarn.processes import pids_of_executions
from tests.rig.job import alive, runs
from tests.rig.kernel_witness import KernelWitness
from tests.rig.pace import PACE
from tests.rig.waiting import until

OPTIONS = Options(name="ours-on-yarn", yarn=True, coordinator=OURS, state_mb=4.0, rate=200.0 / PACE)
CONTAINERS = 4
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


def cluster(box: Sandbox) -> YarnCluster:
    """Its YARN, to end parts of."""
    found = box.own_yarn.nodes.cluster
    assert found is not None
    return found


def processors(box: Sandbox) -> Mapping[str, Mapping[str, Any]]:
    """As the coordinator's status tells them, with the process ids of this machine."""
    return box.status()["processors"]


def all_run(box: Sandbox) -> bool:
    """By the coordinator's word and the kernel's."""
    found = processors(box).values()
    return len(found) == CONTAINERS and all(map(runs, found))


def free_host(box: Sandbox, group: str, hosts: Collection[str] = ()) -> str:
    """A host, of `hosts` if there are any, without a container of the group."""
    taken = {each["host"] for name, each in processors(box).items() if name.split("-")[0] == group}
    return next(h.name for h in box.hosts if h.name not in taken and (not hosts or h.name in hosts))


def application(box: Sandbox) -> dict[str, Any]:
    """The one application, by the ResourceManager; empty while that hasn't recovered it."""
    url = f"{box.status()['resource_manager']}/ws/v1/cluster/apps"
    with urllib.request.urlopen(url, timeout=10) as answer:
        applications = json.load(answer)["apps"].get("app", [])
    return applications[0] if applications else {}


def node_states(box: Sandbox) -> set[str]:
    """Those of its nodes, by the ResourceManager; empty while no node is back after its restart."""
    return {node.state for node in cluster(box).state().nodes.values()}
