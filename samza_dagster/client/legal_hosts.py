"""The coordinator's own rules, held against a placement as a client sees it. Pure.

A client sees where containers and orphans are, and which hosts fail together. What is only
requested or reserved the coordinator weighs when the request's turn comes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from samza_dagster.client.views import CLOSED_STATE, LOST_STATE, JobView, OrphanView
from samza_dagster.placement import rules
from samza_dagster.placement.rules import Violation
from samza_dagster.placement.state import (
    Ended,
    Group,
    Host,
    Incarnation,
    Orphan,
    Phase,
    Processor,
    Role,
)

_NO_DESTINATION = (LOST_STATE, CLOSED_STATE)
_PHASES = {phase.value: phase for phase in Phase}


def roomiest(view: JobView, ready: Mapping[str, bool]) -> str:
    """Return the host to take of those in `ready`, which maps each legal host to whether it has room now.

    Hosts with room come first, then those with the most free memory, the fewest containers, and by
    name.
    """
    load = Counter(processor.host for processor in view.processors.values())

    def rank(name: str) -> tuple[bool, int, int, str]:
        return (not ready[name], -(view.hosts[name].free_memory_mb or 0), load[name], name)

    return min(ready, key=rank)


class Placing:
    """Placements as steps of a plan change them, and the hosts that the coordinator's rules allow.

    With `only` it knows one group alone, which is quicker for a question or two.
    """

    def __init__(self, view: JobView, only: str | None = None) -> None:
        self._view = view
        self._hosts = {
            name: Host(
                name, alive=host.state not in _NO_DESTINATION, fault_domain=host.fault_domain
            )
            for name, host in view.hosts.items()
        }
        self._lost = {name for name, host in view.hosts.items() if host.state in _NO_DESTINATION}
        self._members: dict[str, dict[str, Processor]] = {}
        for pid, processor in view.processors.items():
            if only is None or view.group_of(pid) == only:
                self.put(pid, processor.host, processor.state)
        self._orphans: dict[str, tuple[Orphan, ...]] = {}
        for orphan in view.orphans:
            group = view.group_of(orphan.processor_id)
            self._orphans[group] = (*self._orphans.get(group, ()), _orphan(orphan))

    def put(self, processor_id: str, host: str | None, state: str = Phase.RUNNING.value) -> None:
        """From now on it is on `host`; None: nowhere, or gone."""
        members = self._members.setdefault(self._view.group_of(processor_id), {})
        members.pop(processor_id, None)
        if host is not None:
            members[processor_id] = Processor(
                processor_id,
                Role.STANDBY if self._view.is_standby(processor_id) else Role.ACTIVE,
                _PHASES.get(state, Phase.RUNNING),
                Incarnation(0, "", host, ""),
            )

    def violation(self, processor_id: str, host: str, *, in_place_of: str = "") -> Violation | None:
        """The rule that forbids it to be on `host`, in the coordinator's words; None when it may.

        `in_place_of`: a standby that has left by then.
        """
        group = self._group(processor_id)
        group = group.evolve(processors=_without(group, in_place_of))
        return rules.violation(group, self._hosts, processor_id, host)

    def forbidden(self, processor_id: str) -> set[str]:
        """Every host that it may not be on. One that isn't in the job is one more of its group."""
        group = self._group(processor_id)
        return rules.forbidden_hosts(group, self._hosts, self._lost, processor_id)

    def _group(self, processor_id: str) -> Group:
        group_id = self._view.group_of(processor_id)
        members = self._members.get(group_id, {})
        return Group(group_id, members, orphans=self._orphans.get(group_id, ()))


def _without(group: Group, processor_id: str) -> Mapping[str, Processor]:
    return {pid: p for pid, p in group.processors.items() if pid != processor_id}


def _orphan(seen: OrphanView) -> Orphan:
    return Orphan(
        seen.processor_id,
        Incarnation(0, seen.execution_id, seen.host, ""),
        lost_at_ms=0,
        lease_ends_ms=None,
        ran=True,
        ended=None if seen.ended is None else Ended(seen.ended),
        elsewhere=seen.elsewhere,
    )
