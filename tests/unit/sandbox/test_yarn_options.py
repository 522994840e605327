"""A sandbox on YARN: its options, its containers, and our coordinator there."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from samza_dagster.coordinator.launch import LaunchTemplate
from samza_dagster.errors import Refused, Unreachable
from samza_dagster.sandbox import demo_job
from samza_dagster.sandbox.lifecycle import OURS, SAMZAS, Options, Sandbox
from samza_dagster.sandbox.ports import free_ports
from samza_dagster.sandbox.yarn import processes as module
from samza_dagster.sandbox.yarn.cluster import YarnCluster
from samza_dagster.sandbox.yarn.job import YarnJob
from samza_dagster.sandbox.yarn.processes import containers, pids_of_executions
from samza_dagster.sandbox.yarn.runner import OwnYarnRunner, YarnRunner

pytestmark = pytest.mark.unit


def test_a_host_that_doesnt_run_cant_be_lost(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="host-9"):
        Sandbox("some", root=tmp_path).yarn.lose("host-9")


@pytest.mark.parametrize(
    ("parts", "told"),
    [
        ({}, {}),
        (
            {"resource_manager": "http://here:1", "application": "application_1_0001"},
            {"yarn_resource_manager": "http://here:1"},
        ),
        ({"resource_manager": "http://here:1"}, {}),
        ({"zookeeper": "here:2"}, {"deployment": "standalone", "zookeeper": "here:2"}),
    ],
)
def test_its_dagster_asks_its_own_resource_manager_or_zookeeper(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parts: dict[str, str], told: dict[str, str]
) -> None:
    """One whose coordinator is ours has neither."""
    box = Sandbox("some", root=tmp_path)
    facts: dict[str, Any] = {
        **box.status(),
        "bootstrap_servers": "127.0.0.1:9092",
        "hosts": {"host-1": {}},
        **parts,
    }
    monkeypatch.setattr(box, "status", lambda: facts)
    box.dagster(free_ports(1)[0])
    component = json.loads((box.dagster_home / "samza_job.yaml").read_text())
    kinds = ("yarn_resource_manager", "deployment", "zookeeper")
    assert {k: v for k, v in component["attributes"].items() if k in kinds} == told


def test_settings_stand_above_what_the_sandbox_sets_itself(tmp_path: Path) -> None:
    """Its own, as the reports once a minute, stand above those of the demo's job."""
    cluster = YarnCluster(tmp_path, ["host-1"], servers="here:1")
    config = demo_job.job_config("here:1")
    count, interval = "cluster-manager.container.retry.count", "metrics.reporter.snapshot.interval"
    assert YarnJob(cluster, config, {}).config[count] == "8"
    job = YarnJob(cluster, config, {count: "60"})
    assert (job.config[count], job.config[interval]) == ("60", "60")


# Containers of a YARN on this machine, as the kernel shows them.

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


# A sandbox with our coordinator on YARN, by its record alone.

RECORD = {"coordinator": "127.0.0.1:10001", "configuration": "/c", "hosts_file": "/h"}


@pytest.fixture
def box(tmp_path: Path) -> Sandbox:
    box = Sandbox("some", root=tmp_path)
    box.registry.update(options={"yarn": True, "coordinator": OURS}, hosts=["host-1"], yarn=RECORD)
    return box


def test_without_yarn_there_is_no_choice_of_the_coordinator() -> None:
    with pytest.raises(Refused, match="--yarn"):
        Options(coordinator=OURS)


@pytest.mark.parametrize(
    ("options", "under_samza", "fenced"),
    [
        (Options(), False, True),
        (Options(yarn=True), True, False),
        (Options(yarn=True, coordinator=OURS), False, True),
        (Options(yarn=True, coordinator=OURS, fencing="lease"), False, False),
    ],
)
def test_containers_log_in_wherever_our_coordinator_fences_them(
    options: Options, under_samza: bool, fenced: bool
) -> None:
    assert (options.is_under_samza, options.is_fenced) == (under_samza, fenced)


def test_the_record_names_the_runner(box: Sandbox) -> None:
    """Also one that was written before there was a choice."""
    assert isinstance(box.runner, OwnYarnRunner)
    assert box.files is box.runner.files
    for options in ({"yarn": True, "coordinator": SAMZAS}, {"yarn": True}):
        box.registry.update(options=options)
        assert isinstance(box.runner, YarnRunner)


def test_the_coordinator_is_told_where_yarn_is_and_where_nodes_keep_things(box: Sandbox) -> None:
    """`{host}` is for the coordinator to fill in; no file of a URL or a token is shared with agents."""
    words = box.files.arguments
    said = dict(zip(words[::2], words[1::2], strict=True))
    assert said["--cluster"] == "yarn"
    assert said["--listen"] == "127.0.0.1:10001"
    assert said["--hadoop-conf"] == "/c"
    assert said["--node-directory"] == str(box.directory / "yarn" / "{host}" / "agent")
    (host,) = box.hosts
    assert said["--node-state-directory"].format(host=host.name) == str(host.state_directory)
    assert not {"--token-file", "--url-file"} & set(said)
    assert box.files.environment["JAVA_TOOL_OPTIONS"] == "-Djdk.net.hosts.file=/h"


def test_its_status_is_asked_with_the_token_of_its_session(box: Sandbox) -> None:
    """There is none before the coordinator has made one."""
    files = box.files
    files.write({"job.name": "some"}, LaunchTemplate(command=("true",), stop_grace_s=1.0))
    assert not files.token.exists()
    assert files.coordinator_url() == "http://127.0.0.1:10001"
    with pytest.raises(Unreachable, match="no session"):
        files.status()
    session = {"version": 1, "application": "a", "token": "t", "agents_token": "of agents"}
    (files.directory / "some-1.session").write_text(json.dumps(session))
    assert files.read_token() == "of agents"


def test_a_container_log_is_in_the_directory_of_the_jobs_agent(box: Sandbox) -> None:
    (host,) = box.hosts
    log = host.directory / "agent/samza-dagster-demo-1/incarnations/e-1/container.log"
    log.parent.mkdir(parents=True)
    log.write_text("restored")
    assert box.runner.container_log(host, "e-1") == "restored"


def test_a_coordinator_needs_the_network_of_a_yarn_that_runs(box: Sandbox) -> None:
    with pytest.raises(Refused, match="network"):
        _ = box.files.command
