"""What goes on by itself when the broker goes away and comes back."""

from __future__ import annotations

import itertools
import queue
import threading
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
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
from samza_dagster.metadata.authorizer import Authorizer
from samza_dagster.metadata.state_topic import encode_record
from samza_dagster.sandbox.broker import Broker
from samza_dagster.sandbox.broker_settings import MECHANISM
from tests.rig.waiting import until

pytestmark = pytest.mark.contract


@pytest.mark.longcontract
def test_watches_stores_and_leader_go_on_after_the_broker_came_back(
    tmp_path: Path,
) -> None:
    """While it is away calls end with Unreachable; after that nothing was lost and nobody fenced."""
    broker = Broker(tmp_path / "broker").start()
    servers: str = broker.bootstrap_servers
    ensure_topic(KafkaCluster(servers), "stream")
    ensure_topic(KafkaCluster(servers), "state")
    store = KafkaMetadataStore(servers, "stream", timeout_s=2)
    writer = StateWriter(servers, "state", uuid.uuid4().hex, timeout_s=2)
    seen: queue.Queue[Change] = queue.Queue()
    try:
        watch = store.watch({"n"}, seen.put)
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
        assert writer.has_pending

        broker.start()
        _until_reachable(lambda: store.put("n", "k", b"after"))
        assert store.get("n", "k") == b"after"
        assert seen.get(timeout=15).value == b"after"
        _until_reachable(writer.finish_pending)
        assert not writer.has_pending
        writer.commit([("state", b"group/0", b'{"version":1,"n":3}')])
        records = StateReader(servers, "state").snapshot().records
        found = {key: r.value["n"] for key, r in records.items() if key != "take-over"}
        assert found == {"job": 2, "group/0": 3}
        watch.close()
        assert seen.empty()
    finally:
        store.close()
        writer.close()
        broker.close()


def test_whoever_takes_over_as_the_broker_comes_back_reads_all_that_was_committed(
    tmp_path: Path,
) -> None:
    """SIGKILL in the midst of commits; the take-over is tried from before the broker is back,
    and knows the last one that was acknowledged.
    """
    broker = Broker(tmp_path / "broker").start()
    servers = broker.bootstrap_servers
    ensure_topic(KafkaCluster(servers), "state")
    transactional_id = uuid.uuid4().hex
    try:
        old = StateWriter(servers, "state", transactional_id, timeout_s=1)
        old.take_over()
        acknowledged = threading.Event()
        last = [-1]
        thread = threading.Thread(target=_commit_until_refused, args=(old, last, acknowledged))
        thread.start()
        assert acknowledged.wait(30)
        broker.close(grace_s=0.0)
        thread.join(30)
        young = StateWriter(servers, "state", transactional_id, timeout_s=1)
        with ThreadPoolExecutor(1) as pool:
            taken = pool.submit(young.take_over, 60.0)
            broker.start()
            record = taken.result(90).records["job"].value
        assert record is not None
        # The one whose acknowledgement was lost may be there, or not.
        assert record["n"] in (last[0], last[0] + 1)
        old.close()
        young.close()
    finally:
        broker.close()


def _commit_until_refused(writer: StateWriter, last: list[int], enough: threading.Event) -> None:
    for n in itertools.count():
        try:
            writer.commit([("state", b"job", encode_record("", {"n": n})[1])])
        except Unreachable:
            return
        last[0] = n
        if n == 50:
            enough.set()


@pytest.mark.longcontract
def test_a_broker_that_is_killed_knows_every_login_when_it_is_back(tmp_path: Path) -> None:
    """Kafka forgets them all while it replays a deletion that comes first in its table, as with
    these names, unless a snapshot has one that stayed.
    """
    broker = Broker(tmp_path / "broker", authorizer=True).start()
    try:
        authorizer = Authorizer(KafkaCluster(broker.bootstrap_servers))
        for number in range(12):
            authorizer.set_login(f"user-{number}", "a", MECHANISM)
            if number % 4 != 3:
                authorizer.remove_logins([f"user-{number}"], MECHANISM)
        metadata = tmp_path / "broker" / "data" / "__cluster_metadata-0"
        before = set(metadata.glob("*.checkpoint"))
        until("one more snapshot", lambda: set(metadata.glob("*.checkpoint")) - before, seconds=40)
        broker.close(grace_s=0.0)
        broker.start()
        assert authorizer.logins() == {"user-3", "user-7", "user-11"}
    finally:
        broker.close()


def _until_reachable(call: Callable[[], object]) -> None:
    for _ in range(10):  # each call has a deadline of 2 s
        try:
            call()
        except Unreachable:
            continue
        return
    pytest.fail("unreachable for 20 s after the broker came back")
