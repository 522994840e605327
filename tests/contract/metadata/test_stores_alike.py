"""What every `MetadataStore` promises: in memory, in Kafka and in ZooKeeper."""

from __future__ import annotations

import queue
import uuid
from collections.abc import Iterator

import pytest

from samza_dagster.metadata import KafkaMetadataStore, MetadataStore
from samza_dagster.metadata.zookeeper import ZooKeeper
from samza_dagster.metadata.zookeeper_store import ZooKeeperMetadataStore
from tests.rig.memory_store import MemoryMetadataStore

pytestmark = pytest.mark.contract


@pytest.fixture(params=["memory", "kafka", "zookeeper"])
def store(
    request: pytest.FixtureRequest, bootstrap_servers: str, topic: str, zookeeper: ZooKeeper
) -> Iterator[MetadataStore]:
    made: MetadataStore
    if request.param == "memory":
        made = MemoryMetadataStore()
    elif request.param == "kafka":
        made = KafkaMetadataStore(bootstrap_servers, topic)
    else:
        made = ZooKeeperMetadataStore(zookeeper, f"/app-a-1/j_{uuid.uuid4().hex}-1-2.0")
    yield made
    made.close()


def test_it_holds_the_newest_value_of_every_key(store: MetadataStore) -> None:
    """Whatever was written and deleted before; each change has a higher position than those before."""
    assert (store.get("n", "k"), store.all("n"), store.whole()) == (None, {}, {})
    positions = [
        store.put("n", "k", b"1"),
        store.put("n", "Partition 0/a", b""),
        store.put("m", "k", b"\0\xff" * 200_000),
        store.remove("m", "k"),
        store.put("m", "%2F", b"2"),
    ]
    end = store.end_position()
    positions.append(store.put("n", "k", b"3"))
    assert positions == sorted(set(positions))
    assert positions[-2] < end <= positions[-1]
    assert (store.get("n", "k"), store.get("m", "k")) == (b"3", None)
    assert store.all("n") == {"k": b"3", "Partition 0/a": b""}
    whole = {n: {k: kept.value for k, kept in keys.items()} for n, keys in store.whole().items()}
    assert whole == {"n": {"k": b"3", "Partition 0/a": b""}, "m": {"%2F": b"2"}}
    assert store.whole()["n"]["k"].position == positions[-1]
    assert store.written_ms("n", ["k", "never"]).keys() == {"k"}


def test_a_watch_is_told_what_has_changed_since_and_then_each_change(store: MetadataStore) -> None:
    """Of its namespaces alone; a deletion too; nothing after its end."""
    store.put("n", "before", b"")
    since = store.end_position()
    store.put("n", "k", b"1")
    store.put("other", "k", b"")
    seen: queue.Queue[tuple[str, bytes | None]] = queue.Queue()
    watch = store.watch({"n"}, lambda change: seen.put((change.key, change.value)), since=since)
    assert seen.get(timeout=10) == ("k", b"1")
    store.put("other", "k", b"2")
    store.put("n", "k", b"2")
    assert seen.get(timeout=10) == ("k", b"2")
    store.remove("n", "k")
    assert seen.get(timeout=10) == ("k", None)
    watch.close()
    store.put("n", "late", b"")
    assert seen.empty()
    changes, end = store.changes("n", since)
    assert (changes[-1].key, changes[-1].value) == ("late", b"")
    assert end == store.end_position()
    assert store.changes("n", end) == ((), end)
