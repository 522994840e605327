"""The orderly end of a job: every container is stopped, and nothing is started."""

from __future__ import annotations

import logging
import queue
import time

from samza_dagster.cluster.interface import ClusterResourceManager
from samza_dagster.coordinator.callbacks import ClusterEvents, HostTold, Rival
from samza_dagster.coordinator.status import Processes
from samza_dagster.errors import ActionFailed, some_of
from samza_dagster.placement import events
from samza_dagster.placement.state import JobState

log = logging.getLogger(__name__)


def stop_all(
    cluster: ClusterResourceManager, state: JobState, *, lease_s: float, stop_s: float
) -> int:
    """Stop the job's containers on every host; return their number once none runs.

    A host that has containers by `state` and doesn't call within `lease_s` has none any more: no
    leader renews its lease. Raises `ActionFailed` that names what isn't dead `stop_s` after that.
    """
    inbox: queue.SimpleQueue[events.Event | HostTold | Rival] = queue.SimpleQueue()
    absent = {
        each.incarnation.host
        for group in state.groups.values()
        for each in (*group.processors.values(), *group.orphans)
        if each.incarnation is not None
    }
    live: dict[str, str] = {}
    told, stopped, failed = set[str](), 0, dict[str, str]()
    began = time.monotonic()
    cluster.start(ClusterEvents(inbox.put, now_ms=lambda: 0, processes=Processes()))
    while live or (absent - told and time.monotonic() - began <= lease_s):
        if time.monotonic() - began > lease_s + stop_s:
            left = [f"{each} on {host} {failed.get(each, '')}" for each, host in live.items()]
            raise ActionFailed("stop every container", seen=some_of(left), fix="run it again")
        try:
            item = inbox.get(timeout=1.0)
        except queue.Empty:
            waits = f"; not heard yet: {some_of(sorted(absent - told))}" if absent - told else ""
            log.info("%d containers stopped, %d to go%s", stopped, len(live), waits)
            continue
        match item:
            case events.HostRegistered():
                live |= dict.fromkeys(item.execution_ids, item.host)
            case HostTold():  # what is dead has been reported before this
                told.add(item.host)
                for execution_id in [each for each, host in live.items() if host == item.host]:
                    cluster.stop_container(execution_id, item.host)
            case events.ContainerStopped() | events.StartFailed():
                if live.pop(item.execution_id, None) is not None:
                    stopped += item.host in told
                cluster.forget_container(item.execution_id, item.host)
            case events.StopFailed():
                failed[item.execution_id] = item.why
            case events.ResourceAllocated():  # an earlier leader's
                cluster.release_resource(item.request_id)
            case (
                _
            ):  # nothing is admitted or started: leases end when those end that hosts had before
                pass
    return stopped
