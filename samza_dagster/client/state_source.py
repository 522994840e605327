"""Read the state that our coordinator recorded of a job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from samza_dagster.client.views import (
    ALIVE_STATE,
    CLOSED_STATE,
    LOST_STATE,
    HostView,
    LeaderView,
)
from samza_dagster.errors import InvalidInput, MalformedRecord, UnknownTopic, Unreachable
from samza_dagster.metadata.connection import Connection
from samza_dagster.metadata.job_topics import ANSWER_S
from samza_dagster.metadata.own_requests import OwnMail, read_mail
from samza_dagster.metadata.resource_manager import RUNNING
from samza_dagster.metadata.state_topic import StateReader
from samza_dagster.placement import codec
from samza_dagster.placement.state import Group, Limits

_JOB = "job"
_LEADER = "leader"
_GROUP = "group/"
_HOST = "host/"
_UUIDS = ("uuid/", "refused/")


@dataclass(frozen=True)
class CoordinatorState:
    """A deployment as its leader recorded it; `uuids` are requests that it has taken.

    `mail` are the requests of our own that wait, and the answers to those that don't.
    """

    deployment_id: str
    limits: Limits = field(default_factory=Limits)
    groups: Mapping[str, Group] = field(default_factory=dict[str, Group])
    hosts: Mapping[str, HostView] = field(default_factory=dict[str, HostView])
    uuids: frozenset[str] = frozenset()
    mail: OwnMail = field(default_factory=OwnMail)
    leader: LeaderView | None = None


def decode_state(
    records: Mapping[str, Mapping[str, Any]], mail: OwnMail | None = None
) -> CoordinatorState | None:
    """The state of the records of a state topic, by key; None without a `job` record.

    Raises `MalformedRecord` that names the key.
    """
    if _JOB not in records:
        return None
    groups: dict[str, Group] = {}
    hosts: dict[str, HostView] = {}
    uuids: set[str] = set()
    key = _JOB
    try:
        job = codec.job_from_json(records[_JOB].get("state"))
        for key, record in records.items():
            if key.startswith(_GROUP):
                groups[key.removeprefix(_GROUP)] = codec.group_from_json(record.get("group"))
            elif key.startswith(_HOST):
                hosts[key.removeprefix(_HOST)] = _host_view(key.removeprefix(_HOST), record)
            elif key.startswith(_UUIDS):
                uuids.add(key.partition("/")[2])
    except MalformedRecord as error:
        raise MalformedRecord(
            "read the coordinator's state", seen=f"key {key}: {error.seen}", fix=error.fix
        ) from error
    return CoordinatorState(
        deployment_id=job.deployment_id,
        limits=job.limits,
        groups=groups,
        hosts=hosts,
        uuids=frozenset(uuids),
        mail=mail or OwnMail(),
        leader=leader_view(records[_LEADER]) if _LEADER in records else None,
    )


def _number(record: Mapping[str, Any], name: str) -> int | None:
    value = record.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _host_view(host: str, record: Mapping[str, Any]) -> HostView:
    """Return a host's view; odd numbers become None. A node that YARN has lost may live on with its agent."""
    yarn_state = str(record.get("yarn_state") or "")
    open_state = ALIVE_STATE if yarn_state in ("", RUNNING) else CLOSED_STATE
    return HostView(
        host=host,
        state=open_state if record.get("alive") is True else LOST_STATE,
        memory_mb=_number(record, "memory_mb"),
        free_memory_mb=_number(record, "free_memory_mb"),
        cores=_number(record, "cores"),
        free_cores=_number(record, "free_cores"),
        fault_domain=str(record.get("fault_domain") or ""),
        yarn_state=yarn_state,
    )


def leader_view(record: Mapping[str, Any]) -> LeaderView:
    """Return the leader from its record in our state topic; absent or odd values are left out."""
    counters: Any = record.get("counters")
    counted = cast("dict[str, Any]", counters) if isinstance(counters, dict) else {}
    return LeaderView(
        epoch=_number(record, "epoch") or 0,
        host=str(record.get("host", "")),
        url=str(record.get("coordinator_url", "")),
        since_ms=_number(record, "since_ms"),
        beat_ms=_number(record, "beat_ms"),
        ended=record.get("ended") is True,
        beat_every_ms=_number(record, "beat_every_ms"),
        counters={str(name): value for name, value in counted.items() if isinstance(value, int)},
    )


class TopicStateSource:
    """A job's state topic, read-committed; what it has read it keeps."""

    def __init__(self, connection: Connection) -> None:
        self._reader = StateReader.of(connection, timeout_s=ANSWER_S, keep=True)

    def read(self) -> CoordinatorState | None:
        """The committed state; None when the topic doesn't exist or holds no job.

        Raises `Unreachable` also if this client may not read it, since the job's coordinator
        is unknown then.
        """
        try:
            snapshot = self._reader.snapshot()
        except MalformedRecord:
            raise
        except UnknownTopic:  # Samza's own AM coordinates this job
            return None
        except InvalidInput as error:
            raise Unreachable(error.asked, seen=error.seen, fix=error.fix) from error
        records = {k: r.value for k, r in snapshot.records.items() if r.value is not None}
        return decode_state(records, read_mail(snapshot.mail, snapshot.answers, snapshot.end))

    def close(self) -> None:
        """Releases connections."""
        self._reader.close()
