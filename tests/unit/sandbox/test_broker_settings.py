"""A sandbox's brokers: their settings, one that has ended, and those that nobody reaches."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from samza_dagster.errors import ActionFailed, Unreachable
from samza_dagster.sandbox import kafka_client, process
from samza_dagster.sandbox.broker_settings import (
    authorizer_settings,
    broker_settings,
    cluster_settings,
    job_listener_settings,
)
from samza_dagster.sandbox.brokers import Brokers
from samza_dagster.sandbox.process import ProcessRecord
from samza_dagster.sandbox.readiness import Readiness

pytestmark = pytest.mark.unit


def settings(*, authorizer: bool) -> dict[str, str]:
    """With a listener of the job's own at port 4, told as `localhost:5`."""
    found = broker_settings(1, 2, Path("/data"))
    if authorizer:
        found |= authorizer_settings(1, 2, 3)
    return found | job_listener_settings(found, 4, "localhost:5")


@pytest.mark.parametrize("authorizer", [True, False])
def test_the_jobs_listener_tells_the_forwarders_address_and_the_others_their_own(
    authorizer: bool,
) -> None:
    """A client goes where it is told to, whatever it connected to first."""
    found = settings(authorizer=authorizer)
    own = ",SASL_PLAINTEXT://127.0.0.1:3" if authorizer else ""
    assert found["advertised.listeners"] == f"PLAINTEXT://127.0.0.1:1{own},JOB://localhost:5"
    assert set(found["listeners"].split(",")) == {
        "CONTROLLER://127.0.0.1:2",
        "JOB://127.0.0.1:4",
        *f"PLAINTEXT://127.0.0.1:1{own}".split(","),
    }


def test_where_there_is_an_authorizer_who_comes_by_the_jobs_listener_must_log_in() -> None:
    """A way past the fence would be one that nobody has shut."""
    fenced = settings(authorizer=True)
    assert "JOB:SASL_PLAINTEXT" in fenced["listener.security.protocol.map"].split(",")
    assert "ScramLoginModule" in fenced["listener.name.job.scram-sha-256.sasl.jaas.config"]
    assert fenced["authorizer.class.name"].endswith("StandardAuthorizer")
    open_ones = settings(authorizer=False)
    assert "JOB:PLAINTEXT" in open_ones["listener.security.protocol.map"].split(",")
    assert "authorizer.class.name" not in open_ones


@pytest.mark.parametrize(
    ("nodes", "copies", "in_sync"), [(2, "2", "1"), (3, "3", "2"), (5, "3", "2")]
)
def test_kafkas_own_topics_are_on_three_brokers_and_topics_without_a_factor_on_one(
    nodes: int, copies: str, in_sync: str
) -> None:
    """A topic that is created without saying how often it is kept must show."""
    found = broker_settings(1, 2, Path("/data")) | cluster_settings(2, nodes, "1@h:1,2@h:2")
    assert (found["node.id"], found["controller.quorum.voters"]) == ("2", "1@h:1,2@h:2")
    assert found["offsets.topic.replication.factor"] == copies
    assert found["transaction.state.log.replication.factor"] == copies
    assert found["transaction.state.log.min.isr"] == in_sync
    assert not {"default.replication.factor", "min.insync.replicas"} & set(found)


# A broker that ends by itself while a sandbox comes up: named at once, with what its log says.


def brokers(directory: Path, record: ProcessRecord, log: str) -> Brokers:
    """One, whose process is the given one."""
    made = Brokers(directory, 1)
    (node,) = made.nodes = made._new_nodes()
    node._process = record
    directory.mkdir(exist_ok=True)
    node.log.write_text(log)
    return made


def ended(directory: Path) -> ProcessRecord:
    """A real process that is over."""
    record = process.spawn("broker", [sys.executable, "-c", ""], log=directory / "out.log")
    assert record.wait(20.0)
    return record


def test_one_that_runs_is_fine(tmp_path: Path) -> None:
    """Whatever its log says."""
    own = ProcessRecord.of("broker", os.getpid())
    brokers(tmp_path / "broker", own, "No space left on device").require_running()


@pytest.mark.parametrize(
    ("log", "seen", "fix"),
    [
        (
            "java.io.IOException: No space left on device\n" + "later\n" * 50,
            "No space",
            "another disk",
        ),
        ("OutOfMemoryError: Java heap space\n", "OutOfMemoryError", "broker.log"),
    ],
)
def test_one_that_has_ended_is_told_with_its_reason(
    tmp_path: Path, log: str, seen: str, fix: str
) -> None:
    """A full disk by its name, though a broker says more after it."""
    with pytest.raises(ActionFailed) as raised:
        brokers(tmp_path / "broker", ended(tmp_path), log).require_running()
    assert seen in raised.value.seen
    assert fix in raised.value.fix


# What the sandbox's readers make of a client that can't reach the broker.


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
