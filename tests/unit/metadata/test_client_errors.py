"""What a client of Kafka says of brokers that can't be reached: the reason, not what follows it."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from samza_dagster.metadata.kafka_client import KafkaCluster

pytestmark = pytest.mark.unit
DOWN = KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down")


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (KafkaError._AUTHENTICATION, "SASL authentication error: Authentication failed"),
        (KafkaError._RESOLVE, "Failed to resolve 'nowhere:9092'"),
        (KafkaError._TRANSPORT, "Connect to ipv4#127.0.0.1:1 failed: Connection refused"),
        (KafkaError._SSL, "SSL handshake failed"),
    ],
)
def test_that_all_brokers_are_down_hides_no_reason(code: int, reason: str) -> None:
    """librdkafka reports it after each; a wrong password read as a broker that is away."""
    cluster = KafkaCluster("127.0.0.1:1")
    for error in (KafkaError(code, reason), DOWN):
        cluster._note_error(error)
    assert reason in cluster.unreachable("look", 7).seen
    assert DOWN.str() not in cluster.unreachable("look", 7).seen


def test_a_later_reason_takes_the_place_of_an_earlier_one() -> None:
    """And alone the word that all are down is better than none."""
    cluster = KafkaCluster("127.0.0.1:1")
    cluster._note_error(DOWN)
    assert DOWN.str() in cluster.unreachable("look", 7).seen
    for reason in ("first", "second"):
        cluster._note_error(KafkaError(KafkaError._TRANSPORT, reason))
    assert "second" in cluster.unreachable("look", 7).seen
