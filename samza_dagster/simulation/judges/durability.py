"""The state as a coordinator's records hold it: what its successor reads back.

As `coordinator/durable.py` groups it: a record for the job, for each container group and
host, and one for each remembered request, all of them as JSON text.
"""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from typing import Any

from immutables import Map

from samza_dagster.errors import MalformedRecord
from samza_dagster.placement.codec import (
    group_from_json,
    group_to_json,
    host_from_json,
    host_to_json,
    job_from_json,
    job_to_json,
)
from samza_dagster.placement.index_draft import rebuilt
from samza_dagster.placement.reading import in_flight
from samza_dagster.placement.reducer import next_deadline_ms
from samza_dagster.placement.restoring import restore
from samza_dagster.placement.state import Host, JobState
from samza_dagster.simulation.judges.violation import RECORDS_RESTORE, InvariantViolated

_ODD: tuple[Any, ...] = ({"no": "such form"}, True, 2.5, "no such value", [1], 7)


def written(state: JobState) -> dict[str, str]:
    """Every record of a state: key → JSON text, the requests in order of arrival."""
    records: dict[str, Any] = {"job": job_to_json(state)}
    for name, group in state.groups.items():
        records[f"group/{name}"] = group_to_json(group)
    for name, host in state.hosts.items():
        records[f"host/{name}"] = host_to_json(host)
    for uuid in sorted(state.uuids, key=state.uuids.__getitem__):
        records[f"uuid/{uuid}"] = {"at_ms": state.now_ms}
    for uuid in sorted(state.refused, key=state.refused.__getitem__):
        records[f"refused/{uuid}"] = {"at_ms": state.now_ms}
    return {key: json.dumps(value) for key, value in records.items()}


def read(records: dict[str, str]) -> JobState:
    """The state that the records hold, index and all; lags are measured anew."""
    values = {key: json.loads(text) for key, text in records.items()}
    state = job_from_json(values["job"])
    groups = [group_from_json(v) for k, v in values.items() if k.startswith("group/")]
    hosts = [host_from_json(v) for k, v in values.items() if k.startswith("host/")]
    uuids = [k.removeprefix("uuid/") for k in values if k.startswith("uuid/")]
    first = state.next_uuid - len(uuids)
    refused = [k.removeprefix("refused/") for k in values if k.startswith("refused/")]
    first_refused = state.next_refused - len(refused)
    return rebuilt(
        replace(
            state,
            groups=Map({group.group_id: group for group in groups}),
            hosts=Map({host.host: host for host in hosts}),
            uuids=Map({uuid: first + place for place, uuid in enumerate(uuids)}),
            refused=Map({uuid: first_refused + place for place, uuid in enumerate(refused)}),
        )
    )


def passed_on(state: JobState) -> JobState:
    """What a coordinator that takes over from this state goes by.

    Raises `InvariantViolated` unless that is the state again. Of a host its records keep
    whether it is alive and its fault domain: it has to register in any case.
    """
    try:
        found = read(written(state))
    except MalformedRecord as error:
        raise InvariantViolated(RECORDS_RESTORE, f"refused what was written: {error}") from error
    if found != replace(state, lags=found.lags):
        raise InvariantViolated(RECORDS_RESTORE, f"read back: {found}\nwritten: {state}")
    if next_deadline_ms(found) != next_deadline_ms(rebuilt(state)):
        raise InvariantViolated(RECORDS_RESTORE, "read back, it waits for something else")
    hosts = {
        h.host: Host(h.host, h.alive, fault_domain=h.fault_domain) for h in found.hosts.values()
    }
    expected = rebuilt(replace(found, hosts=Map(hosts)))
    restored = restore(_in_the_topic(written(state)), state.job)
    if restored != expected or next_deadline_ms(restored) != next_deadline_ms(expected):
        raise InvariantViolated(RECORDS_RESTORE, f"restored: {restored}\nwritten: {expected}")
    return restored


def _in_the_topic(records: dict[str, str]) -> dict[str, dict[str, Any]]:
    """The same records in the form that the state topic has them in."""
    wraps = {"job": "state", "group": "group"}
    return {
        key: {wraps[kind]: json.loads(text)} if kind in wraps else json.loads(text)
        for key, text in records.items()
        for kind in (key.partition("/")[0],)
    }


def judge_records(state: JobState, draw: int) -> None:
    """Odd records are refused by name; older ones that lack a field with a default are read.

    For some states alone: it reads some of the records many times. `draw` says which.
    """
    _judge_in_flight(state)
    job = job_to_json(state)
    _judge_odd("job", job, job_from_json, draw)
    name = ("groups", "hosts", "uuids", "lags", "index")[draw % 5]
    _must_refuse({**job, name: {}}, job_from_json, f"job.{name}")
    for group in state.groups.values():
        value = group_to_json(group)
        _judge_odd("group", value, group_from_json, draw)
        for pid in group.processors:
            _judge_older(json.dumps(value), pid)
    for host in state.hosts.values():
        _judge_odd("host", host_to_json(host), host_from_json, draw)
        plain = {"host": host.host}
        if host_from_json(plain) != Host(host.host):
            raise InvariantViolated(RECORDS_RESTORE, f"{plain} isn't read with its defaults")


def judge_copy(state: JobState) -> None:
    """The state goes to another process as it is: histories are explored by several."""
    try:
        found = pickle.loads(pickle.dumps(state))  # noqa: S301 - its own bytes
    except Exception as error:
        raise InvariantViolated(RECORDS_RESTORE, f"can't be copied: {error!r}") from error
    if found != state:
        raise InvariantViolated(RECORDS_RESTORE, f"copied: {found}\nwas: {state}")


def _judge_in_flight(state: JobState) -> None:
    uuids: set[str] = set()
    for group in state.groups.values():
        uuids.update(ask.uuid for ask in group.queue)
        if group.action is not None:
            uuids.add(group.action.ask.uuid)
    if set(in_flight(state.groups.values())) != uuids:
        raise InvariantViolated(RECORDS_RESTORE, f"{sorted(uuids)} are in flight, told otherwise")


def _judge_odd(what: str, value: dict[str, Any], reader: Any, draw: int) -> None:
    """Each field at a time has a value of another type, or a name that nobody knows."""
    _must_refuse({**value, "later": 1}, reader, f"{what}.later")
    _must_refuse([value], reader, what)
    for place, (name, kept) in enumerate(value.items()):
        odd = _ODD[(draw + place) % len(_ODD)]
        if not _may_be(kept, odd):
            _must_refuse({**value, name: odd}, reader, f"{what}.{name}")


def _may_be(kept: Any, odd: Any) -> bool:
    """A value of the kind that the field has, or may have where it has none now."""
    if kept is None or isinstance(kept, dict | list):
        return kept is None or isinstance(odd, dict | list)
    return type(kept) is type(odd) and odd != "no such value"  # an enum's value is a text too


def _must_refuse(value: Any, reader: Any, path: str) -> None:
    try:
        found = reader(value)
    except MalformedRecord as refusal:
        if path not in refusal.seen:
            raise InvariantViolated(
                RECORDS_RESTORE, f"{path} is wrong, the refusal names {refusal.seen!r}"
            ) from refusal
        return
    if "no such value" in str(value):
        return  # a text where any text may stand
    raise InvariantViolated(RECORDS_RESTORE, f"{path} is wrong, and was read as {found}")


def _judge_older(text: str, processor_id: str) -> None:
    """A release before this one knew a single host where a start had failed."""
    value = json.loads(text)
    processor = value["processors"][processor_id]
    del processor["avoid_hosts"]
    for older, expected in ((None, ()), ("host-1", ("host-1",))):
        processor["avoid_host"] = older
        found = group_from_json(value).processors[processor_id].avoid_hosts
        if found != expected:
            raise InvariantViolated(RECORDS_RESTORE, f"avoid_host {older} is read as {found}")
    del processor["avoid_host"]
    if group_from_json(value).processors[processor_id].avoid_hosts != ():
        raise InvariantViolated(RECORDS_RESTORE, "no avoid_hosts aren't read as none")
    del processor["role"]
    _must_refuse(value, group_from_json, f"group.processors.{processor_id}")
