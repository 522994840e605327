"""Looks into a topic that never falls silent, and into one that does; without a broker."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from samza_dagster.metadata.followed_topic import FollowedTopic
from samza_dagster.metadata.kafka_client import KafkaCluster

pytestmark = pytest.mark.unit


@dataclass
class Message:
    number: int

    def error(self) -> None:
        return None

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self.number

    def key(self) -> None:
        return None

    def value(self) -> bytes:
        return str(self.number).encode()

    def timestamp(self) -> tuple[int, int]:
        return 1, self.number


class Busy:
    """A consumer that always has `each` more; `now_s` goes on by `takes_s` a batch."""

    def __init__(self, each: int, takes_s: float) -> None:
        self.each = each
        self.takes_s = takes_s
        self.given = 0
        self.now_s = 0.0

    def consume(self, most: int, timeout: float) -> list[Message]:
        assert self.given < 1_000_000, "it reads for ever"
        self.now_s += self.takes_s
        count = min(most, self.each)
        self.given += count
        return [Message(n) for n in range(self.given - count, self.given)]


def followed(busy: Busy) -> FollowedTopic:
    topic = FollowedTopic(KafkaCluster("h:1"), "t", monotonic=lambda: busy.now_s)
    topic._consumer = busy  # pyright: ignore[reportAttributeAccessIssue]
    return topic


def numbers(topic: FollowedTopic) -> list[int]:
    return [record.timestamp_ms for record in topic.new_records()]


def test_a_look_into_a_topic_that_is_written_to_all_the_time_ends() -> None:
    """After a second; the next one goes on where it was, and nothing is left out."""
    busy = Busy(each=20, takes_s=0.04)
    topic = followed(busy)
    first, second = numbers(topic), numbers(topic)
    assert len(first) == 500
    assert first + second == list(range(1_000))


def test_a_look_takes_no_more_than_fits_into_memory() -> None:
    """However quick the broker is."""
    busy = Busy(each=500, takes_s=0.0)
    assert len(numbers(followed(busy))) == 10_000


class Silent(Busy):
    """One that has nothing to give until `each` is set; `asked_s` tells when it was questioned."""

    def __init__(self) -> None:
        super().__init__(each=0, takes_s=0.0)
        self.asked_s: list[float] = []

    def consume(self, most: int, timeout: float) -> list[Message]:
        found = super().consume(most, timeout)
        self.each = 0
        return found

    def list_topics(self, topic: str, timeout: float) -> SimpleNamespace:
        self.asked_s.append(self.now_s)
        return SimpleNamespace(brokers={1: "h:1"})


def test_the_brokers_are_asked_after_ten_seconds_of_silence_and_not_more_often() -> None:
    """A record ends a silence, and so does an answer."""
    silent = Silent()
    topic = followed(silent)
    for second in range(40):
        silent.now_s = second
        silent.each = 1 if second == 14 else 0
        assert len(numbers(topic)) == (second == 14)
    assert silent.asked_s == [10, 24, 34]
