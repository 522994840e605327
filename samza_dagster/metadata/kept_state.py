"""A state topic that one client reads again and again: what came since its last reading.

A state of 1,000 containers has 20,000 remembered requests beside its groups: to read all that
anew costs more than the rest of a look at the job.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

from samza_dagster.metadata.kafka_client import KafkaCluster
from samza_dagster.metadata.state_topic import Gathered, Snapshot
from samza_dagster.metadata.topic_reader import TopicEnd, TopicReader, TopicRecord


class KeptState:
    """The current records of a state topic. Thread-safe; connects at the first call.

    For clients: whoever is about to lead reads all of it anew (`read_snapshot`).
    """

    def __init__(
        self,
        bootstrap_servers: str,
        topic: str,
        *,
        client_config: Mapping[str, str] | None = None,
        timeout_s: float = 10.0,
    ) -> None:
        self._cluster = KafkaCluster(bootstrap_servers, client_config)
        self._topic = topic
        self._timeout_s = timeout_s
        self._end = TopicEnd(self._cluster, topic)
        self._lock = threading.Lock()
        self._reader: TopicReader | None = None
        self._gathered = Gathered(topic)
        self._ahead: list[TopicRecord] = []
        self._read_to = 0

    def snapshot(self) -> Snapshot:
        """All records whose commit had returned before the call; as `StateReader.snapshot`."""
        with self._lock:
            end, _ = self._end.settled(self._timeout_s)
            if end < self._read_to:  # the topic was made anew
                self._forget()
            try:
                self._catch_up(end)
            except BaseException:
                self._forget()
                raise
            return self._gathered.snapshot(end)

    def close(self) -> None:
        """Releases connections; the next call reads anew."""
        with self._lock:
            self._forget()
        self._end.close()

    def _catch_up(self, end: int) -> None:
        ahead, self._ahead = self._ahead, []

        def keep(record: TopicRecord) -> None:
            if record.offset < end:
                self._gathered.take(record)
            else:  # of a commit that may not be read whole
                self._ahead.append(record)

        for record in ahead:
            keep(record)
        if self._reader is None:
            self._reader = TopicReader(self._cluster, self._topic, committed_only=True)
        self._reader.read_until(end, keep, self._timeout_s)
        self._read_to = end

    def _forget(self) -> None:
        reader, self._reader = self._reader, None
        self._gathered, self._ahead, self._read_to = Gathered(self._topic), [], 0
        if reader is not None:
            reader.close()
