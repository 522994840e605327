"""`samza-dagster coordinator run` and `coordinator end`."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from samza_dagster.cluster import agent_archive
from samza_dagster.cluster.interface import ClusterFactory
from samza_dagster.cluster.local import LocalAgents
from samza_dagster.cluster.yarn.factory import YarnAgents
from samza_dagster.cluster.yarn.hosts import YarnSettings
from samza_dagster.configuration import variable
from samza_dagster.coordinator.job_process import (
    JobFiles,
    JobProcess,
    config_option,
    job_files,
    launch_option,
    log_format_option,
    stop_at_signals,
)
from samza_dagster.coordinator.leadership import LeaderSettings, Leadership
from samza_dagster.coordinator.preview import preview
from samza_dagster.coordinator.recording import JsonLinesRecorder
from samza_dagster.coordinator.shadow.command import run_shadow
from samza_dagster.errors import InvalidInput
from samza_dagster.metadata.connection import Connection


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        raise InvalidInput("--listen", seen=repr(text), fix="--listen 127.0.0.1:0")
    return host, int(port)


def _read_token(path: Path) -> str:
    """The job's token; raises `InvalidInput` that names the file, never its content."""
    try:
        token = path.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise InvalidInput(
            f"read the token file {path}",
            seen=str(error),
            fix="name a file that holds the job's token",
        ) from error
    if len(token) < 16:
        raise InvalidInput(
            f"the token in {path}", seen=f"{len(token)} characters", fix="at least 16"
        )
    return token


_CLUSTER_OPTIONS = (
    click.option(
        "--cluster",
        type=click.Choice(["agents", "yarn"]),
        default="agents",
        show_default=True,
        help="Hosts where you start the agents, or YARN's nodes, where YARN starts them.",
    ),
    click.option(
        "--token-file",
        type=click.Path(path_type=Path),
        help="agents: the job's token, which they send.",
    ),
    click.option(
        "--url-file",
        type=click.Path(path_type=Path),
        help="agents: where they read this coordinator's URL.",
    ),
    click.option(
        "--listen",
        metavar="HOST:PORT",
        help="Address for agents [default: 127.0.0.1:0; yarn: this machine's name, any port].",
    ),
    click.option(
        "--hadoop-conf",
        type=click.Path(path_type=Path),
        metavar="DIR",
        help="yarn: the directory of yarn-site.xml.",
    ),
    click.option("--queue", default="default", show_default=True, help="yarn: the application's."),
    click.option("--node-label", default="", help="yarn: only nodes that have it."),
    click.option(
        "--node-directory",
        metavar="DIR",
        help="yarn: where an agent keeps its records on its node; {host} is the node's name.",
    ),
    click.option(
        "--node-state-directory",
        default="",
        metavar="DIR",
        help="yarn: where stores are on a node [default: below --node-directory].",
    ),
    click.option(
        "--node-python",
        default="python3",
        show_default=True,
        help="yarn: Python 3.8 or later on each node.",
    ),
    click.option(
        "--session-directory",
        default="",
        metavar="URI",
        help="yarn: where the next leader finds the application [default: `.samza-dagster`, in this "
        "user's home of Hadoop's file system].",
    ),
)


def _cluster_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_CLUSTER_OPTIONS):
        command = option(command)
    return command


def _cluster_of(
    connection: Connection,
    *,
    cluster: str,
    token_file: Path | None,
    url_file: Path | None,
    listen: str | None,
    **yarn: Any,
) -> ClusterFactory:
    if cluster == "agents":
        if token_file is None or url_file is None:
            raise click.UsageError("--cluster agents needs --token-file and --url-file")
        return LocalAgents(url_file, _read_token(token_file), _address(listen or "127.0.0.1:0"))
    if yarn["hadoop_conf"] is None or yarn["node_directory"] is None:
        raise click.UsageError("--cluster yarn needs --hadoop-conf and --node-directory")
    job = f"{connection.job_name}-{connection.job_id}"
    settings = YarnSettings(job, agent_archive.build().content, **yarn)
    return YarnAgents(settings, _address(listen or f"{socket.gethostname()}:0"))


@click.command("run", cls=JobProcess, section="coordinator")
@config_option
@launch_option(required=False)
@log_format_option
@_cluster_options
@click.option(
    "--lease",
    type=click.FloatRange(3, 86_400),
    help="Seconds that containers run on without a coordinator [config: samza.dagster.lease.ms].",
)
@click.option(
    "--take-over",
    type=click.Choice(["when-gone", "now"]),
    default="when-gone",
    show_default=True,
    help="Wait until no other coordinator leads this job, or end the one that does.",
)
@click.option(
    "--adopt",
    is_flag=True,
    help="Lead a job that Samza's own Application Master has deployed and that has ended: a new "
    "deployment is written over its config.",
)
@click.option(
    "--yarn-resource-manager",
    envvar=variable("yarn_resource_manager"),
    metavar="URL,…",
    help="YARN's web address. With --adopt nothing is adopted while it says that the application "
    "runs, or says nothing; with --shadow it tells hosts and containers.",
)
@click.option("--dry-run", is_flag=True, help="Tell what would start where, and write nothing.")
@click.option("--json", "as_json", is_flag=True, help="With --dry-run: print JSON.")
@click.option(
    "--record-events",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Append what each term restored, and every event with the digest of the state after it.",
)
@click.option(
    "--shadow",
    is_flag=True,
    help="Lead nothing: watch a job of Samza's own Application Master, and log what this coordinator "
    "would have done. Needs --config alone.",
)
@click.option(
    "--shadow-log",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="With --shadow: where its events are appended [default: shadow.jsonl beside --config].",
)
@click.pass_context
def run_command(
    context: click.Context,
    config: Path,
    launch: Path | None,
    log_format: str,
    lease: float | None,
    take_over: str,
    adopt: bool,
    yarn_resource_manager: str | None,
    dry_run: bool,
    as_json: bool,
    record_events: Path | None,
    shadow: bool,
    shadow_log: Path | None,
    **hosts: Any,
) -> None:
    """Coordinates one job: where its containers run, and every placement request.

    One leads; any other of the same job waits until it is gone. Another config than the
    running one begins a new deployment. A job that another coordinator has deployed, as Samza's
    own Application Master, is left to it unless --adopt is given. Topics that the job needs beside its
    streams are made; one that is there and wrong is refused. Containers aren't its children and don't notice
    when it goes and comes back.

    \b
    Examples:
      samza-dagster coordinator run --config job.properties --launch launch.json \\
        --token-file token --url-file coordinator.url
      samza-dagster coordinator run --config job.properties --launch launch.json \\
        --token-file token --url-file coordinator.url --take-over now
      samza-dagster coordinator run --config job.properties --launch launch.json \\
        --token-file token --url-file coordinator.url --adopt
      samza-dagster coordinator run --config job.properties --launch launch.json \\
        --cluster yarn --hadoop-conf /etc/hadoop/conf --node-directory /var/lib/samza-dagster
      samza-dagster coordinator run --config job.properties --shadow
    """
    if shadow:
        run_shadow(context, config, log_format, yarn_resource_manager, shadow_log)
        return
    if launch is None:
        raise click.UsageError("--launch is needed, unless with --shadow")
    files = JobFiles.read(config, launch, log_format, part="coordinator")
    connection = files.connection
    if yarn_resource_manager is not None:
        connection = replace(connection, yarn_resource_manager=yarn_resource_manager)
    settings = LeaderSettings(
        connection=connection,
        config=files.config,
        launch=files.launch,
        cluster=_cluster_of(connection, **hosts),
        lease_s=lease,
        take_over_now=take_over == "now",
        adopt=adopt,
    )
    if dry_run:
        _tell(settings, as_json=as_json)
        return
    leadership = Leadership(
        settings,
        recorder=None if record_events is None else JsonLinesRecorder(record_events),
    )
    stop_at_signals(leadership.stop)
    leadership.run()


_STEPS = {
    "runs": "goes on, on",
    "starts": "would start on",
    "later": "would start once its active runs, last seen on",
}


def _tell(settings: LeaderSettings, *, as_json: bool) -> None:
    """Print what would start where, by the topics and by the cluster's report of its hosts."""
    settings.cluster.require()
    hosts, limits = settings.cluster.describe(), settings.limits()
    advice = settings.cluster.advice(limits.lease_ms / 1000)
    found = preview(settings.connection, settings.config, limits)
    if as_json:
        click.echo(json.dumps({**found, "hosts": dict(hosts), "advice": list(advice)}))
        return
    click.echo(f"{'a new deployment' if found['new'] else 'goes on with'} {found['deployment']}")
    for each in found["containers"]:
        says = (
            f" ({hosts.get(each['host'], 'not there')})" if hosts and each["host"] != "any" else ""
        )
        click.echo(f"  {each['processor']}: {_STEPS[each['step']]} {each['host']}{says}")
    for host, words in sorted(hosts.items()):
        click.echo(f"  {host}: {words}")
    for line in advice:
        click.echo(f"  {line}")


@click.command("end", cls=JobProcess, section="coordinator")
@job_files
@_cluster_options
def end_command(config: Path, launch: Path, log_format: str, **hosts: Any) -> None:
    """Ends the job in order: takes over, stops every container, and gives back what YARN keeps for it.

    A coordinator that leads is ended first. State stays on the hosts and in the changelogs:
    `coordinator run` goes on from there. Exit code 1 where a container lives on.

    \b
    Examples:
      samza-dagster coordinator end --config job.properties --launch launch.json \\
        --token-file token --url-file coordinator.url
      samza-dagster coordinator end --config job.properties --launch launch.json \\
        --cluster yarn --hadoop-conf /etc/hadoop/conf --node-directory /var/lib/samza-dagster
    """
    files = JobFiles.read(config, launch, log_format, part="coordinator")
    if hosts["listen"] is not None:
        # The leader that is ended has the port until then.
        hosts["listen"] = f"{_address(hosts['listen'])[0]}:0"
    leadership = Leadership(
        LeaderSettings(
            connection=files.connection,
            config=files.config,
            launch=files.launch,
            cluster=_cluster_of(files.connection, **hosts),
            take_over_now=True,
            end_job=True,
        )
    )
    stop_at_signals(leadership.stop)
    leadership.run()
    click.echo(f"{leadership.ended} containers stopped: the job has ended")
