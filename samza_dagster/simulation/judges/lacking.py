"""What a record says that lacks a field: a release before this one didn't write it.

A second table of it, by meaning: nothing has happened, nobody has asked, a host is there,
and a job has the bounds that `docs/settings.md` names as defaults.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from samza_dagster.placement.codec import group_from_json, host_from_json, job_from_json
from samza_dagster.placement.state import Limits
from samza_dagster.simulation.judges.violation import RECORDS_RESTORE, InvariantViolated

BOUNDS: dict[str, Any] = {
    "container_cores": 1,
    "request_timeout_ms": 5_000,
    "host_timeout_ms": 30_000,
    "lease_bound_ms": 4_000,
    "fencing": "lease",
    "retry_count": 8,
    "retry_window_ms": 300_000,
    "max_concurrent_starts": 2,
    "max_concurrent_actions": 8,
    "max_actions_per_host": 2,
    "max_standbys": 4,
    "remembered_uuids": 20_000,
}
"""Of a job without settings. A coordinator sets every one of them anew at its start, and
memory, lease, time to start and host affinity to other values than a plain `Limits` has."""

_NEVER = {
    "failures": 0,
    "attempts": 0,
    "failed_at_ms": (),
    "avoid_hosts": (),
    "stalled_at_ms": (),
    "unplaced": False,
    "sought": (),
}
_AT_NO_TIME = {
    "deadline_ms": None,
    "start_deadline_ms": None,
    "waiting_since_ms": 0,
    "not_before_ms": 0,
}
_NOWHERE = {"incarnation": None, "last_seen_host": None, "request": None, "last_end": None}
_JOB: dict[str, Any] = {
    "deployment_id": "",
    "next_epoch": 1,
    "next_request": 1,
    "now_ms": 0,
    "next_uuid": 0,
    "next_refused": 0,
    "certificates": 0,
    "certificate_hash": "",
    "certificate_at_ms": 0,
    "grouping": "",
    "regrouped_epoch": 0,
}
_HOST: dict[str, Any] = {
    "alive": True,
    "registered": True,
    "silent_since_ms": 0,
    "fault_domain": "",
    "books": "",
    "boot_id": "",
}
_PROCESSOR: dict[str, Any] = {**_NEVER, **_AT_NO_TIME, **_NOWHERE, "wanted": True, "extra": False}
_REQUEST: dict[str, Any] = {"allocated_host": None, "confirmed": True}
_GHOST: dict[str, Any] = {"fencing": False, "ended": None, "end": None, "elsewhere": False}
_GROUP: dict[str, Any] = {
    "action": None,
    "queue": (),
    "failover": None,
    "ghosts": (),
    "sequence": 0,
}
_ASK: dict[str, Any] = {
    "expiry_ms": None,
    "kind": "place",
    "hold": False,
    "refers_to": "",
    "own": False,
    "execution_id": "",
}
_ACTION: dict[str, Any] = {
    "reservation": None,
    "standby_id": "",
    "target_host": None,
    "standby_reservation": None,
    "committed": False,
    "status": "",
    "message": "",
    "response_ms": 0,
    "stopping_already": False,
    "chosen_hosts": (),
    "stopped": (),
}


def judge_lacking() -> None:
    """Every record with no more than it must have."""
    incarnation = {"epoch": 1, "execution_id": "e", "host": "h", "request_id": "r"}
    request: dict[str, Any] = {
        "request_id": "r",
        "host": None,
        "excluded_hosts": [],
        "deadline_ms": 1,
    }
    processor = {"processor_id": "0", "role": "Active", "phase": "waiting"}
    ghost = {
        "processor_id": "0",
        "incarnation": incarnation,
        "lost_at_ms": 1,
        "lease_ends_ms": 2,
        "ran": True,
    }
    ask = {
        "uuid": "u",
        "deployment_id": "run-1",
        "processor_id": "0",
        "destination_host": "h",
        "timestamp_ms": 1,
    }
    action = {"ask": ask, "stage": "reserving", "source_host": None}
    failover = {"active_id": "0", "standby_id": "0-0", "host": "h", "since_ms": 1, "why": "y"}
    end = {"execution_id": "e", "epoch": 1, "host": "h", "how": "dead", "at_ms": 1}
    plain: dict[str, Any] = {"group_id": "0", "processors": {}}

    def group(**more: Any) -> Any:
        return group_from_json({**plain, **more})

    def one(**more: Any) -> Any:
        return group(processors={"0": {**processor, **more}}).processors["0"]

    _compare("job", job_from_json, {"job": "demo"}, _JOB)
    _compare("limits", lambda v: job_from_json(v).limits, {"job": "demo"}, BOUNDS)
    _compare("limits", lambda v: job_from_json(v).limits, {"job": "demo", "limits": {}}, BOUNDS)
    _compare("host", host_from_json, {"host": "host-1"}, _HOST)
    _compare("group", lambda _: group(), {}, _GROUP)
    _compare("processor", lambda _: one(), {}, _PROCESSOR)
    _compare("request", lambda _: one(request=request).request, {}, _REQUEST)
    _compare("end", lambda _: one(last_end=end).last_end, {}, {"evidence": ""})
    _compare("ghost", lambda _: group(ghosts=[ghost]).ghosts[0], {}, _GHOST)
    _compare("request", lambda _: group(queue=[ask]).queue[0], {}, _ASK)
    _compare("action", lambda _: group(action=action).action, {}, _ACTION)
    _compare("failover", lambda _: group(failover=failover).failover, {}, {"tried": ()})
    _judge_fresh(Limits())


def _judge_fresh(limits: Limits) -> None:
    """The bounds before the first deployment are the same ones."""
    for name, value in BOUNDS.items():
        if getattr(limits, name) != value:
            raise _wrong("limits", name, getattr(limits, name), value)


def _compare(
    what: str, read: Callable[[Any], Any], value: dict[str, Any], expected: dict[str, Any]
) -> None:
    found = read(value)
    for name, meant in expected.items():
        if getattr(found, name) != meant:
            raise _wrong(what, name, getattr(found, name), meant)


def _wrong(what: str, name: str, found: object, meant: object) -> InvariantViolated:
    return InvariantViolated(
        RECORDS_RESTORE, f"a {what} without {name} is read as {found!r}, it means {meant!r}"
    )
