"""What a coordinator goes on with: the state that its predecessor's records hold.

The records are those of the state topic (`coordinator/durable.py` writes them): one for
the job, one per container group, host and remembered request. A log of events begins
each term with them, so that what is replayed was restored as in production.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from immutables import Map

from samza_dagster.placement.codec import group_from_json, job_from_json
from samza_dagster.placement.index_draft import rebuilt
from samza_dagster.placement.state import Host, JobState

JOB = "job"
HOST, GROUP, UUID, REFUSED = "host/", "group/", "uuid/", "refused/"

Values = Mapping[str, Mapping[str, Any]]


def restore(records: Values, job: str) -> JobState:
    """The state that the records hold; a new job's state when there are none.

    `records` come in order of offset, which is the order of the remembered requests.
    Raises `MalformedRecord` for a form that this release doesn't know: a coordinator
    must not lead on half a state.
    """
    state = job_from_json(records[JOB]["state"]) if JOB in records else JobState(job=job)
    groups = [group_from_json(v["group"]) for k, v in records.items() if k.startswith(GROUP)]
    hosts = [
        Host(str(v["host"]), bool(v["alive"]), fault_domain=str(v.get("fault_domain", "")))
        for k, v in records.items()
        if k.startswith(HOST)
    ]
    return rebuilt(
        replace(
            state,
            groups=Map({group.group_id: group for group in groups}),
            hosts=Map({host.host: host for host in hosts}),
            uuids=_places(records, UUID, state.next_uuid),
            refused=_places(records, REFUSED, state.next_refused),
        )
    )


def _places(records: Iterable[str], prefix: str, end: int) -> Map[str, int]:
    """Remembered requests in the order of their records, the newest just before `end`."""
    uuids = [key.removeprefix(prefix) for key in records if key.startswith(prefix)]
    return Map({uuid: end - len(uuids) + place for place, uuid in enumerate(uuids)})
