"""What the brokers let one principal see, asked by logging in as it.

A rule is acknowledged by the controller; each broker learns it a moment later. A broker
that shows a principal no topic at all has the rule that denies it all of them, and has
it for every request that comes after. One that names no broker, not even itself, speaks for
no cluster: its controller has fenced it, or it knows nothing yet.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from samza_dagster.metadata.kafka_client import KafkaCluster

DEADLINE_S = 3.0


@dataclass(frozen=True)
class PrincipalView:
    """One principal's login at a cluster.

    `security` are librdkafka's settings of the listener, without user and password.
    """

    bootstrap_servers: str
    user: str
    password: str = field(repr=False)
    security: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    deadline_s: float = DEADLINE_S

    def who_still_serves_it(self) -> tuple[str, ...]:
        """The brokers (`host:port`) that still show it a topic; empty when none does.

        Asks each broker of the cluster by itself. Raises `Unreachable` when one of them
        doesn't answer, names no broker, or doesn't let it log in: that proves nothing.
        """
        first = self._metadata(self.bootstrap_servers)
        addresses = sorted(f"{b.host}:{b.port}" for b in first.brokers.values())
        return tuple(each for each in addresses if self._metadata(each).topics)

    def lacking(self, wanted: Mapping[str, frozenset[str]]) -> dict[str, str]:
        """Of the operations (`READ`, …) wanted on topics: those that it hasn't, by topic.

        A topic that doesn't exist yet lacks nothing.
        """
        cluster = self._cluster(self.bootstrap_servers)
        return lacking(cluster, wanted, f"log in as {self.user}", self.deadline_s)

    def is_refused(self, topic: str) -> bool:
        """Whether it may not even know if there is such a topic; true needs no topic to exist."""
        from confluent_kafka import KafkaError

        found = self._metadata(self.bootstrap_servers, topic).topics.get(topic)
        error = None if found is None else found.error
        return error is not None and error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED

    def _metadata(self, servers: str, topic: str | None = None) -> Any:
        from confluent_kafka import KafkaException

        cluster = self._cluster(servers)
        # A consumer asks for metadata without having topics made.
        client = cluster.reader(committed_only=False)
        asked = f"log in as {self.user}"
        try:
            if topic is None:
                found = client.list_topics(timeout=self.deadline_s)
            else:
                found = client.list_topics(topic, timeout=self.deadline_s)
        except KafkaException as error:
            raise cluster.unreachable(asked, self.deadline_s, error.args[0].str()) from error
        finally:
            client.close()
        if not found.brokers:
            raise cluster.unreachable(asked, self.deadline_s, "a broker that names none")
        return found

    def _cluster(self, servers: str) -> KafkaCluster:
        login = {"sasl.username": self.user, "sasl.password": self.password}
        return KafkaCluster(servers, {**self.security, **login})


def lacking(
    cluster: KafkaCluster, wanted: Mapping[str, frozenset[str]], asked: str, deadline_s: float
) -> dict[str, str]:
    """Of the operations wanted on topics: those that the cluster's client hasn't, by topic.

    A topic that doesn't exist yet lacks nothing. Raises `Unreachable`, about what was `asked`.
    """
    from confluent_kafka import KafkaError, KafkaException, TopicCollection

    admin: Any = cluster.admin()
    with admin:
        futures = admin.describe_topics(
            TopicCollection(sorted(wanted)),
            include_authorized_operations=True,
            request_timeout=deadline_s,
        )
        found: dict[str, str] = {}
        for topic, future in futures.items():
            try:
                allowed = {each.name for each in future.result().authorized_operations or ()}
            except KafkaException as error:
                code = error.args[0].code()
                if code == KafkaError.UNKNOWN_TOPIC_OR_PART:
                    continue
                if code != KafkaError.TOPIC_AUTHORIZATION_FAILED:
                    raise cluster.unreachable(asked, deadline_s, error.args[0].str()) from error
                allowed = set[str]()
            missing = sorted(wanted[topic] - allowed)
            if missing:
                found[topic] = " and ".join(missing)
    return found
