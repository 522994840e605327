"""Hand containers their JobModel once they may own their tasks, and answer their heartbeats."""

from __future__ import annotations

import logging
from typing import Dict, Iterable, Mapping, Optional

from samza_dagster.agent.grants import HeldLease
from samza_dagster.agent.incarnation import HostedIncarnation, overlaps
from samza_dagster.agent.roster import Roster

LOG = logging.getLogger("samza_dagster.agent")


class Gate:
    """The gate of one host. Callers that wait for a JobModel hold `changed` and wait on it."""

    def __init__(self, roster: Roster, lease: HeldLease, host: str) -> None:
        self.changed = roster.changed
        self.locality: Dict[str, str] = {}
        self._roster = roster
        self._lease = lease
        self._host = host

    def find(self, execution_id: str) -> Optional[HostedIncarnation]:
        """Return the incarnation, or the parked one: its request shows that it is ready."""
        with self.changed:
            parked = self._roster.lot.find(execution_id)
            if parked is not None and not parked.ready:
                parked.ready = True
                self._roster.tell()
            return parked or self._roster.incarnations.get(execution_id)

    def waits_for(self, found: HostedIncarnation) -> Optional[str]:
        """Return why its JobModel can't be released yet; None when it can."""
        if found.parked:
            return "its start hasn't come"
        if found.container is None:
            return "its process isn't known yet"  # its warden alone could end it
        if not self._lease.is_live():
            return "the host holds no live lease"
        return _blocked_by(found, self._roster.incarnations.values())

    def release_job_model(self, found: HostedIncarnation) -> str:
        """Return its JobModel; the release is recorded first, for it owns its tasks from then on."""
        if not found.released:
            found.mark(released=True)
            self._roster.tell()
        return found.job_model_json()

    def heartbeat(self, execution_id: str) -> bool:
        """Return whether this incarnation should go on.

        The first call after the JobModel checks it in.
        """
        with self.changed:
            found = self._roster.incarnations.get(execution_id)
            if found is None or not found.is_live:
                return False
            if found.released and not found.checked_in:
                try:
                    found.mark(checked_in=True)
                except OSError as error:  # it works; its next heartbeat checks it in
                    LOG.warning("%s can't be recorded as checked in: %s", execution_id, error)
                else:
                    self._roster.tell()
            return True

    def processor_hosts(self) -> Dict[str, str]:
        """Return processor → host, as `/locality` serves it to containers."""
        with self.changed:
            return processor_hosts(self.locality, self._host, self._roster.incarnations.values())


def _blocked_by(found: HostedIncarnation, others: Iterable[HostedIncarnation]) -> Optional[str]:
    """Return the store directory that a live incarnation of this host holds, or None when all are free.

    If two were never released, the one that was started first goes first.
    """
    for other in others:
        if other is found or not other.is_live:
            continue
        if other.released or other.sequence < found.sequence:
            path = overlaps(found.store_directories, other.store_directories)
            if path is not None:
                return "{} is held by {}".format(path, other.execution_id)
    return None


def processor_hosts(
    named: Mapping[str, str], host: str, incarnations: Iterable[HostedIncarnation]
) -> Dict[str, str]:
    """Return processor → host by the coordinator, corrected by this host's own incarnations."""
    hosts = dict(named)
    hosts.update({i.processor_id: host for i in incarnations if i.checked_in and i.is_live})
    return hosts
