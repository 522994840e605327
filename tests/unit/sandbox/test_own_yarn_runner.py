"""A sandbox with our coordinator on YARN, by its record alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from samza_dagster.coordinator.launch import LaunchTemplate
from samza_dagster.errors import Refused, Unreachable
from samza_dagster.sandbox.lifecycle import OURS, SAMZAS, Options, Sandbox
from samza_dagster.sandbox.yarn.runner import OwnYarnRunner, YarnRunner

pytestmark = pytest.mark.unit

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
