"""Finds a topic's job and the job's deployer, in coordinator stream and state topic."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, TypeVar

from confluent_kafka import KafkaException

from samza_dagster.errors import (
    InvalidInput,
    MalformedRecord,
    Refused,
    SamzaDagsterError,
    UnknownTopic,
)
from samza_dagster.metadata.connection import Connection
from samza_dagster.metadata.coordinator_stream import SET_CONFIG, decode_envelope
from samza_dagster.metadata.interface import MetadataStore
from samza_dagster.metadata.job_metadata import DEPLOYMENT_ID, TRACKING_URL, JobMetadata
from samza_dagster.metadata.kafka_client import KafkaCluster, asked_until
from samza_dagster.metadata.kafka_store import KafkaMetadataStore
from samza_dagster.metadata.state_topic import DEPLOYMENT, StateReader
from samza_dagster.model import naming
from samza_dagster.placement.restoring import JOB

_T = TypeVar("_T")


_COORDINATOR_STREAM = "__samza_coordinator_"
_ANSWER_S = 10.0
_READ_AT_ONCE = 16
_KNOWN: dict[tuple[str, str], str] = {}
"""Brokers and topic → the job of that coordinator stream. An unknown one is read again."""


@dataclass(frozen=True)
class Deployed:
    """The last deployment of a job."""

    run_id: str | None = None  # the coordinator stream's `app.run.id`
    ours: str | None = None  # our own deployment's id, by the state topic
    # The stream's readable config.
    config: Mapping[str, str] = field(default_factory=dict[str, str])
    tasks: int | None = None  # one more than the highest changelog partition of a task

    @property
    def is_ours(self) -> bool:
        """Return whether our coordinator deployed it, or none did."""
        return self.run_id in (None, self.ours)

    @property
    def master_url(self) -> str | None:
        """Return the tracking URL of its Application Master."""
        return self.config.get(TRACKING_URL)


def require_own_topics(connection: Connection) -> None:
    """Raise `Refused` when coordinator stream or state topic belong to another job. Reads alone.

    Topics that don't exist belong to no job, nor do those that this client has no right to read.
    Raises `MalformedRecord` for an unreadable state, `Unreachable`.
    """
    _read(connection, InvalidInput)


def read_deployed(connection: Connection) -> Deployed:
    """Return the deployment by the job's present topics; missing topics count as empty.

    Raises as `require_own_topics` does, and `InvalidInput` for a topic that this client has no
    right to read.
    """
    # A leader of ours writes both in one transaction, which may come between the two reads: a
    # contradiction is read once more.
    found = _read(connection, UnknownTopic)
    return found if found.is_ours else _read(connection, UnknownTopic)


def _read(connection: Connection, passed_over: type[InvalidInput]) -> Deployed:
    name, ident = connection.job_name, connection.job_id
    state = _if_there(lambda: _state(connection), passed_over) or {}
    ours = state.get(DEPLOYMENT, {}).get("deployment_id")
    found = _if_there(lambda: _stream(connection, ours), passed_over) or Deployed(ours=ours)
    naming.require_owner(found.config, name, ident)
    recorded = _recorded_job(state)
    if recorded not in (None, naming.own_name(name, ident)):
        raise Refused(
            f"job {name}, id {ident}",
            seen=f"topic {connection.state_topic} is of job {recorded}",
            fix="the job.name and job.id of that job; for one of its own another job.name or job.id",
        )
    return found


def _if_there(read: Callable[[], _T], passed_over: type[InvalidInput]) -> _T | None:
    try:
        return read()
    except MalformedRecord:
        raise
    except passed_over:
        return None


def _state(connection: Connection) -> dict[str, Mapping[str, Any]]:
    with closing(StateReader.of(connection)) as reader:
        return reader.snapshot().values


def _recorded_job(state: Mapping[str, Mapping[str, Any]]) -> str | None:
    try:
        job: object = state[JOB]["state"]["job"]
    except (KeyError, TypeError):
        return None  # the next leader refuses it, and names the field
    return job if isinstance(job, str) else None


def _stream(connection: Connection, ours: str | None) -> Deployed:
    with closing(
        KafkaMetadataStore.of(connection, on_malformed=lambda _: None, committed_only=True)
    ) as store:
        return deployed_by(store, ours)


def deployed_by(store: MetadataStore, ours: str | None) -> Deployed:
    """Return the deployment by a coordinator stream. An unreadable record hides no other one."""
    # A job with an unreadable run id stays ours if it ever was, else it is another's: an
    # Application Master that deploys the job writes a readable one.
    config: dict[str, str] = {}
    unread: set[str] = set()
    for key, raw in store.all(SET_CONFIG).items():
        try:
            config[key] = str(decode_envelope(raw).values["value"])
        except (MalformedRecord, KeyError):
            unread.add(key)
    run_id = config.get(DEPLOYMENT_ID)
    if DEPLOYMENT_ID in unread:
        run_id = ours or "(not readable)"
    try:
        partitions = JobMetadata(store).changelog_partitions().values()
    except MalformedRecord:
        partitions = ()
    return Deployed(run_id, ours, config, 1 + max(partitions) if partitions else None)


def deployed_jobs(servers: str, client_config: Mapping[str, str]) -> list[str]:
    """Return the jobs that were ever deployed there, each as `<name>/<id>`.

    Jobs that can't be read now aren't listed. Raises `Unreachable` when no broker answers.
    """
    # A topic's name has `-` for `_`, so only the topic's content names its job.
    cluster = KafkaCluster(servers, client_config)
    try:
        with cluster.admin() as admin:
            listed = asked_until(_ANSWER_S, lambda s: admin.list_topics(timeout=s)).topics
    except KafkaException as error:
        raise cluster.failure("list the topics", error.args[0], _ANSWER_S) from error
    topics = [topic for topic in listed if topic.startswith(_COORDINATOR_STREAM)]

    def read(topic: str) -> None:
        store = KafkaMetadataStore(
            servers, topic, client_config=client_config, on_malformed=lambda _: None
        )
        try:
            with closing(store):
                config = deployed_by(store, None).config
        except SamzaDagsterError:
            return
        if name := config.get("job.name"):
            _KNOWN[servers, topic] = f"{name}/{config.get('job.id') or '1'}"

    with ThreadPoolExecutor(_READ_AT_ONCE) as pool:
        list(pool.map(read, [topic for topic in topics if (servers, topic) not in _KNOWN]))
    return sorted({_KNOWN[servers, topic] for topic in topics if (servers, topic) in _KNOWN})
