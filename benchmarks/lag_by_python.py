"""The plain Python consumer that a pass over the fleet is held against: the same answer, with the same care."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import orjson

from benchmarks.lag_topic import TOPIC

HUGE_BYTES, DAY_MS = 4 << 20, 86_400_000
Row = tuple[str, str, str, str, str, int | None]
"""Job, its id, task, host, gauge, the offset applied last."""


class Newest(NamedTuple):
    """What each standby told last, and how many records can't be read."""

    rows: Sequence[Row] = ()
    unreadable: int = 0

    @property
    def shown(self) -> dict[str, Any]:
        """How much was found; `found` is the same for the same findings."""
        text = "\n".join([*sorted(map(repr, self.rows)), str(self.unreadable)])
        found = hashlib.sha256(text.encode()).hexdigest()[:12]
        return {"found": found, "rows": len(self.rows), "unreadable": self.unreadable}


def newest_by_python(servers: str, end: int, now_ms: int, *, tuned: bool = False) -> Newest:
    """Reads the topic up to an offset.

    A dictionary, orjson, and of most records the header alone: to parse all of each takes twice as long. `tuned`: the
    client doesn't wait a second whenever its queue has been full, as it does by default.
    """
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "bench",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "fetch.message.max.bytes": 8 << 20,
            "queued.max.messages.kbytes": 65_536,
            "fetch.queue.backoff.ms": 10 if tuned else 1_000,
        }
    )
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    newest: dict[tuple[str, str, str, str], dict[str, Any]] = {}
    unreadable = 0
    position = 0
    while position < end:
        for message in consumer.consume(*((500, 0.05) if tuned else (10_000, 1.0))):
            offset = message.offset()
            position = offset + 1
            if position > end:
                break
            value = message.value()
            try:
                if len(value) > HUGE_BYTES or message.timestamp()[1] > now_ms + DAY_MS:
                    raise ValueError("huge, or of another year")
                header = orjson.loads(value[10 : value.index(b"}") + 1])
                if not header["source"].startswith("TaskName-Standby-"):
                    continue
                replica = (header["job-name"], header["job-id"], header["source"], header["host"])
                newest[replica] = orjson.loads(value)["metrics"][
                    "org.apache.samza.container.TaskInstanceMetrics"
                ]
            except (ValueError, KeyError, TypeError):
                unreadable += 1
    consumer.close()
    rows = [
        (
            job,
            id_,
            task.removeprefix("TaskName-"),
            host,
            name,
            None if at == "null" or at is None else int(at),
        )
        for (job, id_, task, host), gauges in newest.items()
        for name, at in gauges.items()
        if name.endswith("-offset") and not name.startswith("side-inputs-")
    ]
    return Newest(rows, unreadable)
