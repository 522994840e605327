"""`ZooKeeperMetadataStore` on a real server: Samza's bytes, and what may go wrong."""

from __future__ import annotations

import queue
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from samza_dagster.errors import MalformedRecord, Unreachable
from samza_dagster.metadata import Change
from samza_dagster.metadata.zookeeper import ZooKeeper, ZooKeeperAddress, connect, connected
from samza_dagster.metadata.zookeeper_store import SEGMENT_BYTES, ZooKeeperMetadataStore
from samza_dagster.sandbox.zookeeper import ZooKeeperServer

pytestmark = pytest.mark.contract

ROOT = "/app-orders-1/orders_eu-1-2.0-coordinationData/jobModelGeneration"


@pytest.fixture
def store(zookeeper: ZooKeeper) -> Iterator[ZooKeeperMetadataStore]:
    store = ZooKeeperMetadataStore(zookeeper, ROOT)
    yield store
    store.close()
    if zookeeper.exists(ROOT) is not None:
        zookeeper.delete(ROOT, recursive=True)


def crc(value: bytes) -> bytes:
    return b"\0\0\0\0" + zlib.crc32(value).to_bytes(4, "big")


def test_values_lie_as_samza_writes_them(
    store: ZooKeeperMetadataStore, zookeeper: ZooKeeper
) -> None:
    """The bytes and an 8-byte checksum, in segments; a shorter value leaves none of the longer one."""
    large = bytes(range(256)) * 8_200
    store.put("jobModels", "7", large)
    assert sorted(zookeeper.get_children(f"{ROOT}/jobModels/7")) == ["0", "1", "2"]
    lie = b"".join(zookeeper.get(f"{ROOT}/jobModels/7/{n}")[0] for n in range(3))
    assert lie == large + crc(large)
    assert len(zookeeper.get(f"{ROOT}/jobModels/7/0")[0]) == SEGMENT_BYTES == 1_040_400
    assert store.get("jobModels", "7") == large
    store.put("jobModels", "7", b"{}")
    assert zookeeper.get_children(f"{ROOT}/jobModels/7") == ["0"]
    assert zookeeper.get(f"{ROOT}/jobModels/7/0")[0] == b"{}" + crc(b"{}")


def test_a_value_that_is_not_whole_is_named_and_hides_no_other(
    store: ZooKeeperMetadataStore, zookeeper: ZooKeeper
) -> None:
    """Its writer died half way: a read of it says so, others go on, and a watch tells it once it is whole."""
    store.put("n", "good", b"1")
    since = store.end_position()
    zookeeper.create(f"{ROOT}/n/torn/0", b"half of" + crc(b"half of it"), makepath=True)
    seen: queue.Queue[Change] = queue.Queue()
    store.watch({"n"}, seen.put, since=since)
    with pytest.raises(MalformedRecord, match=r"n/torn.*CRC-32"):
        store.get("n", "torn")
    assert store.all("n") == {"good": b"1"}
    zookeeper.set(f"{ROOT}/n/torn/0", b"half of it" + crc(b"half of it"))
    assert seen.get(timeout=10).value == b"half of it"


def test_a_watch_outlives_a_server_that_is_away_and_a_session_that_expires(tmp_path: Path) -> None:
    """What was written meanwhile by another is told, and nothing twice."""
    with (
        ZooKeeperServer(tmp_path) as server,
        connected(ZooKeeperAddress(server.hosts, session_s=3.0)) as ours,
    ):
        store = ZooKeeperMetadataStore(ours, ROOT)
        seen: queue.Queue[Change] = queue.Queue()
        store.watch({"n"}, seen.put)
        store.put("n", "k", b"1")
        assert seen.get(timeout=10).value == b"1"
        server.close()
        with pytest.raises(Unreachable, match="write k of n"):
            store.put("n", "k", b"lost")
        server.start()
        with connected(ZooKeeperAddress(server.hosts)) as other:
            ZooKeeperMetadataStore(other, ROOT).put("n", "k", b"2")
        assert seen.get(timeout=20).value == b"2"
        assert seen.empty()
        store.close()


def test_a_server_that_is_not_there_is_named() -> None:
    """Within the time that was given."""
    with pytest.raises(Unreachable, match=r"ZooKeeper at 127\.0\.0\.1:9"):
        connect(ZooKeeperAddress("127.0.0.1:9"), within_s=0.5)
