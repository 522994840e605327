"""`KafkaMetadataStore` on a real broker, judged by plain consumers and producers."""

from __future__ import annotations

import queue
import time
import uuid
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from samza_dagster.errors import InvalidInput, MalformedRecord
from samza_dagster.metadata import (
    Change,
    KafkaCluster,
    KafkaMetadataStore,
    ensure_topic,
)
from tests.rig.pace import PACE

pytestmark = pytest.mark.contract


@pytest.fixture
def store(bootstrap_servers: str, topic: str) -> Iterator[KafkaMetadataStore]:
    store = KafkaMetadataStore(bootstrap_servers, topic)
    yield store
    store.close()


def outsider(bootstrap_servers: str, **settings: str) -> Producer:
    return Producer({"bootstrap.servers": bootstrap_servers, "linger.ms": 0, **settings})


def records_of(bootstrap_servers: str, topic: str, count: int) -> list[tuple[bytes, bytes | None]]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": uuid.uuid4().hex,
            "isolation.level": "read_uncommitted",
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = []
    deadline = time.monotonic() + 10 * PACE
    while len(found) < count and time.monotonic() < deadline:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            found.append((message.key(), message.value()))
    consumer.close()
    return found


def test_a_store_that_was_prepared_writes_at_once(bootstrap_servers: str, topic: str) -> None:
    """A new idempotent producer may look for its id only after half a second. Best of three."""
    seconds: list[float] = []
    for number in range(3):
        store = KafkaMetadataStore(bootstrap_servers, topic)
        began = time.monotonic()
        store.prepare_writes()
        assert time.monotonic() - began < 0.4 * PACE
        store.end_position()
        time.sleep(0.8)  # what a caller does meanwhile
        began = time.monotonic()
        store.put("set-config", f"key-{number}", b"value")
        seconds.append(time.monotonic() - began)
        store.close()
    assert min(seconds) < min(0.25 * PACE, 0.45), seconds  # half a second is the fault itself


def test_what_one_store_writes_another_reads_at_once(
    store: KafkaMetadataStore, bootstrap_servers: str, topic: str
) -> None:
    """A get reads up to the end at the time of the call, however the record came there."""
    other = KafkaMetadataStore(bootstrap_servers, topic)
    for number in range(20):
        value = str(number).encode()
        assert store.put("set-config", "a", value) == number
        assert other.get("set-config", "a") == value
    store.remove("set-config", "a")
    store.put("set-config", "b", b"2")
    store.put("set-changelog", "b", b"3")
    assert other.get("set-config", "a") is None
    assert other.all("set-config") == {"b": b"2"}
    assert other.all("set-changelog") == {"b": b"3"}
    store.put("set-changelog", "c", b"4")
    whole = {n: {k: kept.value for k, kept in keys.items()} for n, keys in other.whole().items()}
    assert whole == {"set-config": {"b": b"2"}, "set-changelog": {"b": b"3", "c": b"4"}}
    assert other.whole()["set-changelog"]["c"].position == other.end_position() - 1
    assert other.end_position() == 24
    written = other.written_ms("set-config", ["a", "b", "never"])
    assert written.keys() == {"a", "b"}, "a was deleted since, and its record is still there"
    assert abs(written["a"] / 1000 - time.time()) < 60
    other.close()


def test_keys_lie_in_the_topic_as_samza_writes_them(
    store: KafkaMetadataStore, bootstrap_servers: str, topic: str
) -> None:
    """Compaction compares bytes: a plain consumer sees exactly Samza's key, and a true tombstone."""
    store.put("set-config", "app.run.id", b"x")
    store.remove("set-config", "app.run.id")
    assert records_of(bootstrap_servers, topic, 2) == [
        (b'[1,"set-config","app.run.id"]', b"x"),
        (b'[1,"set-config","app.run.id"]', None),
    ]


def test_a_stream_that_ends_in_transaction_markers_is_read_to_its_end(
    store: KafkaMetadataStore, bootstrap_servers: str, topic: str
) -> None:
    """The last offsets hold no record; the read returns, with open and aborted records seen too."""
    producer = outsider(bootstrap_servers, **{"transactional.id": uuid.uuid4().hex})
    producer.init_transactions(30)
    started = time.monotonic()
    for number in range(3):
        producer.begin_transaction()
        producer.produce(topic, key=b'[1,"set-config","a"]', value=str(number).encode())
        producer.flush(10)
        assert store.get("set-config", "a") == str(number).encode()
        producer.commit_transaction(10)
        assert store.get("set-config", "a") == str(number).encode()
    producer.begin_transaction()
    producer.produce(topic, key=b'[1,"set-config","a"]', value=b"aborted")
    producer.flush(10)
    producer.abort_transaction(10)
    assert store.get("set-config", "a") == b"aborted"
    _wait_for(lambda: store.end_position() == 8)  # the marker follows the answer
    assert store.get("set-config", "a") == b"aborted"
    fresh = KafkaMetadataStore(bootstrap_servers, topic)
    assert fresh.all("set-config") == {"a": b"aborted"}
    fresh.close()
    assert time.monotonic() - started < 15 * PACE


@pytest.fixture
def leaders_store(bootstrap_servers: str, topic: str) -> Iterator[KafkaMetadataStore]:
    """As a leader reads: the newest that was committed."""
    store = KafkaMetadataStore(bootstrap_servers, topic, committed_only=True)
    yield store
    store.close()


def test_a_deletion_that_a_dead_leader_left_uncommitted_hides_no_request(
    store: KafkaMetadataStore, leaders_store: KafkaMetadataStore, bootstrap_servers: str, topic: str
) -> None:
    """It died before the end of its transaction, which the next one's take-over aborts."""
    store.put("n", "request", b"move")
    store.put("n", "kept", b"old")
    leader = {"transactional.id": uuid.uuid4().hex}
    dead = outsider(bootstrap_servers, **leader)
    dead.init_transactions(30)
    dead.begin_transaction()
    dead.produce(topic, key=b'[1,"n","request"]', value=None)
    dead.produce(topic, key=b'[1,"n","kept"]', value=b"aborted")
    dead.flush(10)
    following = outsider(bootstrap_servers, **leader)
    following.init_transactions(30)
    assert leaders_store.all("n") == {"request": b"move", "kept": b"old"}
    following.begin_transaction()
    following.produce(topic, key=b'[1,"n","kept"]', value=b"new")
    following.commit_transaction(30)
    assert leaders_store.get("n", "kept") == b"new"
    assert leaders_store.get("n", "request") == b"move"


def test_an_open_transaction_holds_up_no_request_of_a_leader(
    store: KafkaMetadataStore,
    leaders_store: KafkaMetadataStore,
    bootstrap_servers: str,
    topic: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One that nobody ends: what is written behind it is watched at once and read with a warning.

    Once it is aborted, what was in it is gone.
    """
    store.put("n", "before", b"1")
    store.put("n", "deleted", b"1")
    hung = outsider(bootstrap_servers, **{"transactional.id": uuid.uuid4().hex})
    hung.init_transactions(30)
    hung.begin_transaction()
    hung.produce(topic, key=b'[1,"n","deleted"]', value=None)
    hung.flush(10)
    position = leaders_store.end_position()
    assert position == 2
    assert leaders_store.all("n") == {"before": b"1"}
    assert "stays open at offset 2" in caplog.text
    seen: queue.Queue[Change] = queue.Queue()
    watch = leaders_store.watch({"n"}, seen.put, since=position)
    store.put("n", "behind", b"2")
    assert [seen.get(timeout=10 * PACE).key for _ in range(2)] == ["deleted", "behind"]
    watch.close()
    assert leaders_store.all("n") == {"before": b"1", "behind": b"2"}
    hung.abort_transaction(30)
    assert leaders_store.all("n") == {"before": b"1", "deleted": b"1", "behind": b"2"}


def test_a_watch_sees_each_record_once_in_order_from_where_it_was_asked(
    store: KafkaMetadataStore,
) -> None:
    """From an offset: all since then. From now: what is written after the call returned."""
    for number in range(3):
        store.put("n", "k", str(number).encode())
    since: queue.Queue[Change] = queue.Queue()
    fresh: queue.Queue[Change] = queue.Queue()
    watches = [store.watch({"n"}, since.put, since=1), store.watch({"n"}, fresh.put)]
    store.put("n", "k", b"3")
    store.remove("n", "k")
    assert [since.get(timeout=10 * PACE).value for _ in range(4)] == [b"1", b"2", b"3", None]
    changes = [fresh.get(timeout=10 * PACE) for _ in range(2)]
    assert [(c.namespace, c.key, c.value, c.position) for c in changes] == [
        ("n", "k", b"3", 3),
        ("n", "k", None, 4),
    ]
    assert abs(changes[0].timestamp_ms / 1000 - time.time()) < 60
    for watch in watches:
        watch.close()
    assert since.empty()


def test_records_that_cannot_be_read_are_reported_and_stop_nobody(
    bootstrap_servers: str, topic: str
) -> None:
    """A stranger's key is told with topic and offset; readers and watches go on behind it."""
    told: list[MalformedRecord] = []
    store = KafkaMetadataStore(bootstrap_servers, topic, on_malformed=told.append)
    seen: queue.Queue[Change] = queue.Queue()
    watch = store.watch({"n"}, seen.put)
    producer = outsider(bootstrap_servers)
    for key in (b"not json", b"", b'{"a":1}', b"[1,2]", b"\xff"):
        producer.produce(topic, key=key, value=b"x")
    producer.produce(topic, key=b'[1,"n","k"]', value=b"good")
    producer.flush(10)
    assert store.get("n", "k") == b"good"
    assert seen.get(timeout=10 * PACE).value == b"good"
    watch.close()
    # By the reader and by the watch, whose thread reads beside it.
    words = [f"topic {topic}, offset {n}, key" for n in range(5)]
    assert [sum(word in one.seen for one in told) for word in words] == [2] * 5
    assert len(told) == 10
    store.close()


def test_a_watch_outlives_a_callback_that_fails(store: KafkaMetadataStore) -> None:
    """A bug in one callback loses one record, not the watch."""
    seen: queue.Queue[Change] = queue.Queue()

    def fail_once(change: Change) -> None:
        if change.key == "bad":
            raise RuntimeError(change.key)
        seen.put(change)

    watch = store.watch({"n"}, fail_once)
    store.put("n", "bad", b"")
    store.put("n", "good", b"")
    assert seen.get(timeout=10 * PACE).key == "good"
    watch.close()


def test_an_unknown_job_is_refused_and_its_topic_not_created(
    bootstrap_servers: str, cluster: KafkaCluster
) -> None:
    """Reading, writing and watching name the topic; neither they nor preparing a write create it."""
    missing = f"__samza_coordinator_missing-{uuid.uuid4().hex[:8]}_1"
    store = KafkaMetadataStore(bootstrap_servers, missing)
    store.prepare_writes()
    for call in (
        lambda: store.get("n", "k"),
        lambda: store.put("n", "k", b""),
        lambda: store.watch({"n"}, lambda _: None),
        store.end_position,
    ):
        with pytest.raises(InvalidInput, match=missing):
            call()
    store.close()
    assert missing not in cluster.admin().list_topics(timeout=10).topics


def test_a_value_that_is_too_large_is_refused(store: KafkaMetadataStore) -> None:
    """A refusal by size is the caller's, not an unreachable broker; the store goes on."""
    with pytest.raises(InvalidInput):
        store.put("n", "k", b"x" * 3_000_000)
    store.put("n", "k", b"small")
    assert store.get("n", "k") == b"small"


def test_topics_are_created_once_and_checked(cluster: KafkaCluster, topic: str) -> None:
    """An existing topic of the same shape is fine, one of another shape is refused with the reason."""
    assert ensure_topic(cluster, topic) is False
    with pytest.raises(InvalidInput, match="1 partitions instead of 4"):
        ensure_topic(cluster, topic, partitions=4)
    with pytest.raises(InvalidInput, match=r"cleanup\.policy=compact instead of delete"):
        ensure_topic(cluster, topic, config={"cleanup.policy": "delete"})


def _wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10 * PACE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)
