"""The audit topic of a job, read whole: every committed record, in order.

The leading coordinator appends a record in the transaction of the state that it describes. Time
alone drops records: the oldest may be gone, none in between.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping

from samza_dagster.errors import MalformedRecord
from samza_dagster.metadata.kafka_client import KafkaCluster, remaining_s
from samza_dagster.metadata.topic_reader import TopicEnd, TopicRecord, read_stretch
from samza_dagster.metadata.topics import topic_config
from samza_dagster.placement.certificates import AuditRecord, audit_from_json, audit_to_json
from samza_dagster.placement.verification import CLOCKS_DIFFER_MS

DAY_MS = 86_400_000
DEFAULT_RETENTION_MS = 365 * DAY_MS
_ANSWER_S = 7.0


def encode_entry(record: AuditRecord) -> tuple[bytes, bytes]:
    """Return key (the record's number, unique under compaction) and value."""
    value = json.dumps(audit_to_json(record), separators=(",", ":"), ensure_ascii=False)
    return str(record.number).encode(), value.encode()


def decode_entry(topic: str, record: TopicRecord) -> AuditRecord:
    """Return the audit record; raise `MalformedRecord` that names topic and offset."""
    where = f"topic {topic}, offset {record.offset}"
    try:
        value: object = json.loads(record.value or b"")
    except (ValueError, RecursionError) as error:
        raise MalformedRecord(
            "read the audit history",
            seen=f"{where}: the value is no JSON",
            fix="find the process that wrote it: only the leading coordinator may write to this topic",
        ) from error
    return audit_from_json(value, where)


def kept_since_ms(config: Mapping[str, str], now_ms: int) -> int | None:
    """Return the time since which a topic of this config must still have all records.

    None where it may drop records for their size, or for a config that isn't understood. A margin
    of an hour, or a tenth of the retention if less, is for the clocks of leader, broker and
    reader.
    """
    try:
        retention_ms = int(config["retention.ms"])
        if int(config["retention.bytes"]) >= 0 or "delete" not in config["cleanup.policy"]:
            return None
    except (KeyError, ValueError):
        return None
    if retention_ms < 0:
        return 0
    return max(0, now_ms - retention_ms + min(CLOCKS_DIFFER_MS, retention_ms // 10))


class AuditLog:
    """Reads a job's audit topic from outside of its leader.

    `timeout_s` is for a whole reading; a broker has 7 s for an answer.
    """

    def __init__(self, cluster: KafkaCluster, topic: str, *, timeout_s: float = 120.0) -> None:
        self.topic = topic
        self._cluster = cluster
        self._timeout_s = timeout_s
        self._end = TopicEnd(self._cluster, topic)

    def records(self) -> tuple[AuditRecord, ...]:
        """Return all records committed before the call, in order of offset.

        Waits for an open transaction, a second at most. Raises `InvalidInput` when the topic
        doesn't exist, `MalformedRecord` that names the offset and the field, `Unreachable`.
        """
        deadline = time.monotonic() + self._timeout_s
        end, _ = self._end.settled(_ANSWER_S)
        found = read_stretch(self._cluster, self.topic, end, max(remaining_s(deadline), 1.0))
        return tuple(decode_entry(self.topic, record) for record in found)

    def kept_since_ms(self) -> int | None:
        """Return the time since which the topic must still have all records; None if unknown.

        It is unknown without the right to see the topic's config, for example. Raises
        `InvalidInput` when the topic doesn't exist, `Unreachable`.
        """
        config = topic_config(self._cluster, self.topic, _ANSWER_S)
        return None if config is None else kept_since_ms(config, int(time.time() * 1000))

    def close(self) -> None:
        """Release the connections."""
        self._end.close()
