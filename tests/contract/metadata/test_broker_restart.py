"""What goes on by itself when the broker goes away and comes back."""

from __future__ import annotations

import queue
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from samza_dagster.errors import Unreachable
from samza_dagster.metadata import (
    Change,
    KafkaCluster,
    KafkaMetadataStore,
    StateReader,
    StateWriter,
    ensure_topic,
)
from samza_dagster.sandbox.broker import start_broker

pytestmark = pytest.mark.contract


def test_watches_stores_and_leader_go_on_after_the_broker_came_back(
    tmp_path: Path,
) -> None:
    """While it is away calls end with Unreachable; after that nothing was lost and nobody fenced."""
    broker = start_broker(tmp_path / "broker")
    servers: str = broker.bootstrap_servers
    ensure_topic(KafkaCluster(servers), "stream")
    ensure_topic(KafkaCluster(servers), "state")
    store = KafkaMetadataStore(servers, "stream", timeout_s=2)
    writer = StateWriter(servers, "state", uuid.uuid4().hex, timeout_s=2)
    seen: queue.Queue[Change] = queue.Queue()
    try:
        watch = store.watch(seen.put)
        store.put("n", "k", b"before")
        assert seen.get(timeout=10).value == b"before"
        writer.take_over()
        writer.commit([("state", b"job", b'{"version":1,"n":1}')])

        broker.close()
        with pytest.raises(Unreachable, match=servers):
            store.get("n", "k")
        with pytest.raises(Unreachable, match=servers):
            store.put("n", "k", b"never")
        with pytest.raises(Unreachable, match=servers):
            writer.commit([("state", b"job", b'{"version":1,"n":2}')])
        assert writer.pending

        broker.start()
        _until_reachable(lambda: store.put("n", "k", b"after"))
        assert store.get("n", "k") == b"after"
        assert seen.get(timeout=15).value == b"after"
        _until_reachable(writer.finish_pending)
        assert not writer.pending
        writer.commit([("state", b"other", b'{"version":1,"n":3}')])
        records = StateReader(servers, "state").snapshot().records
        assert {key: record.value["n"] for key, record in records.items()} == {"job": 2, "other": 3}
        watch.close()
        assert seen.empty()
    finally:
        store.close()
        writer.close()
        broker.close()


def _until_reachable(call: Callable[[], object]) -> None:
    for _ in range(10):  # each call has a deadline of 2 s
        try:
            call()
        except Unreachable:
            continue
        return
    pytest.fail("unreachable for 20 s after the broker came back")
