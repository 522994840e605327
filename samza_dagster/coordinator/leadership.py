"""Leading a job, term after term, until stopped or fenced."""

from __future__ import annotations

import logging
import secrets
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from samza_dagster.cluster.local import LocalCluster
from samza_dagster.coordinator import deployment as deployments
from samza_dagster.coordinator import durable
from samza_dagster.coordinator.deployment import Deployment
from samza_dagster.coordinator.kafka import (
    KafkaLog,
    KafkaRequests,
    author,
    partition_counts,
)
from samza_dagster.coordinator.launch import Launcher, LaunchTemplate
from samza_dagster.coordinator.stream_health import StreamHealth, bad_keys
from samza_dagster.coordinator.term import Term
from samza_dagster.errors import InvalidInput, Refused, Unreachable
from samza_dagster.metadata.connection import Connection
from samza_dagster.metadata.job_metadata import JobMetadata, job_model_records
from samza_dagster.metadata.kafka_client import KafkaCluster
from samza_dagster.metadata.kafka_store import KafkaMetadataStore
from samza_dagster.metadata.state_topic import Snapshot
from samza_dagster.metadata.state_writer import StateWriter
from samza_dagster.metadata.topics import ensure_topic, retained
from samza_dagster.model import LocalityModel
from samza_dagster.model.naming import transactional_id
from samza_dagster.placement.state import JobState

GATHER_S = 1.0
"""How long a new leader lets hosts register before one is chosen for a container."""
log = logging.getLogger(__name__)


def wall_clock_ms() -> int:
    """Milliseconds since the epoch, for timestamps that people and Samza read."""
    return time.time_ns() // 1_000_000


def new_deployment_id(now_ms: int) -> str:
    """A run id of the form that Samza's planner gives: `<ms>-<8 hex digits>`."""
    return f"{now_ms}-{secrets.token_hex(4)}"


@dataclass(frozen=True)
class Settings:
    """What a coordinator is started with."""

    connection: Connection
    config: Mapping[str, str]
    launch: LaunchTemplate
    token: str
    url_file: Path
    listen: tuple[str, int] = ("127.0.0.1", 0)
    lease_s: float = 120.0


class Leadership:
    """Runs terms one after another; `stop` ends the one in hand."""

    def __init__(self, settings: Settings, *, now_ms: Callable[[], int] = wall_clock_ms) -> None:
        self._settings = settings
        self._now_ms = now_ms
        self._stopped = threading.Event()
        self._term: Term | None = None

    def stop(self) -> None:
        """Ends after the step in hand; containers run on."""
        self._stopped.set()
        if self._term is not None:
            self._term.stop()

    def run(self) -> None:
        """Leads until stopped; a broker that is away is waited for.

        Raises `Fenced` when another coordinator took over, and `InvalidInput` for a
        config or a state that can't be led on.
        """
        led_before = False
        while not self._stopped.is_set():
            try:
                self._lead_one_term()
                led_before = True
            except Unreachable as error:
                if not led_before and self._term is None:
                    raise
                led_before = True
                log.warning("the broker is away, containers run on: %s", error)
                self._stopped.wait(1.0)

    def _lead_one_term(self) -> None:
        settings, connection = self._settings, self._settings.connection
        stream_topic = connection.coordinator_stream_topic
        topic = connection.state_topic
        kafka = KafkaCluster(connection.bootstrap_servers, connection.client_config)
        counts = partition_counts(kafka, deployments.input_topics(settings.config))
        for name in (stream_topic, topic):
            ensure_topic(kafka, name)
        ensure_topic(
            kafka,
            connection.audit_topic,
            config=retained(deployments.audit_retention_ms(settings.config)),
        )
        with ExitStack() as stack:
            writer = StateWriter(
                connection.bootstrap_servers,
                topic,
                transactional_id(connection.job_name, connection.job_id),
                client_config=connection.client_config,
            )
            stack.callback(writer.close)
            records = _values(writer.take_over())
            state = durable.restore(records, f"{connection.job_name}-{connection.job_id}")
            leader_epoch = int(records.get(durable.LEADER, {}).get("epoch", 0)) + 1
            health = StreamHealth(lambda: bad_keys(connection))
            store = KafkaMetadataStore(
                connection.bootstrap_servers,
                stream_topic,
                client_config=connection.client_config,
                on_malformed=health.note,
            )
            stack.callback(store.close)
            deployment, is_new = self._deployment(records, state, counts)
            kafka_log = KafkaLog(
                writer,
                state_topic=topic,
                stream_topic=stream_topic,
                audit_topic=connection.audit_topic,
                now_ms=self._now_ms,
                stopped=self._stopped.is_set,
            )
            cluster = LocalCluster(
                listen=settings.listen,
                token=settings.token,
                epoch=leader_epoch,
                lease_s=settings.lease_s,
                url_file=settings.url_file,
                gather_s=GATHER_S,
            )
            stack.callback(cluster.close)
            term = Term(
                log=kafka_log,
                requests=KafkaRequests(store, health),
                cluster=cluster,
                deployment=deployment,
                launcher=Launcher(
                    settings.launch, connection.job_name, connection.job_id, deployment.job_model
                ),
                state=state,
                leader_epoch=leader_epoch,
                now_ms=self._now_ms,
            )
            cluster.add_route("/status", term.status)
            self._announce(kafka_log, store, deployment, leader_epoch, is_new=is_new)
            self._term = term
            if self._stopped.is_set():
                return
            log.info("leading %s in epoch %d", deployment.deployment_id, leader_epoch)
            term.lead(
                _hosts(JobMetadata(store).locality()),
                resumed=state.deployment_id == deployment.deployment_id,
            )

    def _deployment(
        self, records: Mapping[str, Mapping[str, Any]], state: JobState, counts: Mapping[str, int]
    ) -> tuple[Deployment, bool]:
        """The deployment to lead, and whether it is a new one.

        A changed config while a deployment runs is refused: its containers would go on
        under a JobModel that this coordinator doesn't know.
        """
        config = self._settings.config
        mark = deployments.fingerprint(config)
        found = records.get(durable.DEPLOYMENT)
        if found is None:
            return deployments.plan(config, counts, new_deployment_id(self._now_ms())), True
        if found["fingerprint"] != mark:
            raise Refused(
                "lead this job with another config than the one it runs with",
                seen=f"deployment {found['deployment_id']} has config {found['fingerprint'][:12]}, "
                f"the file has {mark[:12]}; {len(state.groups)} container groups run",
                fix="the config that the deployment began with",
            )
        return deployments.plan(config, counts, str(found["deployment_id"])), False

    def _announce(
        self,
        kafka_log: KafkaLog,
        store: KafkaMetadataStore,
        deployment: Deployment,
        leader_epoch: int,
        *,
        is_new: bool,
    ) -> None:
        """Leader record, and for a new deployment all that Samza's own coordinator writes."""
        now = self._now_ms()
        leader = {"epoch": leader_epoch, "since_ms": now}
        state_records: list[durable.Record] = [
            (durable.LEADER, {**leader, "host": socket.gethostname()})
        ]
        if not is_new:
            kafka_log.commit_stream(state_records, [])
            return
        state_records.append(
            (
                durable.DEPLOYMENT,
                {
                    "deployment_id": deployment.deployment_id,
                    "fingerprint": deployments.fingerprint(self._settings.config),
                },
            )
        )
        fill = job_model_records(
            deployment.job_model, author(now), deployment_id=deployment.deployment_id
        )
        kafka_log.commit_stream(state_records, [*fill, *JobMetadata(store).obsolete(fill)])


def _values(snapshot: Snapshot) -> dict[str, Mapping[str, Any]]:
    return {
        key: record.value for key, record in snapshot.records.items() if record.value is not None
    }


def _hosts(locality: LocalityModel) -> dict[str, str]:
    return {
        processor_id: found.host
        for processor_id, found in locality.processor_localities.items()
        if found.host
    }


def read_token(path: Path) -> str:
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
