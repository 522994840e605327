"""`samza-dagster processor run`: a standalone processor, coordinated over ZooKeeper."""

from __future__ import annotations

from pathlib import Path

import click

from samza_dagster.agent.metrics import address_of
from samza_dagster.cli.options import Target, json_option, target_options
from samza_dagster.cli.output import notice, print_json, print_table
from samza_dagster.cli.standalone_processor import Identity, StandaloneProcessor, state_dir_of
from samza_dagster.client.group_report import group_report, troubles
from samza_dagster.configuration import variable
from samza_dagster.coordinator.job_process import (
    JobFiles,
    JobProcess,
    job_files,
    stop_at_signals,
)
from samza_dagster.metadata.zookeeper import ZooKeeperAddress, connected
from samza_dagster.standalone.discovery import find_group
from samza_dagster.standalone.local_stores import unused_stores
from samza_dagster.standalone.zookeeper_group import ZooKeeperGroup

_zookeeper = click.option(
    "--zookeeper",
    envvar=variable("zookeeper"),
    metavar="HOST:PORT,…",
    help="Where ZooKeeper is; without, job.coordinator.zk.connect of the config says so. How to log in "
    "there is in the file that SAMZA_DAGSTER_ZOOKEEPER_CONFIG names.",
)


def _address(_: click.Context, __: click.Parameter, text: str | None) -> tuple[str, int] | None:
    try:
        return None if text is None else address_of(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


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


@processor.command("run", cls=JobProcess, section="processor")
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
    help="Where stores are kept over restarts, for all processors of this location [the config's "
    "job.logged.store.base.dir, else <directory>/state].",
)
@click.option(
    "--metrics-listen",
    callback=_address,
    metavar="HOST:PORT",
    help="Serve /metrics (OpenMetrics) at this address, without a token; by default nowhere.",
)
def run_command(
    config: Path,
    launch: Path,
    log_format: str,
    zookeeper: str | None,
    processor_id: str,
    location: str,
    directory: Path,
    state_dir: Path | None,
    metrics_listen: tuple[str, int] | None,
) -> None:
    """Runs one processor until SIGTERM: registers, leads when it is first, runs its tasks.

    Topics that the job needs beside its streams are made; one that is there and wrong is refused.

    \b
    Example:
      samza-dagster processor run --config job.properties --launch launch.json \\
        --zookeeper zk-1:2181 --processor-id p1 --directory /var/lib/samza-p1
    """
    files = JobFiles.read(config, launch, log_format, part="processor", processor=processor_id)
    stores = state_dir_of(files.config, state_dir, directory)
    identity = Identity(processor_id, location, directory.resolve(), stores.resolve())
    running = StandaloneProcessor(files, identity, zookeeper)
    if metrics_listen is not None:
        running.serve_metrics(metrics_listen)
    stop_at_signals(running.leave)
    running.run()


@processor.command("status")
@json_option
@target_options
def status_command(target: Target, as_json: bool) -> int:
    """Shows a group: who leads, what is agreed on, who has which tasks. 1 when something is wrong.

    \b
    Examples:
      samza-dagster processor status --config job.properties --zookeeper zk-1:2181
      samza-dagster processor status --job-name orders --json
    """
    connection = target.connection()
    address = ZooKeeperAddress(connection.zookeeper, settings=connection.zookeeper_config)
    with connected(address) as session:
        paths = find_group(session, connection.job_name, connection.job_id)
        report = group_report(ZooKeeperGroup(session, paths, lambda: None).view(None))
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
