"""`samza-dagster processor`: a standalone processor, from its job's files to its end, and what its group shows."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Mapping, Set
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import click

from samza_dagster.agent import metrics
from samza_dagster.agent.metrics import address_of
from samza_dagster.agent.protocol import Launch
from samza_dagster.assignment import by_locality, grouper_of, replicas_from_config
from samza_dagster.cli.location_ids import location_id
from samza_dagster.cli.options import Target, json_option, target_options
from samza_dagster.cli.output import notice, print_json, print_table
from samza_dagster.client.group_report import group_report, troubles
from samza_dagster.configuration import variable
from samza_dagster.coordinator import deployment
from samza_dagster.coordinator.fencing.group_fence import GroupFence
from samza_dagster.coordinator.fencing.job_fencing import JobFencing
from samza_dagster.coordinator.job_process import (
    JobFiles,
    JobProcess,
    job_files,
    stop_at_signals,
)
from samza_dagster.coordinator.kafka import partition_counts
from samza_dagster.coordinator.launch import Launcher
from samza_dagster.coordinator.limits import START_TIMEOUT, Setting, parks_starts
from samza_dagster.coordinator.samza_topics import samza_topics
from samza_dagster.errors import ActionFailed, SamzaDagsterError
from samza_dagster.metadata import KafkaCluster
from samza_dagster.metadata.published_config import publish_config
from samza_dagster.metadata.topics import ensure_topics
from samza_dagster.metadata.zookeeper import ZooKeeperAddress, connect, connected
from samza_dagster.model import JobModel
from samza_dagster.standalone.containers import Containers
from samza_dagster.standalone.discovery import find_group
from samza_dagster.standalone.group import GroupView
from samza_dagster.standalone.job_plan import JobPlan
from samza_dagster.standalone.layout import GroupPaths
from samza_dagster.standalone.local_stores import BASE_DIRECTORY, local_stores, unused_stores
from samza_dagster.standalone.metrics import metrics_of
from samza_dagster.standalone.processor import Settings
from samza_dagster.standalone.runner import ProcessorRunner
from samza_dagster.standalone.zookeeper_group import ZooKeeperGroup
from samza_dagster.standalone.zookeeper_placement import placement_store

_log = logging.getLogger(__name__)
_STORE = re.compile(r"stores\.[^.]+\.(factory|changelog)")
_DEFAULTS = Settings()
DEBOUNCE = Setting("job.debounce.time.ms", _DEFAULTS.debounce_ms, 0)
CONSENSUS = Setting("job.coordinator.zk.consensus.timeout.ms", _DEFAULTS.consensus_ms, 0)
SESSION = Setting("job.coordinator.zk.session.timeout.ms", _DEFAULTS.session_ms, 0)
PROBE = Setting("samza.dagster.standalone.probe.ms", _DEFAULTS.probe_ms, 0)
INPUTS = Setting("job.coordinator.monitor-partition-change.frequency.ms", 300_000, 0)
"""Samza's; 0: never."""
CONTAINERS = Setting("samza.dagster.standalone.active.containers", _DEFAULTS.containers, 1)


def settings_of(config: Mapping[str, str]) -> Settings:
    """Return the settings of a job. Raises `InvalidInput` that names the key of a value out of bounds."""
    session_ms = SESSION.of(config)
    return Settings(
        debounce_ms=DEBOUNCE.of(config),
        consensus_ms=CONSENSUS.of(config),
        session_ms=session_ms,
        start_ms=START_TIMEOUT.of(config),
        stop_ms=session_ms // 3,
        probe_ms=PROBE.of(config),
        containers=CONTAINERS.of(config),
    )


def state_dir_of(config: Mapping[str, str], named: Path | None, directory: Path) -> Path:
    """Where stores are kept: where the option says, else the job's config, else in the processor's directory."""
    return named or Path(config.get(BASE_DIRECTORY, "").strip() or directory / "state")


class Identity(NamedTuple):
    """The identity of a processor: id, location, directories of its records and its stores."""

    processor_id: str
    location: str
    directory: Path
    state_dir: Path


class StandaloneProcessor:
    """A processor with its session, its fence and its containers. `run` ends with all of them.

    Raises `InvalidInput` for what the job's files or brokers lack, `Unreachable` without ZooKeeper or brokers.
    """

    def __init__(self, files: JobFiles, identity: Identity, zookeeper: str | None) -> None:
        connection, config = files.connection, files.config
        settings, cluster = settings_of(config), KafkaCluster.of(connection)
        self._plan, self._count_every_s = _plan(cluster, config), INPUTS.of(config) / 1_000
        self._cluster, self._has_left = cluster, threading.Event()
        config = {**config, **deployment.restore_safety(config, self._plan.replicas)}
        # The first processor creates them, since any may lead and its containers need them.
        ensure_topics(cluster, samza_topics(config, max(self._plan.partition_counts.values())))
        fencing = JobFencing.of(config)
        fencing.begin_examination(cluster)  # takes a while, beside what follows
        location = location_id(identity.location)
        fencing.require()
        self._files = files
        self._failure = ""
        self._fence = fencing.principals and GroupFence(
            fencing.principals, cluster, identity.directory
        )
        self._session = connect(
            ZooKeeperAddress(
                zookeeper or connection.zookeeper,
                settings.session_ms / 1_000,
                connection.zookeeper_config,
            )
        )
        paths = GroupPaths.of(config)
        publish_config(placement_store(self._session, paths), fencing.config)
        self._containers = Containers(
            identity.directory,
            identity.state_dir,
            location,
            processor_id=identity.processor_id,
            config=fencing.config,
            launch_of=self._launch_of,
            on_failure=self._fail,
            on_outlived=self._start_anew,
            parks=parks_starts(config),
        )
        self._remove_logins()  # what an earlier process of this directory left running has ended
        self._runner = ProcessorRunner(
            self._session,
            paths,
            processor_id=identity.processor_id,
            location=location,
            settings=settings,
            grouper=self._model,
            containers=self._containers,
            stores_of=lambda locality: local_stores(identity.state_dir, config, locality, location),
            fence=self._fence,
            refused=self._refused,
        )

    def run(self) -> None:
        """Until `leave`. Raises `ActionFailed` when it gives up, or a container has ended by itself."""
        threading.Thread(target=self._watch_inputs, name="inputs", daemon=True).start()
        try:
            self._runner.run()
        finally:
            self._has_left.set()
            self._containers.close()
            self._remove_logins()
            if self._fence is not None:
                self._fence.close()
            self._session.stop()
            self._session.close()
        if self._failure:
            raise ActionFailed("run the containers of a processor", seen=self._failure)

    def serve_metrics(self, address: tuple[str, int]) -> None:
        """At this address from now on, where that can be."""
        own, since_s = self._files.connection.own_name, time.time()
        labels = {"job": own, "processor": self._runner.state.processor_id}
        metrics.offer(
            address, lambda: metrics.render(labels, metrics_of(self._runner.seen(), since_s))
        )

    def leave(self) -> None:
        """A planned end, which may be asked for by a signal's handler."""
        self._runner.leave()

    def _fail(self, why: str) -> None:
        self._failure = self._failure or why
        self._runner.leave()

    def _model(self, group: GroupView, staying: Set[str]) -> JobModel:
        return self._plan.model(group, staying)

    def _refused(self, group: GroupView) -> str:
        return self._plan.refused(group)

    def _watch_inputs(self) -> None:
        """Counts the inputs' partitions from time to time, as Samza's coordinators do."""
        while self._count_every_s and not self._has_left.wait(self._count_every_s):
            before = self._plan.partition_counts
            try:
                counts = partition_counts(self._cluster, self._plan.systems)
            except SamzaDagsterError as error:
                _log.warning("%s", error)
                continue
            if counts != before:
                _log.warning("inputs have other partitions: %s, before %s", counts, dict(before))
                self._plan = replace(self._plan, partition_counts=counts)
                self._runner.plan_anew()

    def _start_anew(self) -> None:
        self._runner.start_anew()

    def _launch_of(self, model: JobModel, container_id: str, execution_id: str) -> Launch | None:
        connection, fence = self._files.connection, self._fence
        launcher = Launcher(self._files.launch, connection.job_name, connection.job_id, model)
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

    def _remove_logins(self) -> None:
        if self._fence is not None:
            self._fence.remove_own()


def _plan(cluster: KafkaCluster, config: dict[str, str]) -> JobPlan:
    systems = deployment.input_topics(config)
    counts = partition_counts(cluster, systems)
    replicas = replicas_from_config(config)
    has_stores = any(_STORE.fullmatch(key) for key in config)
    return JobPlan(counts, systems, replicas, grouper_of(config, by_locality), has_stores)


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
    """Show a group: its leader, the version that is agreed on, the tasks of each. 1 when something is wrong.

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
