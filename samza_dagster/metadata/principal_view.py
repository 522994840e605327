"""The topics that brokers show to one principal, read by logging in as it.

A rule is acknowledged by the controller; each broker learns it a moment later. A broker
that shows a principal no topic at all has the rule that denies it all of them, and has
it for every request that comes after. One that names no broker, not even itself, speaks for
no cluster: its controller has fenced it, or it knows nothing yet.

Which brokers there are is told by brokers too, each by its own copy of the metadata log, and
one that lags may leave out a broker that leads. So a list counts only when all who are
on it refuse the principal, and name nobody else (`_are_all_shut`).

librdkafka (2.16) asks any broker that it is connected to, not the one it was given: of three,
two answers in three came from others. So one client is connected to all of them, each answer
says whose it is, and they are collected until every broker has given one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection

from samza_dagster.metadata.kafka_client import KafkaCluster, remaining_s

DEADLINE_S = 3.0
_TO_EVERY_BROKER = {"enable.sparse.connections": "false"}
_PAUSE_S = 0.005
"""Between two questions while a broker's answer is waited for."""


@dataclass(frozen=True)
class Answer:
    """A broker's answer to the principal: the brokers it names (`host:port`), and whether it
    shows a topic.
    """

    names: frozenset[str]
    serves: bool


def _are_all_shut(answers: Mapping[str, Answer]) -> bool:
    """Return whether no broker that leads a partition serves the principal, by the brokers' answers.

    There are some that all refuse it, and of whom none names a broker beside them. Each of
    them has the rule, so it knows every broker that led when the rule was made; who is left
    out was fenced by its controller since, is followed by none of them, and so can't
    commit a write to a partition that one of them has a replica of. What others say, as one
    that is cut off from its controller, doesn't count.
    """
    return any(_are_shut(_named_from(start, answers), answers) for start in answers)


def _silent(answers: Mapping[str, Answer]) -> Set[str]:
    """Return brokers that are named and haven't answered."""
    return frozenset[str]().union(*(each.names for each in answers.values())) - answers.keys()


def _named_from(start: str, answers: Mapping[str, Answer]) -> Set[str]:
    found, waiting = set[str](), {start}
    while waiting:
        found |= waiting
        waiting = {each for one in waiting if one in answers for each in answers[one].names} - found
    return found


def _are_shut(brokers: Set[str], answers: Mapping[str, Answer]) -> bool:
    return all(each in answers and not answers[each].serves for each in brokers)


@dataclass(frozen=True)
class PrincipalView:
    """A principal's login at a cluster.

    `security` are librdkafka's settings of the listener, without user and password.
    """

    bootstrap_servers: str
    user: str
    password: str = field(repr=False)
    security: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    deadline_s: float = DEADLINE_S

    def who_still_serves_it(self) -> tuple[str, ...]:
        """The brokers (`host:port`) that still show it a topic; empty when `_are_all_shut`.

        Raises `Unreachable` when nobody is known to serve it and a broker that another one names
        doesn't answer, or doesn't let it log in: that proves nothing.
        """
        cluster = self._cluster(_TO_EVERY_BROKER)
        answers = self._answers(cluster, _are_all_shut)
        return () if _are_all_shut(answers) else self._serving(cluster, answers)

    def who_tells_of(self, topic: str) -> tuple[str, ...]:
        """The brokers (`host:port`) that let it know whether there is such a topic.

        That of no broker needs the topic to exist. Raises as `who_still_serves_it` does, where any
        broker is silent and no other tells.
        """
        cluster = self._cluster(_TO_EVERY_BROKER)
        answers = self._answers(cluster, topic=topic)
        is_known = any(each.serves for each in answers.values())
        return self._serving(cluster, answers) if is_known or _silent(answers) else ()

    def who_lacks_its_login(self) -> tuple[str, ...]:
        """The brokers that another one names and that don't let it log in by the deadline.

        Raises `Unreachable` when none does.
        """
        return tuple(sorted(_silent(self._answers(self._cluster(_TO_EVERY_BROKER)))))

    def _serving(self, cluster: KafkaCluster, answers: Mapping[str, Answer]) -> tuple[str, ...]:
        serving = tuple(sorted(each for each in answers if answers[each].serves))
        if not serving:
            silent = f"no answer of {', '.join(sorted(_silent(answers)))}"
            raise cluster.unreachable(f"log in as {self.user}", self.deadline_s, silent)
        return serving

    def _answers(
        self,
        cluster: KafkaCluster,
        are_enough: Callable[[Mapping[str, Answer]], bool] = lambda _: False,
        *,
        topic: str | None = None,
    ) -> Mapping[str, Answer]:
        """Return an answer of each broker, until they are enough, or all have answered, or the deadline passes.

        Raises `Unreachable` when there is none.
        """
        deadline = time.monotonic() + self.deadline_s
        answers: dict[str, Answer] = {}
        why = ""
        client = self._client(cluster)
        try:
            while not are_enough(answers):
                left_s = remaining_s(deadline)
                if left_s == 0 or (answers and not _silent(answers)):
                    break
                try:
                    found = client.list_topics(topic, timeout=left_s)
                except KafkaException as error:
                    why = why or error.args[0].str()
                    break
                if not found.brokers:
                    why = "a broker that names none"
                elif not self._adds(answers, found, topic):
                    time.sleep(_PAUSE_S)
        finally:
            client.close()
        if not answers:
            raise cluster.unreachable(f"log in as {self.user}", self.deadline_s, why)
        return answers

    def _adds(self, answers: dict[str, Answer], found: Any, topic: str | None) -> bool:
        """Keeps each broker's newest answer; whether it had none before."""
        # `sasl_ssl://host:port/1`, without the protocol where that is PLAINTEXT.
        address: str = found.orig_broker_name.rpartition("://")[2].rpartition("/")[0]
        names = frozenset(f"{each.host}:{each.port}" for each in found.brokers.values())
        is_new = address not in answers
        answers[address] = Answer(
            names, bool(found.topics) if topic is None else _tells(found, topic)
        )
        return is_new

    def lacking(self, wanted: Mapping[str, frozenset[str]]) -> dict[str, str]:
        """Return operations (`READ`, …) wanted on topics that it lacks, by topic.

        A topic that doesn't exist yet lacks nothing.
        """
        cluster = self._cluster()
        return lacking(cluster, wanted, f"log in as {self.user}", self.deadline_s)

    def _client(self, cluster: KafkaCluster) -> Any:
        """A consumer: it asks for metadata without having topics made."""
        return cluster.reader(committed_only=False)

    def _cluster(self, settings: Mapping[str, str] = {}) -> KafkaCluster:
        login = {"sasl.username": self.user, "sasl.password": self.password}
        return KafkaCluster(self.bootstrap_servers, {**self.security, **settings, **login})


def _tells(found: Any, topic: str) -> bool:
    error = found.topics[topic].error
    return error is None or error.code() != KafkaError.TOPIC_AUTHORIZATION_FAILED


def lacking(
    cluster: KafkaCluster, wanted: Mapping[str, frozenset[str]], asked: str, deadline_s: float
) -> dict[str, str]:
    """Return operations wanted on topics that the cluster's client lacks, by topic.

    A topic that doesn't exist yet lacks nothing. Raises `Unreachable`, about what was `asked`.
    """
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
