"""The embedded instance: accepted by Dagster, and its queue keeps one run per container group."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import dagster as dg
import pytest
import yaml
from click.testing import CliRunner
from dagster._cli import cli as dagster_cli
from dagster._daemon.cli import cli as daemon_cli
from dagster._daemon.run_coordinator.queued_run_coordinator_daemon import (
    TagConcurrencyLimitsCounter,
)
from dagster_webserver.cli import dagster_webserver as webserver_cli

from samza_dagster.cli.main import cli
from samza_dagster.orchestration.instance import POSTGRES_URL, instance_text, write_instance
from samza_dagster.orchestration.jobs import placement_jobs
from samza_dagster.orchestration.tags import GROUP, SLOT
from samza_dagster.sandbox.dagster_stack import CODE_SERVER_THREADS, PATIENCE

pytestmark = pytest.mark.dagster
DEPLOY = Path(__file__).resolve().parents[2] / "docs" / "operations" / "deploy.md"


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dg.DagsterInstance]:
    home = tmp_path_factory.mktemp("home")
    write_instance(home)
    with dg.DagsterInstance.from_config(str(home)) as made:
        yield made


def test_dagster_accepts_the_settings(instance: dg.DagsterInstance) -> None:
    """Its own parts, and limits on our tags."""
    assert type(instance.run_coordinator) is dg.QueuedRunCoordinator
    assert type(instance.run_launcher) is dg.DefaultRunLauncher
    queue = instance.get_concurrency_config().run_queue_config
    assert queue is not None
    assert [limit["key"] for limit in queue.tag_concurrency_limits] == [GROUP, SLOT]
    assert instance.run_monitoring_enabled
    assert instance.run_retries_enabled
    assert instance.run_retries_max_retries == 0
    assert not instance.telemetry_enabled


def test_the_page_has_the_lines_that_are_written() -> None:
    """Whoever has a dagster.yaml takes from there what it lacks."""
    lines = instance_text("postgres")
    assert yaml.safe_load(lines) in [
        yaml.safe_load(block)
        for block in re.findall(
            r"^```yaml\n(.*?)^```", DEPLOY.read_text(), re.MULTILINE | re.DOTALL
        )
    ]


def placed(action: str, partition: str) -> dg.DagsterRun:
    """A run as the queue sees it, of a partition that was chosen in the Launchpad."""
    job = next(job for job in placement_jobs("demo/1") if job.name == action)
    return dg.DagsterRun(action, tags=job.get_tags_for_partition_key(partition, None))


def test_the_queue_has_one_run_of_a_container_group_at_a_time(instance: dg.DagsterInstance) -> None:
    """An active and its standby are one group; a host that is drained is another."""
    queue = instance.get_concurrency_config().run_queue_config
    assert queue is not None
    busy = [placed("restart_container", "0"), placed("drain_host", "host-1")]
    counted = TagConcurrencyLimitsCounter(queue.tag_concurrency_limits, busy)
    assert counted.is_blocked(placed("move_container", "0-0"))
    assert counted.is_blocked(placed("drain_host", "host-1"))
    assert not counted.is_blocked(placed("move_container", "1"))
    full = [placed("restart_container", str(n)) for n in range(8)]
    counted = TagConcurrencyLimitsCounter(queue.tag_concurrency_limits, full)
    assert counted.is_blocked(placed("move_container", "9"))


UNIT = re.compile(r"^#? ?ExecStart=\S+/bin/(.+)$", re.MULTILINE)


def test_the_services_of_the_page_are_commands_that_there_are() -> None:
    """Each flag is one that the command knows, and the code server has its threads."""
    parsed: dict[str, dict[str, Any]] = {}
    roots = {
        "dagster": dagster_cli,
        "dagster-webserver": webserver_cli,
        "dagster-daemon": daemon_cli,
    }
    for line in UNIT.findall(DEPLOY.read_text()):
        name, *arguments = shlex.split(line)
        command: click.Command = roots[name]
        while isinstance(command, click.Group):
            command = command.commands[arguments.pop(0)]
        parsed[name] = command.make_context(name, arguments).params
    assert parsed.keys() == roots.keys()
    assert parsed["dagster"]["max_workers"] == CODE_SERVER_THREADS


def test_the_page_gives_a_launch_and_a_tick_the_time_that_the_sandbox_gives_them() -> None:
    """By Dagster's default a worker that imports for more than a minute fails its run."""
    given = dict(
        re.findall(r"^(DAGSTER_\w*TIMEOUT_SECONDS)=(\d+)$", DEPLOY.read_text(), re.MULTILINE)
    )
    assert given == PATIENCE


def test_an_existing_home_is_made_where_needed(tmp_path: Path) -> None:
    """The first start has no directory yet."""
    assert write_instance(tmp_path / "a" / "b").is_file()


def test_the_command_writes_an_instance_on_postgres(tmp_path: Path) -> None:
    """The address stays in the environment; everything else is as on SQLite."""
    home = tmp_path / "home"
    assert CliRunner().invoke(cli, ["instance", str(home)]).exit_code == 0
    written = yaml.safe_load((home / "dagster.yaml").read_text())
    assert written.pop("storage") == {"postgres": {"postgres_url": {"env": POSTGRES_URL}}}
    assert written == yaml.safe_load(instance_text())


def test_the_command_answers_in_json(tmp_path: Path) -> None:
    """What it wrote; and that it couldn't, as when a file is where the directory should be."""
    given = ["instance", str(tmp_path / "home"), "--storage", "sqlite", "--json"]
    done = CliRunner().invoke(cli, given)
    assert done.exit_code == 0
    path = tmp_path / "home" / "dagster.yaml"
    assert json.loads(done.stdout) == {
        "home": str(tmp_path / "home"),
        "path": str(path),
        "storage": "sqlite",
    }
    for home in (path, path / "below"):
        refused = CliRunner().invoke(cli, ["instance", str(home), "--json"])
        assert refused.exit_code == 2
        assert json.loads(refused.stdout)["error"]
    path.write_bytes(b"\xff")
    refused = CliRunner().invoke(cli, given)
    assert "--force" in json.loads(refused.stdout)["fix"]


def test_the_command_keeps_what_somebody_has_changed(tmp_path: Path) -> None:
    """Its own file it writes again; another one only when told."""
    arguments = ["instance", str(tmp_path), "--storage", "sqlite"]
    assert CliRunner().invoke(cli, arguments).exit_code == 0
    assert CliRunner().invoke(cli, arguments).exit_code == 0
    (tmp_path / "dagster.yaml").write_text("telemetry: {enabled: true}\n")
    refused = CliRunner().invoke(cli, arguments)
    assert refused.exit_code == 2
    assert "--force" in refused.output
    assert CliRunner().invoke(cli, [*arguments, "--force"]).exit_code == 0
    assert (tmp_path / "dagster.yaml").read_text() == instance_text()
