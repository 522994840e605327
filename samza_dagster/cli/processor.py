"""`samza-dagster processor run`: a standalone processor, coordinated over ZooKeeper."""

from __future__ import annotations

import os
from pathlib import Path

import click

from samza_dagster.agent.protocol import Launch
from samza_dagster.assignment import by_locality, grouper_of, replicas_from_config
from samza_dagster.cli.options import json_option
from samza_dagster.cli.output import notice, print_json, print_table
from samza_dagster.coordinator import deployment
from samza_dagster.coordinator.fencing.group_fence import GroupFence
from samza_dagster.coordinator.fencing.job_fencing import JobFencing
from samza_dagster.coordinator.job_process import (
    JobFiles,
    config_option,
    job_files,
    stop_at_signals,
)
from samza_dagster.coordinator.kafka import partition_counts
from samza_dagster.coordinator.launch import Launcher
from samza_dagster.coordinator.limits import parks_starts
from samza_dagster.errors import InvalidInput
from samza_dagster.metadata import KafkaCluster
from samza_dagster.metadata.connection import ZOOKEEPER, read_properties, zookeeper_config_of
from samza_dagster.metadata.zookeeper import ZooKeeperAddress, connect
from samza_dagster.model import JobModel
from samza_dagster.standalone.containers import Containers
from samza_dagster.standalone.job_config import publish_config
from samza_dagster.standalone.job_plan import JobPlan
from samza_dagster.standalone.layout import GroupPaths
from samza_dagster.standalone.local_stores import local_stores
from samza_dagster.standalone.locations import location_id
from samza_dagster.standalone.processor import Settings
from samza_dagster.standalone.report import group_report, troubles, unused_stores
from samza_dagster.standalone.runner import ProcessorRunner
from samza_dagster.standalone.zookeeper_group import ZooKeeperGroup
from samza_dagster.standalone.zookeeper_placement import placement_store

_zookeeper = click.option(
    "--zookeeper",
    metavar="HOST:PORT,…",
    help="Where ZooKeeper is [config: job.coordinator.zk.connect]. How to log in there is in the file that "
    "SAMZA_DAGSTER_ZOOKEEPER_CONFIG names.",
)


@click.group()
def processor() -> None:
    """A standalone processor: one of a group that ZooKeeper coordinates.

    Its tasks are asked for by the commands that serve a cluster too, with --zookeeper or a config
    that has job.coordinator.zk.connect: status, locality, lag, explain and place.

    \b
    Examples:
      samza-dagster processor run --help
      samza-dagster processor status --config job.properties --zookeeper zk-1:2181
      samza-dagster place "Partition 0" --to host-2 --config job.properties
      samza-dagster place p1 --to LAST_SEEN --config job.properties
    """


def settings_of(config: dict[str, str]) -> Settings:
    """The times of a job's config. Raises `InvalidInput` for one that is no number of milliseconds."""
    defaults = Settings()

    def time_ms(key: str, default: int) -> int:
        value = config.get(key, str(default)).strip()
        if not value.isascii() or not value.isdigit():
            raise InvalidInput(f"{key} in the job's config", seen=repr(value), fix="milliseconds")
        return int(value)

    session_ms = time_ms("job.coordinator.zk.session.timeout.ms", defaults.session_ms)
    return Settings(
        debounce_ms=time_ms("job.debounce.time.ms", defaults.debounce_ms),
        consensus_ms=time_ms("job.coordinator.zk.consensus.timeout.ms", defaults.consensus_ms),
        session_ms=session_ms,
        probe_ms=time_ms("samza.dagster.standalone.probe.ms", defaults.probe_ms),
        stop_ms=session_ms // 3,
    )


@processor.command("run")
@job_files
@_zookeeper
@click.option("--processor-id", required=True, help="Its id, which no other of the group has.")
@click.option(
    "--location",
    default="host",
    show_default=True,
    help="Where it is: host, env:NAME, file:PATH, kubernetes, or several with + between.",
)
@click.option(
    "--directory",
    type=click.Path(path_type=Path),
    required=True,
    help="Its records; one processor each.",
)
@click.option(
    "--state-dir",
    type=click.Path(path_type=Path),
    help="Where stores are kept over restarts, for all processors of this location [<directory>/state].",
)
def run_command(
    config: Path,
    launch: Path,
    zookeeper: str | None,
    processor_id: str,
    location: str,
    directory: Path,
    state_dir: Path | None,
) -> None:
    """Runs one processor until SIGTERM: registers, leads when it is first, runs its tasks.

    \b
    Example:
      samza-dagster processor run --config job.properties --launch launch.json \\
        --zookeeper zk-1:2181 --processor-id p1 --directory /var/lib/samza-p1
    """
    connection, properties, template = JobFiles.read(config, launch)
    settings = settings_of(properties)
    systems = deployment.input_topics(properties)
    cluster = KafkaCluster.of(connection)
    counts = partition_counts(cluster, systems)
    replicas = replicas_from_config(properties)
    fencing = JobFencing.of({**properties, **deployment.restore_safety(properties, replicas)})
    fencing.begin_examination(cluster)
    fence = fencing.principals and GroupFence(fencing.principals, cluster, directory.resolve())
    here = location_id(location)
    fencing.require()
    session = connect(
        ZooKeeperAddress(
            zookeeper or connection.zookeeper,
            settings.session_ms / 1_000,
            connection.zookeeper_config,
        )
    )
    paths = GroupPaths.of(properties)
    publish_config(placement_store(session, paths), fencing.config)
    failures: list[str] = []

    def launch_of(model: JobModel, container_id: str, execution_id: str) -> Launch | None:
        launcher = Launcher(template, connection.job_name, connection.job_id, model)
        made = launcher.launch(container_id, execution_id)
        return made and Launch(
            made.execution_id,
            made.processor_id,
            made.command,
            dict(made.environment),
            made.job_model_json,
            made.store_directories,
            made.stop_grace_s,
            dict([fence.login_file()] if fence else []),
        )

    def fail(why: str) -> None:
        failures.append(why)
        runner.leave()

    def start_anew() -> None:
        runner.start_anew()

    stores_dir = (state_dir or directory / "state").resolve()
    work = Containers(
        directory.resolve(),
        stores_dir,
        here,
        config=fencing.config,
        launch_of=launch_of,
        on_failure=fail,
        parks=parks_starts(properties),
        on_outlived=start_anew,
    )
    if fence is not None:
        fence.remove_own()
    runner = ProcessorRunner(
        session,
        paths,
        processor_id=processor_id,
        location=here,
        settings=settings,
        grouper=JobPlan(counts, systems, replicas, grouper_of(properties, by_locality)).model,
        work=work,
        stores_of=lambda locality: local_stores(stores_dir, properties, locality, here),
        fence=fence,
    )
    stop_at_signals(runner.leave)
    try:
        runner.run()
    finally:
        work.close()
        if fence is not None:
            fence.remove_own()
            fence.close()
        session.stop()
        session.close()
    if failures:
        raise click.ClickException("; ".join(failures))


@processor.command("status")
@config_option
@_zookeeper
@json_option
def status_command(config: Path, zookeeper: str | None, as_json: bool) -> int:
    """Shows a group: who leads, what is agreed on, who has which tasks. 1 when something is wrong.

    \b
    Examples:
      samza-dagster processor status --config job.properties --zookeeper zk-1:2181
      samza-dagster processor status --config job.properties --json
    """
    properties = read_properties(config, "the job's config")
    hosts = (
        zookeeper or properties.get("job.coordinator.zk.connect") or os.environ.get(ZOOKEEPER, "")
    )
    paths = GroupPaths.of(properties)
    session = connect(ZooKeeperAddress(hosts, settings=zookeeper_config_of(os.environ)))
    try:
        report = group_report(ZooKeeperGroup(session, paths, lambda: None).view(None))
    finally:
        session.stop()
        session.close()
    wrong = troubles(report)
    if as_json:
        print_json({**report, "troubles": wrong})
        return 1 if wrong else 0
    print_table(
        f"{paths.root}: version {report['version']}, agreed on {report['agreed']}",
        ("processor", "location", "leads", "silent s", "active tasks", "standby tasks"),
        [
            (
                row["processor_id"],
                row["location"],
                "yes" if row["leads"] else "",
                "" if row["silent_ms"] is None else f"{row['silent_ms'] / 1_000:.1f}",
                ", ".join(row["active_tasks"]),
                ", ".join(row["standby_tasks"]) if row["holds_standbys"] else "Samza's own: none",
            )
            for row in report["processors"]
        ],
        spare=("standby tasks", "active tasks"),
    )
    for row in report["processors"]:
        for line in unused_stores(row["processor_id"], row["unused_stores"]):
            notice(line)
    for line in wrong:
        notice(line)
    return 1 if wrong else 0
