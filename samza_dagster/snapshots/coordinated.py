"""What our own coordinator has recorded of a job, as facts: where each container is, before that one says so.

Pure. A state topic's records are the coordinator's alone, written in transactions (`state_topic`).
"""

from __future__ import annotations

import json
from typing import Any

from samza_dagster.errors import MalformedRecord
from samza_dagster.metadata.state_topic import decode_record, is_state
from samza_dagster.metadata.topic_reader import TopicRecord
from samza_dagster.placement import codec
from samza_dagster.placement.restoring import GROUP, HOST, JOB
from samza_dagster.placement.state import Phase
from samza_dagster.snapshots import facts
from samza_dagster.snapshots.facts import Fact, Unreadable


class Coordinated:
    """Reads the records of one state topic, in order.

    A start that is seen from its command to its container's check-in tells how long it took, by the
    times of the two records; what the container restores comes after that.
    """

    def __init__(self) -> None:
        self._started_ms: dict[str, int] = {}

    def facts(self, key: bytes | None, value: bytes | None, came_ms: int) -> list[Fact]:
        """Of one record: a job's deployment, a host, or a container group. Raises `Unreadable`."""
        name = key.decode() if key is not None and is_state(key) else ""
        if not name.startswith((JOB, HOST, GROUP)):
            return []
        try:
            record = decode_record("of its coordinator", TopicRecord(key, value, came_ms))
            content = record.value
            if name.startswith(GROUP):
                return self._group(name.removeprefix(GROUP), content, came_ms)
            if name.startswith(HOST):
                alive = content is not None and content.get("alive") is True
                return [Fact(facts.AGENT, name.removeprefix(HOST), "alive" if alive else None)]
            job = None if content is None else codec.job_from_json(content.get("state"))
            return [Fact(facts.DEPLOYMENT, "", None if job is None else job.deployment_id)]
        except MalformedRecord as error:
            raise Unreadable(error.seen) from None

    def _group(self, name: str, content: Any, came_ms: int) -> list[Fact]:
        if content is None:
            return [Fact(facts.GROUP, name, None)]
        places: dict[str, list[str | None]] = {}
        starts: list[Fact] = []
        for one in codec.group_from_json(content.get("group")).processors.values():
            run = one.incarnation
            if run is None:
                places[one.processor_id] = [one.phase.value, None, None]
                continue
            places[one.processor_id] = [one.phase.value, run.host, run.execution_id]
            if one.phase is Phase.STARTING:
                self._started_ms.setdefault(run.execution_id, came_ms)
                continue
            began_ms = self._started_ms.pop(run.execution_id, None)
            if began_ms is not None and one.phase is Phase.RUNNING:
                took_s = str(max(0, came_ms - began_ms) / 1000)
                starts.append(Fact(facts.START, one.processor_id, took_s, source=run.host))
        return [Fact(facts.GROUP, name, json.dumps(places)), *starts]
