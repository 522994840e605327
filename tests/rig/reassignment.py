"""Moves a partition's replicas to other brokers: Kafka's AlterPartitionReassignments by hand.

confluent_kafka (2.16) has no call for it. Any broker forwards it to the controller.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping, Sequence

from samza_dagster.metadata.kafka_client import KafkaCluster
from tests.rig.waiting import until

_ALTER_PARTITION_REASSIGNMENTS = 45
_DEADLINE_S = 30.0


def reassign(servers: str, topic: str, wanted: Mapping[int, Sequence[int]]) -> None:
    """Partition → node ids, the preferred leader first; returns when they are the replicas, in sync.

    `servers` are of listeners without a login.
    """
    answer = ask(servers.split(",", maxsplit=1)[0], _request(topic, wanted))
    # Number, no tags, throttle time, then what is wrong with the whole of it.
    (error,) = struct.unpack_from(">h", answer, 9)
    assert error == 0, f"the controller refused the reassignment: error {error}"

    def is_done() -> bool:
        with KafkaCluster(servers).admin() as admin:
            partitions = admin.list_topics(topic, timeout=10).topics[topic].partitions
        return all(
            list(partitions[number].replicas) == list(nodes)
            and set(partitions[number].isrs) == set(nodes)
            for number, nodes in wanted.items()
        )

    until(f"{topic} is on {dict(wanted)}", is_done, seconds=60)


def _request(topic: str, wanted: Mapping[int, Sequence[int]]) -> bytes:
    """Version 0, whose lengths are varints of one more; none here takes two bytes."""
    partitions = b"".join(
        struct.pack(f">iB{len(nodes)}iB", number, len(nodes) + 1, *nodes, 0)
        for number, nodes in wanted.items()
    )
    name = topic.encode()
    assert max(len(name), len(wanted)) < 0x7F
    header = struct.pack(">hhih", _ALTER_PARTITION_REASSIGNMENTS, 0, 1, -1) + b"\0"
    of_topic = bytes([len(name) + 1]) + name + bytes([len(wanted) + 1]) + partitions + b"\0"
    return header + struct.pack(">iB", round(_DEADLINE_S * 1000), 2) + of_topic + b"\0"


def ask(server: str, request: bytes) -> bytes:
    """What a broker answers to one request of Kafka's protocol, its length left out."""
    host, _, port = server.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=_DEADLINE_S) as link:
        link.sendall(struct.pack(">i", len(request)) + request)
        with link.makefile("rb") as answer:
            (length,) = struct.unpack(">i", answer.read(4))
            return answer.read(length)
