"""Containers of a YARN on this machine, as the kernel shows them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from samza_dagster.sandbox.yarn import processes as module
from samza_dagster.sandbox.yarn.processes import containers, pids_of_executions

pytestmark = pytest.mark.unit

COMMAND = "/usr/bin/java\0-Xmx96m\0org.apache.samza.runtime.LocalContainerRunner\0"


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Processes are started in the order of their ids."""
    monkeypatch.setattr(module, "_started", lambda pid: pid)
    (tmp_path / "proc").mkdir()
    return tmp_path / "proc"


def start(proc: Path, pid: int, command: str = COMMAND, **environment: str) -> None:
    (proc / str(pid)).mkdir()
    (proc / str(pid) / "cmdline").write_text(command)
    text = "".join(f"{key}={value}\0" for key, value in environment.items())
    (proc / str(pid) / "environ").write_text(text)


def of(
    host: str, processor_id: str, execution_id: str = "container_1", below: str = "/y"
) -> dict[str, str]:
    return {
        "SAMZA_DAGSTER_NODE_DIRECTORY": os.path.join(below, host),
        "SAMZA_CONTAINER_ID": processor_id,
        "CONTAINER_ID": execution_id,
    }


def test_a_container_is_on_the_host_whose_directory_it_was_given(proc: Path) -> None:
    start(proc, 7, **of("host-2", "0-0"))
    assert containers(Path("/y"), proc) == {
        "0-0": {
            "state": "running",
            "host": "host-2",
            "pid": 7,
            "pids": [7],
            "execution_id": "container_1",
            "mode": "Standby",
        }
    }


def test_of_two_processes_with_one_id_both_show(proc: Path) -> None:
    start(proc, 7, **of("host-1", "0", "container_1"))
    start(proc, 9, **of("host-3", "0", "container_2"))
    (found,) = containers(Path("/y"), proc).values()
    assert (found["host"], found["pids"], found["execution_id"]) == (
        "host-3",
        [7, 9],
        "container_2",
    )


def test_other_sandboxes_and_other_processes_dont(proc: Path) -> None:
    start(proc, 7, **of("host-1", "0", below="/another"))
    start(
        proc,
        8,
        "bash\0-c\0exec java org.apache.samza.runtime.LocalContainerRunner\0",
        **of("host-1", "0"),
    )
    start(
        proc,
        9,
        "/usr/bin/java\0org.apache.samza.clustermanager.ClusterBasedJobCoordinatorRunner\0",
        **of("host-1", ""),
    )
    (proc / "10").mkdir()  # it ended while it was looked at
    assert containers(Path("/y"), proc) == {}


def test_those_of_our_agents_are_known_by_execution_id(proc: Path) -> None:
    """Each by the process id outside of its host; another sandbox's and what is no container aren't among them."""
    state = {"LOGGED_STORE_BASE_DIR": "/y/host-1/state"}
    start(proc, 7, **state, EXECUTION_ENV_CONTAINER_ID="job-1-0-000001")
    start(proc, 8, **state)
    start(
        proc,
        9,
        EXECUTION_ENV_CONTAINER_ID="job-1-0-000002",
        LOGGED_STORE_BASE_DIR="/z/host-1/state",
    )
    start(proc, 10, "python3\0agent.pyz\0", **state, EXECUTION_ENV_CONTAINER_ID="job-1-0-000003")
    assert pids_of_executions(Path("/y"), proc) == {"job-1-0-000001": 7}
