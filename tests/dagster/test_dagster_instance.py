"""The embedded instance: accepted by Dagster, and its queue keeps one run per container group."""

from __future__ import annotations

import json
import re
import shlex
import threading
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
from dagster._daemon.daemon import SensorDaemon
from dagster._daemon.run_coordinator.queued_run_coordinator_daemon import (
    TagConcurrencyLimitsCounter,
)
from dagster_webserver.cli import dagster_webserver as webserver_cli

from samza_dagster.cli.main import cli
from samza_dagster.orchestration.deploy.instance import (
    CODE_SERVER_THREADS,
    POSTGRES_URL,
    instance_settings,
    names_storage,
    write_instance,
)
from samza_dagster.orchestration.deploy.run_coordinator import ContainerGroupRunCoordinator
from samza_dagster.orchestration.jobs import placement_jobs
from samza_dagster.orchestration.tags import job_tags, tags_from_run_config
from samza_dagster.sandbox.dagster_stack import PATIENCE

pytestmark = pytest.mark.dagster
DEPLOY = Path(__file__).resolve().parents[2] / "docs" / "operations" / "deploy.md"


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dg.DagsterInstance]:
    home = tmp_path_factory.mktemp("home")
    write_instance(home)
    with dg.DagsterInstance.from_config(str(home)) as made:
        yield made


def submit(instance: dg.DagsterInstance, run: dg.DagsterRun) -> dg.DagsterRun:
    """What the queue holds after submission."""
    return instance.run_coordinator.submit_run(dg.SubmitRunContext(run, workspace=None))  # pyright: ignore[reportArgumentType]


def submitted(instance: dg.DagsterInstance, **config: Any) -> dict[str, str]:
    """Tags of a run as the queue sees them, submitted without any given by hand."""
    job = next(j for j in placement_jobs("demo/1") if j.name == "move_container")
    run = instance.create_run_for_job(
        job,
        run_config={"ops": {"plan_move_container": {"config": config}}},
        tags=job_tags("demo/1", job.name),
        status=dg.DagsterRunStatus.STARTING,  # a new one needs a code location to be queued
    )
    return {k: v for k, v in submit(instance, run).tags.items() if k.startswith("samza/")}


def test_dagster_accepts_the_settings(instance: dg.DagsterInstance) -> None:
    """Limits, queue, sensors and monitoring as written; no telemetry."""
    assert isinstance(instance.run_coordinator, ContainerGroupRunCoordinator)
    queue = instance.get_concurrency_config().run_queue_config
    assert queue is not None
    assert next(iter(queue.tag_concurrency_limits)) == {
        "key": "samza/container-group",
        "value": {"applyLimitPerUniqueValue": True},
        "limit": 1,
    }
    assert instance.run_coordinator.dequeue_interval_seconds == 1
    assert not instance.telemetry_enabled
    assert not instance.nux_enabled
    assert instance.run_monitoring_enabled
    assert instance.get_sensor_settings()["use_threads"]
    assert instance.run_retries_enabled
    assert instance.run_retries_max_retries == 0


def test_a_run_is_queued_with_its_group_whoever_launched_it(instance: dg.DagsterInstance) -> None:
    """Nothing was tagged by hand: an active and its standby share the group's value."""
    tags = submitted(instance, processor="0-0", destination="host-1", reason="drain")
    assert tags["samza/container-group"] == "demo/1/0"
    assert tags["samza/why"] == "drain"
    assert (
        submitted(instance, processor="0", destination="host-2")["samza/container-group"]
        == tags["samza/container-group"]
    )


def test_a_tag_by_hand_does_not_hide_the_container(instance: dg.DagsterInstance) -> None:
    """The config decides what is touched, so it decides the limit."""
    job = next(j for j in placement_jobs("demo/1") if j.name == "restart_container")
    run = instance.create_run_for_job(
        job,
        run_config={"ops": {"plan_restart_container": {"config": {"processor": "1"}}}},
        tags={"samza/job": "demo/1", "samza/action": "x", "samza/container-group": "other"},
        status=dg.DagsterRunStatus.STARTING,
    )
    assert submit(instance, run).tags["samza/container-group"] == "demo/1/1"


def run_of(action: str, tags: dict[str, str] | None = None, **config: object) -> dg.DagsterRun:
    """A run as the queue sees it after submission."""
    given = {**job_tags("demo/1", action), **(tags or {})}
    run_config = {"ops": {"op": {"config": config}}}
    implied = tags_from_run_config(run_config, given, f"run of {config}")
    return dg.DagsterRun(action, run_config=run_config, tags={**given, **implied})


def test_what_asks_nothing_waits_for_nobody(instance: dg.DagsterInstance) -> None:
    """A dry run, and who acknowledges a failover; a second action waits."""
    queue = instance.get_concurrency_config().run_queue_config
    assert queue is not None
    busy = [run_of("move_via_new_standby", processor=str(n)) for n in range(8)]
    full = TagConcurrencyLimitsCounter(queue.tag_concurrency_limits, busy)
    for free in (
        run_of("acknowledge_failover", processor="0", reason="looked at"),
        run_of("move_container", processor="0", destination="host-1", dry_run=True),
        run_of("rolling_bounce", dry_run=True),
        run_of("drain_host", host="host-1", dry_run=True),
    ):
        assert not full.is_blocked(free), free.job_name
    assert full.is_blocked(run_of("restart_container", processor="9"))
    quiet = [run_of("rolling_bounce", dry_run=True)]
    calm = TagConcurrencyLimitsCounter(queue.tag_concurrency_limits, quiet)
    assert not calm.is_blocked(run_of("restart_container", processor="0"))
    assert not calm.is_blocked(run_of("rolling_bounce"))


def test_sixteen_jobs_whose_auto_failover_looks_leave_threads_for_all_other_sensors(
    instance: dg.DagsterInstance,
) -> None:
    """A calm tick of it lasts 18 s: what else is due, of each job, begins and ends meanwhile."""
    over, looking = threading.Event(), threading.Barrier(17)

    def look() -> None:
        looking.wait(30)
        over.wait(30)

    with SensorDaemon(instance.get_sensor_settings()) as daemon:
        pool = daemon._threadpool_executor
        assert pool is not None
        ticks = [pool.submit(look) for _ in range(16)]
        others = [pool.submit(str) for _ in range(4 * 16)]
        try:
            looking.wait(30)
            assert [other.result(30) for other in others] == [""] * 64
            assert not any(tick.done() for tick in ticks)
        finally:
            over.set()
            looking.abort()


def test_a_code_server_has_threads_beside_those_that_sensors_may_hold() -> None:
    """Runs are started by the same threads, and the web server asks them each second whether it lives."""
    assert instance_settings()["sensors"]["num_workers"] + 8 <= CODE_SERVER_THREADS


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
    assert written == instance_settings()
    assert names_storage(home)


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


def test_the_command_has_the_processes_of_runs_log_as_json(tmp_path: Path) -> None:
    """By the flag or by the variable that all parts heed; nothing else differs."""
    for name, given, variables in (
        ("flag", ["--log-format", "json"], {}),
        ("variable", [], {"SAMZA_DAGSTER_LOG_FORMAT": "json"}),
    ):
        arguments = ["instance", str(tmp_path / name), "--storage", "sqlite", *given]
        assert CliRunner().invoke(cli, arguments, env=variables).exit_code == 0
        written = yaml.safe_load((tmp_path / name / "dagster.yaml").read_text())
        assert written.pop("python_logs")["dagster_handler_config"]["handlers"].keys() == {"json"}
        assert written == instance_settings()


def test_the_command_keeps_what_somebody_has_changed(tmp_path: Path) -> None:
    """Its own file it writes again; another one only when told."""
    arguments = ["instance", str(tmp_path), "--storage", "sqlite"]
    assert CliRunner().invoke(cli, arguments).exit_code == 0
    assert CliRunner().invoke(cli, arguments).exit_code == 0
    (tmp_path / "dagster.yaml").write_text("telemetry: {enabled: true}\n")
    refused = CliRunner().invoke(cli, arguments)
    assert refused.exit_code == 2
    assert "--force" in refused.output
    assert not names_storage(tmp_path)
    assert CliRunner().invoke(cli, [*arguments, "--force"]).exit_code == 0
    assert yaml.safe_load((tmp_path / "dagster.yaml").read_text()) == instance_settings()
