"""What is said of a login that brokers know without its rights, or don't know: by a real broker."""

from __future__ import annotations

import pytest

from samza_dagster.errors import InvalidInput, Unreachable
from samza_dagster.metadata.authorizer import ALLOW, USER, AclRule, Authorizer
from samza_dagster.metadata.kafka_client import KafkaCluster, end_producer
from samza_dagster.metadata.record_writer import RecordWriter
from samza_dagster.metadata.replicas import cluster_metadata
from samza_dagster.metadata.topic_reader import TopicEnd
from samza_dagster.metadata.topics import ensure_topic
from samza_dagster.sandbox.broker import Broker
from samza_dagster.sandbox.broker_settings import MECHANISM
from tests.rig.pace import PACE
from tests.rig.waiting import until

pytestmark = pytest.mark.contract

NAME, PASSWORD, TOPIC = "reader", "p" * 32, "may-be-read"


@pytest.fixture(autouse=True)
def login(broker: Broker) -> None:
    """It may read a topic, and write none."""
    cluster = KafkaCluster(broker.bootstrap_servers)
    ensure_topic(cluster, TOPIC, timeout_s=20 * PACE)
    authorizer = Authorizer(cluster)
    authorizer.set_login(NAME, PASSWORD, MECHANISM)
    authorizer.add_rules([AclRule(USER + NAME, ALLOW, "READ", "TOPIC", TOPIC)])
    authorizer.close()


def logged_in(broker: Broker, password: str = PASSWORD) -> KafkaCluster:
    login = {"sasl.mechanism": MECHANISM, "sasl.username": NAME, "sasl.password": password}
    return KafkaCluster(broker.sasl_servers, {"security.protocol": "SASL_PLAINTEXT", **login})


def test_a_write_without_the_right_is_refused_with_what_is_missing(broker: Broker) -> None:
    """Twice: the client that the brokers refused is used no more. It ended in the library's own error."""
    cluster = logged_in(broker)
    end = TopicEnd(cluster, TOPIC)
    writer = RecordWriter(cluster, TOPIC, end, timeout_s=10 * PACE)
    for _ in range(2):
        with pytest.raises(InvalidInput, match=r"authorization failed.*rights"):
            writer.write("ask", b"key", b"value")
    writer.close()
    end.close()


def test_a_client_that_was_refused_while_nobody_asked_ends_in_silence(broker: Broker) -> None:
    """What its command had to say came after a traceback."""
    from confluent_kafka import KafkaException

    producer = logged_in(broker).producer()

    def is_refused() -> bool:
        try:
            producer.produce(TOPIC, b"")
        except KafkaException:
            return True
        return False

    until("it is refused", is_refused)
    end_producer(producer)


def test_a_wrong_password_is_named_where_only_the_brokers_are_asked(broker: Broker) -> None:
    """`doctor` asks so, and knew no more than that none had answered."""
    with pytest.raises(Unreachable, match="Authentication failed"):
        cluster_metadata(logged_in(broker, "wrong"), "ask the brokers", 2.0)
