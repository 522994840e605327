"""What the sandbox's readers make of a client that can't reach the broker."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any

import pytest

from samza_dagster.errors import Unreachable
from samza_dagster.sandbox import kafka_client
from samza_dagster.sandbox.readiness import Readiness

pytestmark = pytest.mark.unit


class LosesItsBroker:
    """Knows the topic once, not its leader, and nothing afterwards."""

    def __init__(self) -> None:
        self._asked = 0

    def list_topics(self, *_: Any, **__: Any) -> Any:
        from confluent_kafka import KafkaError, KafkaException

        self._asked += 1
        if self._asked > 1:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        return SimpleNamespace(topics={"t": SimpleNamespace(partitions={0: None})})

    def get_watermark_offsets(self, *_: Any, **__: Any) -> Any:
        from confluent_kafka import KafkaError, KafkaException

        raise KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE))


def test_a_client_that_loses_its_broker_while_it_looks_for_a_leader_says_unreachable() -> None:
    """Callers know no error of librdkafka's."""
    with pytest.raises(Unreachable):
        kafka_client.end_offsets(LosesItsBroker(), "t")


class Broker:
    """Answers every client but those in `unheard`; `made` so many."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *unheard: int) -> None:
        self.made = 0
        self._unheard = unheard
        monkeypatch.setattr(kafka_client, "consumer", self._consumer)
        monkeypatch.setattr(kafka_client, "end_offsets", self._end_offsets)

    def _consumer(self, _: str) -> io.BytesIO:
        self.made += 1
        return io.BytesIO(bytes([self.made]))

    def _end_offsets(self, client: io.BytesIO, _: str) -> tuple[int, ...]:
        if client.getvalue()[0] in self._unheard:
            raise Unreachable("the broker")
        return (3, 4)


def readiness() -> Readiness:
    return Readiness(dict, (), "nowhere", wanted=1, standbys=0)


def test_a_readiness_whose_client_is_lost_asks_by_a_new_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And keeps that."""
    broker = Broker(monkeypatch, 1)
    ready = readiness()
    assert [ready.outputs(), ready.outputs()] == [7, 7]
    assert broker.made == 2


def test_a_readiness_without_a_broker_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a second client: the deadline of what waits for it is far away."""
    broker = Broker(monkeypatch, 1, 2)
    with pytest.raises(Unreachable):
        readiness().outputs()
    assert broker.made == 2
