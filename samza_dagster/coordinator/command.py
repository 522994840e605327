"""`samza-dagster coordinator run`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from samza_dagster.cluster.local import LocalAgents
from samza_dagster.configuration import variable
from samza_dagster.coordinator.job_process import JobFiles, JobProcess, job_files, stop_at_signals
from samza_dagster.coordinator.leadership import LeaderSettings, Leadership
from samza_dagster.coordinator.recording import JsonLinesRecorder
from samza_dagster.errors import InvalidInput


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


@click.command("run", cls=JobProcess, section="coordinator")
@job_files
@click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    required=True,
    help="The job's token, which agents send.",
)
@click.option(
    "--url-file",
    type=click.Path(path_type=Path),
    required=True,
    help="Where agents read this coordinator's URL.",
)
@click.option("--listen", default="127.0.0.1:0", show_default=True, help="Address for agents.")
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
    help="With --adopt: YARN's web address; nothing is adopted while it says that the application "
    "runs, or says nothing.",
)
@click.option(
    "--record-events",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Append what each term restored, and every event with the digest of the state after it.",
)
def run_command(
    config: Path,
    launch: Path,
    log_format: str,
    token_file: Path,
    url_file: Path,
    listen: str,
    lease: float | None,
    take_over: str,
    adopt: bool,
    yarn_resource_manager: str | None,
    record_events: Path | None,
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
    """
    # A missing extra is told now, and not at the first GET /metrics.

    files = JobFiles.read(config, launch, log_format, part="coordinator")
    connection = files.connection
    if yarn_resource_manager is not None:
        connection = replace(connection, yarn_resource_manager=yarn_resource_manager)
    leadership = Leadership(
        LeaderSettings(
            connection=connection,
            config=files.config,
            launch=files.launch,
            cluster=LocalAgents(url_file, _read_token(token_file), _address(listen)),
            lease_s=lease,
            take_over_now=take_over == "now",
            adopt=adopt,
        ),
        recorder=None if record_events is None else JsonLinesRecorder(record_events),
    )
    stop_at_signals(leadership.stop)
    leadership.run()
