"""The audit topic on a real broker: written with the state or not at all, read whole."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from confluent_kafka import (
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
)

from samza_dagster.client.audit_history import read_history
from samza_dagster.coordinator.kafka import KafkaLog
from samza_dagster.errors import Fenced, InvalidInput
from samza_dagster.metadata import Connection, KafkaCluster, StateWriter, ensure_topic, retained
from samza_dagster.metadata.audit_log import AuditLog
from samza_dagster.placement.certificates import AuditRecord
from samza_dagster.placement.commands import RecordCertificate
from samza_dagster.placement.verification import Verdict, verify
from tests.rig.topic_records import records_of
from tests.unit.placement.chronicle import Chronicle

pytestmark = pytest.mark.contract


@dataclass
class Leader:
    """The commits of one job, and its history."""

    connection: Connection
    chronicle: Chronicle

    def __post_init__(self) -> None:
        c = self.connection
        cluster = KafkaCluster(c.bootstrap_servers)
        for topic in (c.state_topic, c.coordinator_stream_topic):
            ensure_topic(cluster, topic)
        ensure_topic(cluster, c.audit_topic, config=retained(3_600_000))
        self.writer = self.take_over()

    def take_over(self) -> StateWriter:
        writer = StateWriter(
            self.connection.bootstrap_servers, self.connection.state_topic, self.connection.job_name
        )
        writer.take_over()
        return writer

    def log(self) -> KafkaLog:
        return KafkaLog(self.connection, self.writer, lambda: 1, lambda: False)

    def commit(self, *records: AuditRecord) -> None:
        last = self.chronicle.records[-1]
        state = {
            "certificates": last.number,
            "certificate_hash": last.digest,
            "certificate_at_ms": last.at_ms,
        }
        self.log().commit([("job", {"state": state})], [RecordCertificate(r) for r in records])

    def move(self) -> None:
        """An active dies and starts elsewhere, a commit each."""
        self.commit(self.chronicle.start("0", "host-1"))
        self.commit(self.chronicle.end(self.chronicle.not_ended["0"]))
        self.commit(self.chronicle.start("0", "host-2"), self.chronicle.start("0-0", "host-1"))

    def verdict(self) -> Verdict:
        history = read_history(self.connection)
        return verify(history.records, history.head, since_ms=history.since_ms)

    def seen(self) -> list[dict[str, Any]]:
        """The committed records by a plain consumer."""
        found = records_of(self.connection, self.connection.audit_topic)
        return [json.loads(value or b"") for _, value in found]


@pytest.fixture
def leader(bootstrap_servers: str) -> Iterator[Leader]:
    made = Leader(Connection(bootstrap_servers, f"audit-{uuid.uuid4().hex[:8]}"), Chronicle())
    yield made
    made.writer.close()


def test_records_are_appended_with_the_state(leader: Leader) -> None:
    """A plain consumer sees them in order; the history is whole and fits the state."""
    leader.move()
    assert [(r["version"], r["number"], r["kind"]) for r in leader.seen()] == [
        (1, 1, "start"),
        (1, 2, "end"),
        (1, 3, "start"),
        (1, 4, "start"),
    ]
    verdict = leader.verdict()
    assert verdict.violation is None
    assert (verdict.records, verdict.complete) == (4, True)


def test_what_a_deposed_leader_couldnt_commit_is_in_no_history(leader: Leader) -> None:
    """The state of its step isn't there either, so both agree."""
    leader.move()
    deposed, leader.writer = leader.writer, leader.take_over()
    fresh = leader.writer
    leader.writer = deposed
    ahead = leader.chronicle.start("1", "host-3")
    with pytest.raises(Fenced):
        leader.commit(ahead)
    leader.writer = fresh
    assert len(leader.seen()) == 4
    assert leader.verdict().ok


@pytest.mark.parametrize(("old", "rule"), [(True, None), (False, "retention")])
def test_records_that_are_gone_are_missed_unless_they_were_old(
    leader: Leader, old: bool, rule: str | None
) -> None:
    """As time retention does it: the log's start moves, here by hand. The topic keeps an hour."""
    if not old:
        leader.chronicle.now_ms = int(time.time() * 1000) - 600_000
    leader.move()
    admin = AdminClient({"bootstrap.servers": leader.connection.bootstrap_servers})
    for offset, left in ((3, [3, 4]), (7, [])):
        place = TopicPartition(leader.connection.audit_topic, 0, offset)
        admin.delete_records([place])[place].result(10)
        history = read_history(leader.connection)
        verdict = verify(history.records, history.head, since_ms=history.since_ms)
        assert (verdict.violation and verdict.violation.rule) == rule
        assert ([r.number for r in history.records], verdict.complete) == (left, False)


def test_a_job_without_an_audit_topic_is_unknown(bootstrap_servers: str) -> None:
    """Samza's own coordinator keeps no such history."""
    connection = Connection(bootstrap_servers, f"nobody-{uuid.uuid4().hex[:8]}")
    with pytest.raises(InvalidInput, match=connection.audit_topic):
        read_history(connection)
    log = AuditLog(KafkaCluster(bootstrap_servers), connection.audit_topic)
    with pytest.raises(InvalidInput):
        log.records()
    log.close()
