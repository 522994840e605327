"""Checks this client's rights and limits at the brokers before a take-over fences any leader."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from samza_dagster.errors import InvalidInput
from samza_dagster.metadata.kafka_client import KafkaCluster
from samza_dagster.metadata.principal_view import lacking
from samza_dagster.metadata.state_writer import RECORDS_MAX, Records
from samza_dagster.metadata.topics import topic_config

_OVERHEAD = 100
"""Most bytes of a record and of its batch beside key and value."""
_OF_TOPIC = "max.message.bytes"
_TIMEOUT_S = 10.0


def require_rights(cluster: KafkaCluster, wanted: Mapping[str, frozenset[str]]) -> None:
    """Raise unless this client has the wanted operations (`READ`, …) on each topic.

    Raises `InvalidInput` that names the missing ones, `Unreachable`.
    """
    found = lacking(cluster, wanted, "read this client's rights", _TIMEOUT_S)
    if found:
        raise InvalidInput(
            "use the job's topics as their coordinator",
            seen="; ".join(f"no {what} on {topic}" for topic, what in sorted(found.items())),
            fix="ALLOW the coordinator's principal READ and WRITE on them",
        )


def require_room(cluster: KafkaCluster, batches: Iterable[Records]) -> None:
    """Raise unless the brokers would take each batch in one transaction.

    Raises `InvalidInput` that names the record and the limit, `Unreachable`.
    """
    # The brokers' own limit isn't checked where the client compresses, or may not see the config.
    batches = tuple(batches)
    most = max(map(len, batches), default=0)
    if most > RECORDS_MAX:
        raise InvalidInput(
            "write the state in one transaction",
            seen=f"{most} records",
            fix=f"a job of fewer tasks: at most {RECORDS_MAX} records a transaction",
        )
    largest: dict[str, tuple[int, str]] = {}
    for topic, key, value in (record for batch in batches for record in batch):
        size = len(key) + len(value or b"") + _OVERHEAD
        largest[topic] = max(
            largest.get(topic, (0, "")), (size, key[:200].decode(errors="replace"))
        )
    for topic, (size, key) in sorted(largest.items()):
        for limit, most_bytes in _limits(cluster, topic):
            if size > most_bytes:
                raise InvalidInput(
                    f"write the record {key} to {topic}",
                    seen=f"about {size} bytes; {limit} is {most_bytes}",
                    fix="a shorter value in the job's config, or a higher limit",
                )


def _limits(cluster: KafkaCluster, topic: str) -> Iterator[tuple[str, int]]:
    yield f"this client's {cluster.LARGEST}", cluster.largest_record_bytes
    config = None if cluster.is_compressing else topic_config(cluster, topic, _TIMEOUT_S)
    if config is not None:
        yield f"its {_OF_TOPIC}", int(config[_OF_TOPIC])
