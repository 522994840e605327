"""`samza-dagster snapshots`: the tables of a fleet, without Dagster."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NoReturn

import click

from samza_dagster.cli.options import Target, json_option, target_options
from samza_dagster.cli.output import busy, notice
from samza_dagster.client.group import known_jobs
from samza_dagster.errors import InvalidInput, Unreachable
from samza_dagster.metadata.job_owner import deployed_jobs
from samza_dagster.metadata.zookeeper import ZooKeeperAddress
from samza_dagster.model.naming import jobs_of, with_ids
from samza_dagster.snapshots import FleetSnapshot, Tables, Workers, take_fleet
from samza_dagster.snapshots.fleet import stream
from samza_dagster.snapshots.workers import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from samza_dagster.metadata import Connection


def _settings(
    _context: click.Context, _option: click.Parameter, values: Sequence[str]
) -> dict[str, str]:
    pairs = [one.partition("=") for one in values]
    wrong = [name for name, sign, _ in pairs if not (name and sign)]
    if wrong:
        raise click.BadParameter(f"{wrong[0]!r} isn't NAME=VALUE")
    return {name: value for name, _, value in pairs}


@click.group()
def snapshots() -> None:
    """Where everything of a fleet is, how far behind, and when ready: Delta tables, by Spark.

    \b
    Examples:
      samza-dagster snapshots stream --job 'orders/*'
      samza-dagster snapshots stream --once --json
    """


@snapshots.command("stream")
@click.option(
    "--job",
    "names",
    multiple=True,
    metavar="NAME/ID",
    help="A job, or a pattern of those that were deployed there ('orders-*/1'), of id 1 where none is"
    " given; several.",
)
@click.option(
    "--every",
    "every_s",
    type=click.FloatRange(min=0, max=86_400),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="From the beginning of a snapshot to that of the next.",
)
@click.option("--once", is_flag=True, help="Take one and end.")
@click.option(
    "--uri",
    default="",
    metavar="URI",
    help="Where the Delta tables are: a directory, or file:, hdfs:, s3a:. By default snapshots/ below"
    " DAGSTER_HOME, or below this user's data.",
)
@click.option(
    "--storage-option",
    "storage",
    multiple=True,
    callback=_settings,
    metavar="NAME=VALUE",
    help="deltalake's for that place, as aws_region; several. Secrets come from the environment.",
)
@click.option(
    "--keep-days",
    type=click.FloatRange(min=0.01, max=3_650),
    default=30.0,
    show_default=True,
    help="Days that snapshots stay in the tables.",
)
@click.option("--master", default="local[2]", show_default=True, help="Spark's master URL.")
@click.option(
    "--spark-config",
    "spark_config",
    multiple=True,
    callback=_settings,
    metavar="NAME=VALUE",
    help="Spark's own settings, which win over ours; several.",
)
@json_option
@target_options
def stream_command(
    target: Target,
    names: tuple[str, ...],
    every_s: float,
    once: bool,
    uri: str,
    storage: dict[str, str],
    keep_days: float,
    master: str,
    spark_config: dict[str, str],
    as_json: bool,
) -> None:
    """Take snapshots of a fleet, one after the other in one session of Spark, until Ctrl-C.

    Each snapshot reads coordinator streams whole, and the last minutes of metrics and checkpoints. It adds
    its rows to the tables in transactions, and publishes the newest readiness of each standby in its job's
    lag topic. Waits, bounces, drains and `explain` read it there. The command
    may be killed at any point, and any number may write the same tables. Once a day, and at first, the
    tables are tidied: whole days older than --keep-days before the newest snapshot go, small files are joined.

    What can't be read is said and makes its own rows unknown. After the first snapshot no error ends
    it: brokers that are away come back. With --json a document a line.

    Exits 4 with --once when something couldn't be read, 1 when something couldn't be published.

    \b
    Examples:
      samza-dagster snapshots stream --job-name wordcount --every 60
      samza-dagster snapshots stream --job 'orders-*/1' --job billing/2 --uri s3a://lake/samza
      samza-dagster snapshots stream --once --json | jq '.unread'
    """
    tables = Tables(uri, storage)
    with busy("Looking for the jobs …"):
        jobs_of_target(target, names)
    notice(f"The tables are in {tables.uri}")

    def start() -> SparkSession:
        notice(f"Starting Spark ({master}) …")
        return spark_session(master, settings=spark_config)

    def take() -> FleetSnapshot:
        with busy("Taking a snapshot …"):
            # A pattern's jobs are those of now.
            return take_fleet(workers, jobs_of_target(target, names), None, tables)

    def tidy() -> None:
        tables.tidy(timedelta(days=keep_days))

    with closing(Workers(start)) as workers:
        for snapshot in stream(take, tidy, every_s, lambda error: notice(f"Warning: {error}")):
            _show(snapshot, as_json=as_json)
            if once:
                _leave(snapshot)


def _leave(snapshot: FleetSnapshot) -> NoReturn:
    code = Unreachable.exit_code if snapshot.unread else int(bool(snapshot.unpublished))
    raise click.exceptions.Exit(code)


def jobs_of_target(target: Target, names: Sequence[str]) -> list[Connection]:
    """The jobs of these names and patterns; without any the one that the options name."""
    if not names:
        return [target.connection()]
    # Which job is of no matter for the cluster, and a pattern is no name.
    cluster = target.model_copy(update={"job_name": "any"}).connection()

    def deployed() -> list[str]:
        if cluster.zookeeper:
            return known_jobs(
                ZooKeeperAddress(cluster.zookeeper, settings=cluster.zookeeper_config)
            )

        return deployed_jobs(cluster.bootstrap_servers, cluster.client_config)

    found = [one.partition("/") for one in jobs_of(with_ids(names), deployed)]
    if not found:
        raise InvalidInput(
            "a snapshot of a fleet",
            seen=f"no job on {cluster.bootstrap_servers} is one of {', '.join(names)}",
            fix="a pattern of jobs that have been deployed there",
        )
    return [replace(cluster, job_name=name, job_id=ident) for name, _, ident in found]


def _show(snapshot: FleetSnapshot, *, as_json: bool) -> None:
    if as_json:
        line: dict[str, Any] = {
            "snapshot_time": snapshot.at.isoformat(),
            "rows": dict(snapshot.counts),
            "unreadable": snapshot.unreadable,
            "unread": dict(snapshot.unread),
            "unpublished": dict(snapshot.unpublished),
            "seconds": dict(snapshot.seconds),
        }
        click.echo(json.dumps(line))
        return
    ready = sum(row["status"] == "ready" for row in snapshot.rows("standby_readiness"))
    counts = snapshot.counts
    click.echo(
        f"{snapshot.at:%Y-%m-%d %H:%M:%S} UTC: {counts['container_locality']:,} containers,"
        f" {ready:,} of {counts['standby_readiness']:,} standbys ready,"
        f" {counts['violations']:,} violations; {sum(snapshot.seconds.values()):.1f} s"
    )
    for what, why in snapshot.unread.items():
        notice(f"Warning: {what} isn't known: {why}")
    for job, why in snapshot.unpublished.items():
        notice(f"Warning: {job}: the readiness of its standbys isn't published: {why}")
