"""A topic that is there already, as brokers tell of it; without a broker."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any, Self, cast

import pytest
from confluent_kafka import KafkaError, KafkaException

from samza_dagster.errors import InvalidInput, UnknownTopic
from samza_dagster.metadata.kafka_client import KafkaCluster
from samza_dagster.metadata.topics import TopicSpec, _check

pytestmark = pytest.mark.unit


class Cluster:
    """Its own admin client; `partitions` None: this broker doesn't know the topic yet, nor `unheard` that are asked first."""

    failure = KafkaCluster("h:1").failure
    bootstrap_servers = "h:1"

    def __init__(
        self, partitions: int | None = 1, config: Any = "compact", unheard: int = 0
    ) -> None:
        self.partitions = partitions
        self.config = config
        self.unheard = unheard

    def admin(self) -> Self:
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def list_topics(self, timeout: float) -> Any:
        parts = {n: SimpleNamespace(replicas=[1], isrs=[1]) for n in range(self.partitions or 0)}
        known = {} if self.partitions is None else {"t": SimpleNamespace(partitions=parts)}
        return SimpleNamespace(topics=known, brokers={1: None, 2: None, 3: None})

    def describe_configs(self, resources: list[Any], request_timeout: float) -> Any:
        answer: Future[Any] = Future()
        self.unheard -= 1
        if self.unheard >= 0:
            answer.set_exception(KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)))
        elif isinstance(self.config, int):
            answer.set_exception(KafkaException(KafkaError(self.config)))
        else:
            answer.set_result(
                {
                    "cleanup.policy": SimpleNamespace(value=self.config),
                    "min.insync.replicas": SimpleNamespace(value=1),
                }
            )
        return {resources[0]: answer}


def check(cluster: Any) -> None:
    _check(cluster, [TopicSpec("t")], cluster.list_topics(1.0), 1.0)


def test_a_topic_whose_config_may_not_be_seen_is_used(caplog: pytest.LogCaptureFixture) -> None:
    """The rights that were asked for till now suffice; the warning names the one that lacks."""
    check(Cluster(config=KafkaError.TOPIC_AUTHORIZATION_FAILED))
    assert "DESCRIBE_CONFIGS" in caplog.text
    with pytest.raises(InvalidInput, match="2 partitions"):
        check(Cluster(partitions=2, config=KafkaError.TOPIC_AUTHORIZATION_FAILED))


def test_a_topic_that_this_broker_doesnt_know_yet_is_no_error() -> None:
    """It was created a moment ago, by another coordinator."""
    check(Cluster(partitions=None))
    with pytest.raises(InvalidInput, match=r"cleanup\.policy=delete"):
        check(Cluster(partitions=None, config="delete"))


def test_a_topic_that_another_broker_hasnt_heard_of_is_asked_for_again() -> None:
    """It is known by the first broker; who is asked for its config may hear of it a moment later."""
    cluster = Cluster(unheard=2)
    check(cluster)
    assert cluster.unheard < 0
    with pytest.raises(UnknownTopic):
        _check(cast("Any", Cluster(unheard=99)), [TopicSpec("t")], cluster.list_topics(0.0), 0.0)
