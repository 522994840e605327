"""When each request for a placement stood in its topic, was held, committed and ended, by the broker's clock."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from samza_dagster.metadata.connection import Connection
from samza_dagster.model.own_requests import REQUEST_PREFIX, RESPONSE_PREFIX, RequestKind
from tests.rig.topic_records import timed_records_of


@dataclass
class Placed:
    """One placement that was reserved first, from its request to its end. Times in ms."""

    uuid: str
    processor: str
    asked_ms: int
    held_ms: int | None = None
    commit_ms: int | None = None
    ended_ms: int | None = None


def placements(connection: Connection) -> list[Placed]:
    """All that our coordinator was asked for by now, in order."""
    found: dict[str, Placed] = {}
    for at, key, value in timed_records_of(connection, connection.state_topic):
        name = key.decode()
        if value is None or not name.startswith((REQUEST_PREFIX, RESPONSE_PREFIX)):
            continue
        uuid = name.partition("/")[2]
        told: dict[str, Any] = json.loads(value)
        if name.startswith(REQUEST_PREFIX):
            if told["kind"] == RequestKind.PLACE.value:
                found.setdefault(uuid, Placed(uuid, told["processorId"], at))
            elif told["kind"] == RequestKind.COMMIT.value and told["refersTo"] in found:
                placed = found[told["refersTo"]]
                placed.commit_ms = placed.commit_ms or at
        elif uuid in found:
            placed = found[uuid]
            if told["responseMessage"].startswith("Reserved on host"):
                placed.held_ms = placed.held_ms or at
            if told["statusCode"] in ("SUCCEEDED", "FAILED", "BAD_REQUEST"):
                placed.ended_ms = placed.ended_ms or at
    return list(found.values())
