"""Creates topics and waits until the broker serves them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from samza_dagster.errors import ActionFailed, DeadlineExceeded
from samza_dagster.sandbox import kafka_client
from samza_dagster.sandbox.demo_job import Topic

_DEADLINE_S = 30.0


def create_topics(
    bootstrap_servers: str,
    wanted: Sequence[Topic],
    *,
    replicas: int = 1,
) -> None:
    """Creates those that don't exist, and returns when every partition has a leader.

    With three replicas and more two must have what is acknowledged.

    Raises `ActionFailed` that names the topic and the broker's answer, `DeadlineExceeded`
    when a leader is missing at the deadline.
    """
    deadline = time.monotonic() + _DEADLINE_S
    with kafka_client.admin(bootstrap_servers) as admin:
        _create(admin, wanted, replicas)
        while waiting := _without_leaders(admin, wanted):
            if time.monotonic() > deadline:
                raise DeadlineExceeded("topics with leaders", seen=f"still waiting for {waiting}")


def _create(admin: Any, wanted: Sequence[Topic], replicas: int) -> None:
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.cimpl import NewTopic

    in_sync = {"min.insync.replicas": "2"} if replicas >= 3 else {}
    asked = admin.create_topics(
        [
            NewTopic(t.name, t.partitions, replicas, config={**in_sync, **dict(t.config)})
            for t in wanted
        ],
        operation_timeout=_DEADLINE_S,
    )
    for name, future in asked.items():
        try:
            future.result()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise ActionFailed(f"create topic {name}", seen=str(error.args[0])) from error


def _without_leaders(admin: Any, wanted: Sequence[Topic]) -> list[str]:
    known = admin.list_topics(timeout=5).topics
    return [
        topic.name
        for topic in wanted
        if topic.name not in known
        or len(known[topic.name].partitions) < topic.partitions
        or any(p.leader < 0 for p in known[topic.name].partitions.values())
    ]
