"""What an agent is told to run for one incarnation."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from samza_dagster.coordinator.launch import Launcher, LaunchTemplate
from samza_dagster.errors import InvalidInput
from samza_dagster.sandbox.demo_job import job_model

pytestmark = pytest.mark.unit


def command_of(processor_id: str, **template: int) -> tuple[str, ...]:
    """As launched for a processor of the demo."""
    model = job_model("127.0.0.1:9092")
    launcher = Launcher(LaunchTemplate(command=("java", "Main"), **template), "job", "1", model)
    launch = launcher.launch(processor_id, "job-1-x-000001")
    assert launch is not None
    return launch.command


def test_standbys_yield_the_processor_to_actives_where_the_template_says_so() -> None:
    """`nice` becomes the container: no shell, one process."""
    assert command_of("0-0", standby_niceness=10) == ("nice", "-n", "10", "java", "Main")
    assert command_of("0", standby_niceness=10) == ("java", "Main")


def test_all_containers_are_alike_unless_the_template_says_otherwise() -> None:
    """No surprise for a host that has room for all."""
    assert command_of("0-0") == command_of("0") == ("java", "Main")


def test_what_is_launched_ahead_is_the_same_program() -> None:
    """A parked process is used by a start with the same command alone."""
    template = LaunchTemplate(command=("java", "Main"), standby_niceness=5)
    launcher = Launcher(template, "job", "1", job_model("127.0.0.1:9092"))
    ahead, start = launcher.ahead("0-0", "e-1"), launcher.launch("0-0", "e-1")
    assert ahead is not None
    assert start is not None
    assert ahead.command == start.command


@pytest.mark.parametrize(
    "command",
    [
        ("sh", "-c", "sleep 41; true"),
        ("/bin/bash", "-lc", "java Main"),
        ("dash", "-e", "-c", "java Main; executed=1"),
    ],
)
def test_a_shell_that_would_outlive_its_warden_beside_the_jvm_is_refused(
    command: tuple[str, ...], tmp_path: Path
) -> None:
    """The kernel ends the warden's child alone: killed with the agent, it leaves the JVM behind."""
    path = tmp_path / "launch.json"
    path.write_text(json.dumps({"command": command}))
    with pytest.raises(InvalidInput, match=r"field command: .*exec") as raised:
        LaunchTemplate.read(path)
    assert str(path) in raised.value.asked


@pytest.mark.parametrize(
    "command",
    [
        ("java", "-c", "Main"),
        ("sh", "-c", "exec java Main"),
        ("bash", "-c", "ulimit -n 9999 && exec java Main"),
        ("/opt/orders/bin/run-class.sh", "Main"),
        ("sh", "/opt/orders/bin/run-class.sh", "-c", "Main"),
    ],
)
def test_a_shell_that_becomes_the_jvm_is_none(command: tuple[str, ...], tmp_path: Path) -> None:
    """What a script file does isn't known: that it execs is the rule that it keeps."""
    path = tmp_path / "launch.json"
    path.write_text(json.dumps({"command": command}))
    assert LaunchTemplate.read(path).command == command
