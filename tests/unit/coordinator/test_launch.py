"""What an agent is told to run for one incarnation."""

from __future__ import annotations

import pytest

from samza_dagster.coordinator.launch import Launcher, LaunchTemplate
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
