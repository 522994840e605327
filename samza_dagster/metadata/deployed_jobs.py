"""Which Samza jobs a cluster has, by their coordinator streams."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

from samza_dagster.errors import SamzaDagsterError
from samza_dagster.metadata.job_owner import deployed_by
from samza_dagster.metadata.kafka_client import KafkaCluster, asked_until
from samza_dagster.metadata.kafka_store import KafkaMetadataStore

_COORDINATOR_STREAM = "__samza_coordinator_"
_ANSWER_S = 10.0
_READ_AT_ONCE = 16
_KNOWN: dict[tuple[str, str], str] = {}
"""Brokers and topic → the job whose coordinator stream it is: a topic is read until that is known."""


def deployed_jobs(servers: str, client_config: Mapping[str, str]) -> list[str]:
    """The jobs that were ever deployed there, each as `<name>/<id>`.

    A topic's name has `-` for `_`, so which job's it is stands in the topic alone. One that can't be
    read now isn't listed. Raises `Unreachable` when no broker answers.
    """
    from confluent_kafka import KafkaException

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
