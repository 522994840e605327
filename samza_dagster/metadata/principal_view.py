"""Finds what the brokers let one principal see, by a login as that principal.

The controller acknowledges a rule, and each broker gets it a moment later. A broker that shows a
principal no topic at all has the rule that denies all of them, and has it for every later
request. A broker that names no broker, not even itself, speaks for no cluster: its controller has
fenced it, or it knows nothing yet.

Each broker lists the brokers by its own copy of the metadata log, and a broker that lags may leave
out a leader. So a list counts only when all its brokers refuse the principal and name no further
broker (`_are_all_shut`).

librdkafka (2.16) sends the request to any connected broker, not to the given one: with three
brokers, two answers of three came from others. So one client is connected to all brokers, each
answer has its broker's name, and answers are collected until every broker has given one.
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
"""The pause between two requests while a broker's answer is missing."""


@dataclass(frozen=True)
class Answer:
    """A broker's answer to the principal."""

    names: frozenset[str]  # the brokers that it names (`host:port`)
    serves: bool  # it shows a topic


def _are_all_shut(answers: Mapping[str, Answer]) -> bool:
    """Return whether no broker that leads a partition serves the principal, by these answers.

    True when a set of brokers refuses the principal and names no broker outside the set.
    """
    # Each broker of the set has the rule, so it knows every broker that led when the rule was made.
    # A broker outside the set was fenced by its controller since and has no followers in the set.
    # So it can't commit a write to a partition with a replica in the set. Answers of other brokers,
    # such as one that is cut off from its controller, don't count.
    return any(_are_shut(_named_from(start, answers), answers) for start in answers)


def _silent(answers: Mapping[str, Answer]) -> Set[str]:
    """Return the brokers that are named and haven't answered."""
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
    """The login of a principal at a cluster."""

    bootstrap_servers: str
    user: str
    password: str = field(repr=False)
    # librdkafka's settings of the listener, without user and password.
    security: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    deadline_s: float = DEADLINE_S

    def brokers_still_serving(self) -> tuple[str, ...]:
        """Return the brokers (`host:port`) that still show it a topic; empty when `_are_all_shut`.

        Raises `Unreachable` when no broker is known to serve it and a named broker doesn't
        answer, or refuses the login: that proves nothing.
        """
        cluster = self._cluster(_TO_EVERY_BROKER)
        answers = self._collect_answers(cluster, _are_all_shut)
        return () if _are_all_shut(answers) else self._serving(cluster, answers)

    def brokers_reporting(self, topic: str) -> tuple[str, ...]:
        """Return the brokers (`host:port`) that report whether a topic exists.

        The topic needn't exist. Raises as `brokers_still_serving` does, where a broker is silent
        and no other reports.
        """
        cluster = self._cluster(_TO_EVERY_BROKER)
        answers = self._collect_answers(cluster, topic=topic)
        is_known = any(each.serves for each in answers.values())
        return self._serving(cluster, answers) if is_known or _silent(answers) else ()

    def brokers_without_login(self) -> tuple[str, ...]:
        """Return the named brokers that don't accept its login by the deadline.

        Raises `Unreachable` when none does.
        """
        return tuple(sorted(_silent(self._collect_answers(self._cluster(_TO_EVERY_BROKER)))))

    def _serving(self, cluster: KafkaCluster, answers: Mapping[str, Answer]) -> tuple[str, ...]:
        serving = tuple(sorted(each for each in answers if answers[each].serves))
        if not serving:
            silent = f"no answer of {', '.join(sorted(_silent(answers)))}"
            raise cluster.unreachable(f"log in as {self.user}", self.deadline_s, silent)
        return serving

    def _collect_answers(
        self,
        cluster: KafkaCluster,
        are_enough: Callable[[Mapping[str, Answer]], bool] = lambda _: False,
        *,
        topic: str | None = None,
    ) -> Mapping[str, Answer]:
        """Return an answer of each broker, until `are_enough`, or all named, or the deadline.

        Raises `Unreachable` without any answer.
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
                elif not self._store_answer(answers, found, topic):
                    time.sleep(_PAUSE_S)
        finally:
            client.close()
        if not answers:
            raise cluster.unreachable(f"log in as {self.user}", self.deadline_s, why)
        return answers

    def _store_answer(self, answers: dict[str, Answer], found: Any, topic: str | None) -> bool:
        """Store a broker's newest answer; return whether it is the broker's first one."""
        # `sasl_ssl://host:port/1`, without the protocol where that is PLAINTEXT.
        address: str = found.orig_broker_name.rpartition("://")[2].rpartition("/")[0]
        names = frozenset(f"{each.host}:{each.port}" for each in found.brokers.values())
        is_new = address not in answers
        answers[address] = Answer(
            names, bool(found.topics) if topic is None else _is_reported(found, topic)
        )
        return is_new

    def lacking(self, wanted: Mapping[str, frozenset[str]]) -> dict[str, str]:
        """Return the wanted operations (`READ`, …) on topics that it lacks, by topic.

        A topic that doesn't exist yet lacks nothing.
        """
        cluster = self._cluster()
        return lacking(cluster, wanted, f"log in as {self.user}", self.deadline_s)

    def _client(self, cluster: KafkaCluster) -> Any:
        """Return a consumer, which requests metadata without the creation of topics."""
        return cluster.reader(committed_only=False)

    def _cluster(self, settings: Mapping[str, str] = {}) -> KafkaCluster:
        login = {"sasl.username": self.user, "sasl.password": self.password}
        return KafkaCluster(self.bootstrap_servers, {**self.security, **settings, **login})


def _is_reported(found: Any, topic: str) -> bool:
    error = found.topics[topic].error
    return error is None or error.code() != KafkaError.TOPIC_AUTHORIZATION_FAILED


def lacking(
    cluster: KafkaCluster, wanted: Mapping[str, frozenset[str]], asked: str, deadline_s: float
) -> dict[str, str]:
    """Return the wanted operations on topics that the cluster's client lacks, by topic.

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
