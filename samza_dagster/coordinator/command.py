"""`samza-dagster coordinator run`."""

from __future__ import annotations

import logging
import signal
from pathlib import Path

import click

from samza_dagster.coordinator.launch import LaunchTemplate
from samza_dagster.coordinator.leadership import Leadership, Settings, read_token
from samza_dagster.errors import InvalidInput
from samza_dagster.metadata.connection import Connection, read_properties


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        raise InvalidInput("--listen", seen=repr(text), fix="--listen 127.0.0.1:0")
    return host, int(port)


@click.command("run")
@click.option("--config", type=click.Path(path_type=Path), required=True, help="The job's config.")
@click.option(
    "--launch", type=click.Path(path_type=Path), required=True, help="How a container is started."
)
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
    type=click.FloatRange(5, 3600),
    default=120.0,
    show_default=True,
    help="Seconds that containers run on without a coordinator.",
)
def run_command(
    config: Path, launch: Path, token_file: Path, url_file: Path, listen: str, lease: float
) -> None:
    """Coordinates one job: where its containers run, and every placement request.

    It leads alone: a second coordinator of the same job takes over and ends this one.
    Containers aren't its children and don't notice when it goes and comes back.

    \b
    Example:
      samza-dagster coordinator run --config job.properties --launch launch.json \\
        --token-file token --url-file coordinator.url
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    leadership = Leadership(
        Settings(
            connection=Connection.from_properties(config),
            config=read_properties(config, "the job's config"),
            launch=LaunchTemplate.read(launch),
            token=read_token(token_file),
            url_file=url_file,
            listen=_address(listen),
            lease_s=lease,
        )
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: leadership.stop())
    leadership.run()
