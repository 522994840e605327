"""Whose a job's topics are: what stands in them tells (`naming.require_owner`)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import TypeVar

from samza_dagster.errors import InvalidInput, MalformedRecord, Refused
from samza_dagster.metadata.connection import Connection
from samza_dagster.metadata.job_metadata import JobMetadata
from samza_dagster.metadata.kafka_store import KafkaMetadataStore
from samza_dagster.metadata.state_topic import StateReader
from samza_dagster.model import naming
from samza_dagster.placement.restoring import JOB

_T = TypeVar("_T")


def require_own_topics(connection: Connection) -> None:
    """Raises `Refused` when coordinator stream or state topic are another job's. Reads alone.

    Topics that don't exist are nobody's. Raises `MalformedRecord` for a state that can't be
    read, `Unreachable`.
    """
    name, ident = connection.job_name, connection.job_id
    naming.require_owner(_if_there(lambda: _config(connection)) or {}, name, ident)
    recorded = _if_there(lambda: _recorded_job(connection))
    if recorded not in (None, *naming.names_on_record(name, ident)):
        raise Refused(
            f"job {name}, id {ident}",
            seen=f"topic {connection.state_topic} is of job {recorded}",
            fix="the job.name and job.id of that job; for one of its own another job.name or job.id",
        )


def _if_there(read: Callable[[], _T]) -> _T | None:
    try:
        return read()
    except MalformedRecord:
        raise
    except InvalidInput:  # no such topic
        return None


def _config(connection: Connection) -> dict[str, str]:
    with closing(
        KafkaMetadataStore(
            connection.bootstrap_servers,
            connection.coordinator_stream_topic,
            client_config=connection.client_config,
            on_malformed=lambda _: None,
            committed_only=True,
        )
    ) as store:
        return JobMetadata(store).owner()


def _recorded_job(connection: Connection) -> str | None:
    with closing(
        StateReader(
            connection.bootstrap_servers,
            connection.state_topic,
            client_config=connection.client_config,
        )
    ) as reader:
        found = reader.snapshot().records.get(JOB)
    try:
        job: object = found.value["state"]["job"] if found and found.value else None
    except (KeyError, TypeError):
        return None  # whoever leads next refuses it, and names the field
    return job if isinstance(job, str) else None
