"""Containers that are launched before their start: their JVM waits for a JobModel.

One is `parked` from its reservation on. It has a record and a warden as any incarnation
does, but isn't one yet: it isn't reported as a container, holds no store directory, and its
JobModel is there only once its start comes, which makes it an incarnation. A start on a
reservation that is gone, or another launch, never gets it.
"""

from __future__ import annotations

import hashlib
import json
import logging
import select
import time
from typing import Any, Dict, List, Optional

from samza_dagster.agent import procfs
from samza_dagster.agent.examination import LOOK_AGAIN_S
from samza_dagster.agent.incarnation import HostedIncarnation
from samza_dagster.agent.protocol import Launch

LOG = logging.getLogger("samza_dagster.agent")

MOST_PARKED = 2
"""On one host at a time: each may cost a core for the seconds of its JVM's start."""
PARKED_S = 120.0
"""Without a start for so long, it is killed; a start after that is a launch as ever."""
_DEATH_S = 2.0


def digest(launch: Launch) -> str:
    """Return a digest of all of a launch but its JobModel, which the start brings."""
    same = launch._replace(job_model_json="")
    return hashlib.sha256(json.dumps(same, sort_keys=True).encode("utf-8")).hexdigest()


class ParkingLot:
    """The parked ones of a host by execution id; changed only under the agent's lock."""

    def __init__(self) -> None:
        self.parked: Dict[str, HostedIncarnation] = {}

    def has_room(self) -> bool:
        """Return whether another one may be parked."""
        return len(self.parked) < MOST_PARKED

    def find(self, execution_id: str) -> Optional[HostedIncarnation]:
        """Return the parked one, unless it is being killed."""
        found = self.parked.get(execution_id)
        return None if found is None or found.stop_asked else found

    def of_request(self, request_id: str) -> List[HostedIncarnation]:
        """Return the parked incarnations of this reservation."""
        return [
            p
            for p in self.parked.values()
            if p.spec.get("request_id") == request_id and not p.stop_asked
        ]

    def claimable(self, request_id: str, launch: Launch) -> Optional[HostedIncarnation]:
        """Return the one that this start may use."""
        found = self.find(launch.execution_id)
        fits = (
            found is not None
            and found.spec.get("request_id") == request_id
            and found.spec.get("launch_digest") == digest(launch)
        )
        return found if fits else None

    def stale(self, now: float) -> List[HostedIncarnation]:
        """Return parked incarnations that have waited too long for a start; `now` is monotonic."""
        return [p for p in self.parked.values() if p.stale_at is not None and p.stale_at <= now]

    def to_json(self) -> List[Dict[str, Any]]:
        """Return the form in which a sync reports them: only those that a start may still use."""
        return [
            {
                "execution_id": p.execution_id,
                "request_id": p.spec.get("request_id"),
                "ready": p.ready,
            }
            for p in self.parked.values()
            if not p.stop_asked
        ]

    def take(self, execution_id: str) -> HostedIncarnation:
        """Remove an incarnation from the parked ones and return it."""
        return self.parked.pop(execution_id)


def discard(found: HostedIncarnation, now: float, why: str) -> None:
    """Kill with SIGKILL, at once and again at each look until it is dead: nothing is to be flushed.

    Raises `OSError` when that can't be recorded; it is killed nevertheless.
    """
    LOG.info("%s, parked, is killed: %s", found.execution_id, why)
    found.stop_asked, found.stale_at = True, None
    if found.read_processes():
        assert found.warden is not None  # read together
        assert found.container is not None
        procfs.kill_group(found.container.name, found.warden.name)
    elif found.warden is not None:
        found.warden.send(15)  # it may be about to fork, and knows best
    found.kill_at = now + LOOK_AGAIN_S
    found.mark()


def kill_now(found: HostedIncarnation) -> bool:
    """Kill it and remove its record; return False when that takes too long.

    For the rare start that can't use what is parked under its execution id: nothing else
    may have that directory before. Its warden is killed too, but for a hold, which then waits
    for the next incarnation.
    """
    deadline = time.monotonic() + _DEATH_S
    while not _is_gone(found):
        if time.monotonic() > deadline:
            return False
        _wait(found)
    found.close()
    found.forget()
    return True


def _is_gone(found: HostedIncarnation) -> bool:
    if found.warden is not None and found.hold is None:
        found.warden.send(9)  # a container that it has forked dies with it
        if not found.warden.is_dead():
            return False
    if not found.read_processes():
        return found.bar("its start came with another launch")
    assert found.warden is not None
    assert found.container is not None
    procfs.kill_group(found.container.name, found.warden.name)
    ended = found.hold is not None and found.read_end() is not None
    return (
        (ended or found.warden.is_dead())
        and found.container.is_dead()
        and not procfs.group_of(found.container.name, found.warden.name)
    )


def _wait(found: HostedIncarnation) -> None:
    poller = select.poll()
    for handle in (found.warden, found.container):
        if handle is not None and handle.pidfd is not None and not handle.is_dead():
            poller.register(handle.pidfd, select.POLLIN)
    poller.poll(20)
