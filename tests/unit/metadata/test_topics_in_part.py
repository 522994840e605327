"""One topic or partition of several can't be read: the others are, and it says why. Without a broker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from samza_dagster.errors import Unreachable
from samza_dagster.metadata.job_topics import (
    WHOLE_TOPIC,
    KafkaJobTopics,
    OffsetRange,
    span_of,
)
from samza_dagster.metadata.kafka_client import KafkaCluster

pytestmark = pytest.mark.unit

NO_RIGHT, SILENT, NO_TOPIC = 29, -185, 3
"""The codes of Kafka's and librdkafka's errors."""


@dataclass(frozen=True)
class Told:
    """An answer, or an error; as a future gives it."""

    value: Any

    def result(self) -> Any:
        from confluent_kafka import KafkaError, KafkaException

        if isinstance(self.value, int):
            raise KafkaException(KafkaError(self.value))
        return self.value


@dataclass
class Brokers(KafkaCluster):
    """Topics of two partitions, 0 to 10 each; what isn't answered has a code instead, what isn't at `first` one before it."""

    topics: Mapping[str, int | None] = field(default_factory=dict[Any, Any])
    partitions: Mapping[tuple[str, int], int] = field(default_factory=dict[Any, Any])
    read: Mapping[str, int] = field(default_factory=dict[Any, Any])
    first: dict[str, int] = field(default_factory=dict[Any, Any])

    def __post_init__(self) -> None:
        super().__init__("h:1")

    def __exit__(self, *_: object) -> None:
        pass

    def admin(self) -> Any:
        return self

    def reader(self, **_: object) -> Any:
        return Reader(self)

    def describe_topics(self, asked: Any, request_timeout: float) -> dict[str, Told]:
        both = [SimpleNamespace(id=0), SimpleNamespace(id=1)]
        two = SimpleNamespace(partitions=both, topic_id="an id")
        return {name: Told(self.topics.get(name, NO_TOPIC) or two) for name in asked.topic_names}

    def list_offsets(self, asked: Mapping[Any, Any], **_: object) -> dict[Any, Told]:
        from confluent_kafka.admin import OffsetSpec

        def of(at: Any, spec: OffsetSpec) -> Told:
            offset = 0 if spec is OffsetSpec.earliest() else 10
            found = SimpleNamespace(offset=offset, timestamp=1_000)
            return Told(self.partitions.get((at.topic, at.partition), found))

        return {at: of(at, spec) for at, spec in asked.items()}


class Reader:
    """A consumer that has one record, the last, of each partition that it is given."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers
        self._left: list[Any] = []

    def offsets_for_times(self, asked: list[Any], timeout: float) -> Any:
        from confluent_kafka import TopicPartition

        return [TopicPartition(at.topic, at.partition, 9) for at in asked]

    def assign(self, partitions: list[Any]) -> None:
        self._left = list(partitions)

    def poll(self, timeout: float) -> Any:
        from confluent_kafka import KafkaError

        code = self._brokers.first.pop(self._left[0].topic, None)
        at = self._left[0] if code is not None else self._left.pop(0)
        code = code or self._brokers.read.get(at.topic)
        return SimpleNamespace(
            partition=lambda: at.partition,
            offset=lambda: 9,
            error=lambda: None if code is None else KafkaError(code),
            key=lambda: None,
            value=f"{at.topic}-{at.partition}".encode,
            timestamp=lambda: (1, 1_000),
        )

    def close(self) -> None:
        pass


def tail(brokers: Brokers, topic: str) -> list[str]:
    """What is read, and why what isn't."""
    found = KafkaJobTopics(brokers).tail(topic, 500)
    return [one.seen if isinstance(one, Unreachable) else str(one.value, "utf-8") for one in found]  # pyright: ignore[reportArgumentType]


def test_a_topic_without_a_right_to_it_hides_no_other() -> None:
    """It stands for all of its partitions, which can't be told either."""
    brokers = Brokers(topics={"log": None, "secret": NO_RIGHT})
    ranges = KafkaJobTopics(brokers).offset_ranges({"log", "secret", "gone"})
    assert {at for at in ranges if at[0] != "secret"} == {("log", 0), ("log", 1)}
    assert span_of(ranges, "log", 1) == OffsetRange(0, 10)
    unread = span_of(ranges, "secret", 3)
    assert isinstance(unread, Unreachable)
    assert (unread.seen, unread.fix) == (
        "no right to read topic secret",
        "ALLOW this client's principal DESCRIBE and READ on topic secret",
    )
    assert span_of(ranges, "gone", 0) is None


def test_a_right_that_is_missing_for_all_is_told_of_each() -> None:
    """It is no failure of the whole: what else a sensor judges doesn't hang on it."""
    brokers = Brokers(topics={"secret": NO_RIGHT})
    ranges = KafkaJobTopics(brokers).offset_ranges({"secret"})
    assert list(ranges) == [("secret", WHOLE_TOPIC)]


def test_a_right_to_describe_alone_is_no_right_to_read() -> None:
    """The broker says so when records are fetched."""
    brokers = Brokers(topics={"metrics": None}, read={"metrics": NO_RIGHT})
    assert tail(brokers, "metrics") == ["no right to read topic metrics"]
    assert tail(Brokers(topics={"metrics": NO_RIGHT}), "metrics") == [
        "no right to read topic metrics"
    ]


@pytest.mark.parametrize("name", ["UNKNOWN_LEADER_EPOCH", "FENCED_LEADER_EPOCH"])
def test_a_leader_of_another_epoch_is_asked_again(name: str) -> None:
    """The client asks for the leader anew by itself, as after a broker was frozen and fenced."""
    from confluent_kafka import KafkaError

    brokers = Brokers(topics={"log": None}, first={"log": getattr(KafkaError, name)})
    assert sorted(tail(brokers, "log")) == ["log-0", "log-1"]


def test_a_broker_that_is_silent_makes_only_its_partitions_unknown() -> None:
    """It is alive for the others, frozen, and still their leader."""
    brokers = Brokers(topics={"log": None}, partitions={("log", 1): SILENT})
    ranges = KafkaJobTopics(brokers).offset_ranges({"log"})
    assert ranges["log", 0] == OffsetRange(0, 10)
    assert "log-1" in getattr(ranges["log", 1], "seen", "")
    read, why = sorted(tail(brokers, "log"), reverse=True), "log-1: "
    assert read[0].startswith(why)
    assert read[1:] == ["log-0"]


@pytest.mark.parametrize(
    "brokers",
    [
        Brokers(topics={"log": SILENT}),
        Brokers(topics={"log": None}, partitions={("log", 0): SILENT, ("log", 1): SILENT}),
    ],
)
def test_silence_of_all_brokers_is_a_failure_of_the_whole(brokers: Brokers) -> None:
    """So that one answer says it, not one for each partition."""
    with pytest.raises(Unreachable, match="read the end offsets of log"):
        KafkaJobTopics(brokers).offset_ranges({"log"})
    with pytest.raises(Unreachable, match="read topic log"):
        tail(brokers, "log")
