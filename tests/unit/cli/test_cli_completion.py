"""Completion in a shell: commands and options by themselves, processors and hosts of the job."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from click.shell_completion import ShellComplete

from samza_dagster.cli import completion
from samza_dagster.cli.main import cli
from samza_dagster.errors import Unreachable

pytestmark = pytest.mark.unit


def offered(*given: str, incomplete: str = "") -> list[str]:
    shell = ShellComplete(cli, {}, "samza-dagster", "_SAMZA_DAGSTER_COMPLETE")
    return [item.value for item in shell.get_completions(list(given), incomplete)]


def test_commands_and_options_are_offered() -> None:
    assert offered(incomplete="stat") == ["status"]
    assert "--watch" in offered("status", incomplete="--w")


def test_processors_and_hosts_are_those_of_the_job_that_is_named(
    commands: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the options before, or the environment."""
    monkeypatch.setattr(completion, "_WITHIN_S", 60.0)  # a busy machine is no matter of this test
    assert offered("place", "--job-name", "orders") == ["0", "0-0", "1", "1-0"]
    assert commands.targets[-1].job_name == "orders"
    assert offered("place", "0", "--to", incomplete="host-") == [f"host-{n}" for n in range(1, 5)]
    assert offered("place", "0", "--to", incomplete="LAST") == ["LAST_SEEN"]


def test_a_job_that_cant_be_asked_offers_nothing(
    commands: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither an error at the prompt nor a shell that hangs."""
    commands.error = Unreachable("read the job", seen="no broker answers")
    assert offered("place") == []
    monkeypatch.setattr(completion, "_WITHIN_S", 0.05)
    ends = threading.Event()
    monkeypatch.setattr(commands, "client", lambda _target: ends.wait(10))
    assert offered("explain") == []
    ends.set()
