"""What befalls one broker of several, and what the others know of it."""

from __future__ import annotations

import signal
from collections.abc import Collection, Generator, Mapping, Sequence, Set
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import (
    ElectionType,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import (
    AlterConfigOpType,
    ClusterMetadata,
    ConfigEntry,
    ConfigResource,
    PartitionMetadata,
    ResourceType,
)

from samza_dagster.metadata.connection import Connection
from samza_dagster.metadata.kafka_client import KafkaCluster
from samza_dagster.sandbox.broker import Broker
from samza_dagster.sandbox.brokers import Brokers
from tests.rig.traced import hung, threads
from tests.rig.waiting import until

TRANSACTIONS = "__transaction_state"
METADATA, HEARTBEAT = "kafka-{}-metadat", "broker-{}-lifecy"
"""Threads of a broker, by their names in the kernel: what applies the metadata log, and what
tells the controller that the broker is there."""


def others(brokers: Brokers, broker: Broker) -> str:
    """The bootstrap servers without one of them."""
    return ",".join(each.bootstrap_servers for each in brokers.nodes if each is not broker)


def _partitions(servers: str, topic: str) -> Mapping[int, PartitionMetadata]:
    """By who of the servers answers."""
    with KafkaCluster(servers).admin() as admin:
        return admin.list_topics(topic, timeout=10).topics[topic].partitions


def leaders(servers: str, topic: str) -> dict[int, int]:
    """Partition → node id of its leader, -1 without one, by who of the servers answers."""
    return {number: found.leader for number, found in _partitions(servers, topic).items()}


def leader_of(brokers: Brokers, topic: str, partition: int = 0) -> Broker:
    """Waits until it has one."""
    number = until(
        f"{topic} {partition} has a leader",
        lambda: max(0, leaders(brokers.bootstrap_servers, topic).get(partition, -1)),
    )
    return brokers.nodes[number - 1]


def in_sync(servers: str, topic: str) -> dict[int, set[int]]:
    """Partition → node ids of its replicas in sync."""
    return {number: set(found.isrs) for number, found in _partitions(servers, topic).items()}


def wait_for_all_in_sync(brokers: Brokers, *topics: str) -> None:
    """Every partition's replicas are all there and up to date."""
    everybody = set(range(1, len(brokers.nodes) + 1))
    for topic in topics:
        until(
            f"all replicas of {topic} are in sync",
            lambda topic=topic: all(
                each == everybody for each in in_sync(brokers.bootstrap_servers, topic).values()
            ),
            seconds=60,
        )


def why_not_whole(servers: str) -> str:
    """Which of these brokers isn't there, or which partition hasn't a replica in sync on each; or "" .

    Each of them is asked by itself: one that was frozen knows no better than before.
    """
    everybody = set(range(1, len(servers.split(",")) + 1))
    for server in servers.split(","):
        try:
            with KafkaCluster(server).admin() as admin:
                found = admin.list_topics(timeout=5)
        except KafkaException as error:
            return f"{server} doesn't answer: {error.args[0]}"
        if why := lacks(found, everybody):
            return f"{server} {why}"
    return ""


def lacks(found: ClusterMetadata, everybody: Set[int]) -> str:
    """What a broker that answers so knows to be missing; or "" ."""
    if set(found.brokers) != everybody:
        return f"names {sorted(found.brokers)}"
    for name, topic in found.topics.items():
        for number, partition in topic.partitions.items():
            if set(partition.isrs) != everybody or partition.leader not in everybody:
                isrs, leader = sorted(partition.isrs), partition.leader
                return f"has {name} {number} in sync on {isrs}, led by {leader}"
    return ""


def settings_of(servers: str, topics: Sequence[str], setting: str) -> dict[str, str | None]:
    """By topic, as the brokers have it in force."""
    wanted = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
    with KafkaCluster(servers).admin() as admin:
        asked = admin.describe_configs(wanted)
        return {
            resource.name: future.result(timeout=30)[setting].value
            for resource, future in asked.items()
        }


def set_config(servers: str, topic: str, setting: str, value: str) -> None:
    """Of a topic, beside what else it has; returns when the brokers have taken it."""
    entry = ConfigEntry(setting, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    with KafkaCluster(servers).admin() as admin:
        untyped: Any = admin
        for future in untyped.incremental_alter_configs([resource]).values():
            future.result(timeout=30)


def wait_until_named(servers: str, number: int, *, named: bool) -> None:
    """Whether each of these brokers names that one: the controller has fenced it, or no more."""
    for each in servers.split(","):
        until(
            f"{each} names {number}: {named}",
            lambda each=each: names(each, number) == named,
            seconds=60,
        )


def names(server: str, number: int) -> bool:
    """Whether that broker names this one among those that are there."""
    with KafkaCluster(server).admin() as admin:
        return number in admin.list_topics(timeout=10).brokers


def elect_preferred(brokers: Brokers | Connection, topic: str) -> None:
    """Each partition is led by the first of its replicas, all of which are in sync."""
    partitions = [
        TopicPartition(topic, number) for number in leaders(brokers.bootstrap_servers, topic)
    ]
    with KafkaCluster(brokers.bootstrap_servers).admin() as admin:
        admin.elect_leaders(ElectionType.PREFERRED, partitions).result(timeout=30)


@contextmanager
def frozen(broker: Broker) -> Generator[None]:
    """SIGSTOP of its process; it thaws in the end."""
    broker.process.send(signal.SIGSTOP)
    try:
        yield
    finally:
        broker.process.send(signal.SIGCONT)


@contextmanager
def lagging(broker: Broker, *, and_fenced: bool = False) -> Generator[None]:
    """It serves and beats, and learns nothing of what its controller decides.

    `and_fenced`: it doesn't beat either, so that its controller fences it, which it alone
    doesn't know.
    """
    names = (METADATA, HEARTBEAT) if and_fenced else (METADATA,)
    with ExitStack() as stack:
        for name in names:
            found = threads(broker.pid, name.format(broker.node_id))
            assert found, name
            stack.enter_context(hung(broker.pid, found, "futex"))
        yield


def unread(broker: Broker) -> int:
    """Bytes that the kernel holds for it at its listener, as it is frozen."""
    return unread_at(int(broker.bootstrap_servers.rpartition(":")[2]))


def unread_at(port: int, senders: Collection[int] | None = None) -> int:
    """Bytes that the kernel holds for whoever listens at that port of this machine, of all its
    connections or of those that come from these ports.
    """
    # A JVM's sockets are IPv6 ones, also for IPv4. `address:port` of this side comes second,
    # of the other third, `unsent:unread` fifth, all in hexadecimal.
    tables = [Path(f"/proc/net/{name}").read_text() for name in ("tcp", "tcp6")]
    lines = [line.split() for table in tables for line in table.splitlines()[1:]]
    return sum(
        int(line[4].rpartition(":")[2], 16)
        for line in lines
        if int(line[1].rpartition(":")[2], 16) == port
        and (senders is None or int(line[2].rpartition(":")[2], 16) in senders)
    )


def transaction_partition(transactional_id: str, partitions: int) -> int:
    """Of `TRANSACTIONS`: its leader is the coordinator of this id's transactions. By Java's hash."""
    number = 0
    for character in transactional_id:
        number = (31 * number + ord(character)) & 0xFFFFFFFF
    signed = number - (1 << 32) if number >= 1 << 31 else number
    return 0 if signed == -(1 << 31) else abs(signed) % partitions
