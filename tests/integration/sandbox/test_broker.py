"""The embedded broker: quick, alone on loopback, and gone when it's closed."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from samza_dagster.errors import MissingPrerequisite
from samza_dagster.metadata import KafkaCluster, ensure_topic
from samza_dagster.metadata.connection import Connection
from samza_dagster.sandbox import broker as broker_module
from samza_dagster.sandbox import kafka_client
from samza_dagster.sandbox.broker import Broker
from samza_dagster.sandbox.ports import free_ports
from tests.rig.topic_records import records_of
from tests.rig.waiting import until

pytestmark = pytest.mark.integration


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        yield holder.getsockname()[1]


@pytest.mark.realfault
def test_takes_transactions_and_keeps_data_and_port_over_a_sigkill(tmp_path: Path) -> None:
    """What was committed is there when it is started again at the same address."""
    broker = Broker(tmp_path).start()
    try:
        ensure_topic(KafkaCluster(broker.bootstrap_servers), "t", config={})
        producer = kafka_client.producer(broker.bootstrap_servers, {"transactional.id": "x"})
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce("t", b"v")
        producer.commit_transaction(30)
        address = broker.bootstrap_servers
        broker.process.send(signal.SIGKILL)
        assert broker.process.wait(5)
        broker.start()
        assert broker.bootstrap_servers == address
        # Its end isn't asked: a marker that was written before the kill may be written again.
        judge = Connection(address, "any")
        until("what was committed", lambda: records_of(judge, "t") == [(None, b"v")])
    finally:
        broker.close()
    # Clients know the address: it isn't changed behind their back.
    with socket.socket() as stranger:
        stranger.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        stranger.bind(("127.0.0.1", int(address.split(":")[1])))
        stranger.listen()
        with pytest.raises(MissingPrerequisite, match="taken"):
            broker.start()


def test_a_port_that_was_taken_meanwhile_is_replaced(
    tmp_path: Path, taken_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process got it between the look and the start."""
    offers = [(taken_port, *free_ports(1)), free_ports(2)]
    monkeypatch.setattr(broker_module, "free_ports", lambda _: offers.pop(0))
    with Broker(tmp_path) as broker:
        assert broker.bootstrap_servers != f"127.0.0.1:{taken_port}"
