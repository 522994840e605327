"""What our own coordinator has recorded of a job, as facts: where each container is, before that one says so.

Pure. A state topic's records are the coordinator's alone, written in transactions (`state_topic`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from samza_dagster.metadata.state_topic import decode_record, is_state
from samza_dagster.metadata.topic_reader import TopicRecord
from samza_dagster.placement import codec
from samza_dagster.placement.restoring import GROUP, HOST, JOB
from samza_dagster.placement.state import Phase
from samza_dagster.snapshots import records
from samza_dagster.snapshots.records import Fact


class Place(NamedTuple):
    """Where our coordinator has a container, and in which phase (`placement.state.Phase`)."""

    phase: str
    host: str | None
    execution_id: str | None


Starts = list[tuple[str, float]]


class Coordinated:
    """Reads the records of one state topic, in order.

    A start that is seen from its command to its container's check-in tells how long it took, by the
    times of the two records; what the container restores comes after that.
    """

    def __init__(self) -> None:
        self._started_ms: dict[str, int] = {}

    def read(
        self, key: bytes | None, value: bytes | None, came_ms: int
    ) -> tuple[list[Fact], Starts]:
        """Decode a record of a job's deployment, a host, or a container group. Raises `MalformedRecord`."""
        name = key.decode() if key is not None and is_state(key) else ""
        if not name.startswith((JOB, HOST, GROUP)):
            return [], []
        content = decode_record("of its coordinator", TopicRecord(key, value, came_ms)).value
        if name.startswith(GROUP):
            return self._group(name.removeprefix(GROUP), content, came_ms)
        if name.startswith(HOST):
            alive = content is not None and content.get("alive") is True
            return [Fact(records.AGENT, name.removeprefix(HOST), True if alive else None)], []
        job = None if content is None else codec.job_from_json(content.get("state"))
        deployment = None if job is None else job.deployment_id
        return [Fact(records.DEPLOYMENT, "", deployment)], []

    def _group(self, name: str, content: Any, came_ms: int) -> tuple[list[Fact], Starts]:
        if content is None:
            return [Fact(records.GROUP, name, None)], []
        places: dict[str, Place] = {}
        starts: Starts = []
        for one in codec.group_from_json(content.get("group")).processors.values():
            run = one.incarnation
            if run is None:
                places[one.processor_id] = Place(one.phase.value, None, None)
                continue
            places[one.processor_id] = Place(one.phase.value, run.host, run.execution_id)
            if one.phase is Phase.STARTING:
                self._started_ms.setdefault(run.execution_id, came_ms)
                continue
            began_ms = self._started_ms.pop(run.execution_id, None)
            if began_ms is not None and one.phase is Phase.RUNNING:
                starts.append((run.host, max(0, came_ms - began_ms) / 1000))
        return [Fact(records.GROUP, name, places)], starts
