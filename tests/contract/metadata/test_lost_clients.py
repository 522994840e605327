"""Clients that librdkafka leaves without any broker, for good, are replaced by new ones."""

from __future__ import annotations

import queue
import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

import pytest

from samza_dagster.errors import Unreachable
from samza_dagster.metadata import Change, KafkaCluster, KafkaMetadataStore, StateWriter
from samza_dagster.metadata.authorizer import Authorizer
from samza_dagster.metadata.principal_view import PrincipalView
from samza_dagster.metadata.topic_reader import TopicEnd
from tests.rig.broker_list import LOST_FOR_GOOD, BrokerList
from tests.rig.waiting import until

pytestmark = pytest.mark.contract

Value = TypeVar("Value")
BATCH_KEY, BATCH_VALUE = b"group/0", b'{"version":1}'


@pytest.fixture
def theirs(brokers: BrokerList) -> KafkaCluster:
    """As clients see it that a word of no brokers leaves without any."""
    return KafkaCluster(brokers.servers, LOST_FOR_GOOD)


def test_a_client_that_heard_of_no_broker_is_lost_for_good(
    brokers: BrokerList, theirs: KafkaCluster, topic: str
) -> None:
    """What the other tests rest on: without help it stays so, with all brokers there."""
    from confluent_kafka import KafkaException

    reader = theirs.reader(committed_only=False)
    try:
        assert reader.list_topics(topic, timeout=10).brokers
        with brokers.empty(), suppress(KafkaException):  # it may have asked by itself before
            assert not reader.list_topics(topic, timeout=10).brokers
        for _ in range(3):
            with pytest.raises(KafkaException, match="transport failure"):
                reader.list_topics(topic, timeout=1)
    finally:
        reader.close()


def test_a_topics_end_is_told_again(brokers: BrokerList, theirs: KafkaCluster, topic: str) -> None:
    end = TopicEnd(theirs, topic)
    try:
        assert end.offset(10) == 0
        _lose(brokers, lambda: end.offset(1))
        assert end.offset(10) == 0
    finally:
        end.close()


def test_a_watch_goes_on_where_it_was(
    brokers: BrokerList, cluster: KafkaCluster, topic: str
) -> None:
    """The records of the time when it heard nothing come once, and so do those after them."""
    writing = KafkaMetadataStore(cluster.bootstrap_servers, topic)
    watching = KafkaMetadataStore(brokers.servers, topic, client_config=LOST_FOR_GOOD)
    seen: queue.Queue[Change] = queue.Queue()
    try:
        watching.watch({"n"}, seen.put)
        writing.put("n", "k", b"before")
        assert seen.get(timeout=10).value == b"before"
        brokers.lose()
        writing.put("n", "k", b"meanwhile")
        assert seen.get(timeout=30).value == b"meanwhile"
        writing.put("n", "k", b"after")
        assert seen.get(timeout=10).value == b"after"
        assert seen.empty()
    finally:
        watching.close()
        writing.close()


def test_a_store_reads_and_writes_again(
    brokers: BrokerList, cluster: KafkaCluster, topic: str
) -> None:
    """Each of its clients fails one call at most, and what others wrote meanwhile is there."""
    store = KafkaMetadataStore(brokers.servers, topic, client_config=LOST_FOR_GOOD, timeout_s=2)
    others = KafkaMetadataStore(cluster.bootstrap_servers, topic)
    try:
        store.put("n", "k", b"before")
        assert store.get("n", "k") == b"before"
        _lose(brokers, lambda: store.put("n", "lost", b"lost"), lambda: store.get("n", "k"))
        others.put("n", "k", b"meanwhile")
        assert _answered(lambda: store.get("n", "k"), calls=3) == b"meanwhile"
        _answered(lambda: store.put("n", "k", b"after"), calls=2)
        assert store.get("n", "k") == b"after"
    finally:
        store.close()
        others.close()


def test_a_leader_gives_up_a_commit_that_only_a_lost_client_fails(
    brokers: BrokerList, topic: str
) -> None:
    """It isn't pending, as it is while the brokers are away: the writer leads anew and commits."""
    writer = StateWriter(
        brokers.servers, topic, uuid.uuid4().hex, client_config=LOST_FOR_GOOD, timeout_s=2
    )
    batch = [(topic, BATCH_KEY, BATCH_VALUE)]
    try:
        writer.take_over()
        writer.commit(batch)
        brokers.lose()
        with pytest.raises(Unreachable):
            writer.commit(batch)
        assert not writer.has_pending
        assert BATCH_KEY.decode() in writer.take_over().records
        writer.commit(batch)
    finally:
        writer.close()


def test_logins_are_told_again(brokers: BrokerList, theirs: KafkaCluster, topic: str) -> None:
    """At once, by a new client: an admin client hears of no broker with the topics that it asks for."""
    from confluent_kafka import KafkaException

    authorizer = Authorizer(theirs, deadline_s=2)
    try:
        authorizer.logins()
        with authorizer._kept.use() as admin, brokers.empty(), suppress(KafkaException):
            assert not admin.list_topics(topic, timeout=10).brokers
        authorizer.logins()
    finally:
        authorizer.close()


@pytest.mark.usefixtures("topic")
def test_a_broker_that_names_no_brokers_proves_no_fence(brokers: BrokerList) -> None:
    """Nobody has been asked then: who is still served isn't known."""
    view = PrincipalView(brokers.servers, "anybody", "", {"security.protocol": "PLAINTEXT"})
    assert view.brokers_still_serving() == (brokers.servers,)
    with brokers.empty(), pytest.raises(Unreachable, match="names none"):
        view.brokers_still_serving()
    assert view.brokers_still_serving() == (brokers.servers,)


def _lose(brokers: BrokerList, *calls: Callable[[], object]) -> None:
    """Each call has failed, while nobody hears of a broker."""
    with brokers.empty():
        for call in calls:
            until("a call isn't answered", lambda call=call: _fails(call))


def _fails(call: Callable[[], object]) -> bool:
    try:
        call()
    except Unreachable:
        return True
    return False


def _answered(call: Callable[[], Value], *, calls: int) -> Value:
    for _ in range(calls - 1):
        with suppress(Unreachable):
            return call()
    return call()
