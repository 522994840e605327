"""The standbys of a generated fleet as the product's rules see them: reports by the broker's times."""

from __future__ import annotations

from collections.abc import Iterator

from samza_dagster.lag import Bounds, ReplicaReadiness, ReplicaReport, replica_readiness
from tests.rig.fleets import Fault, Fleet, Group, Standby, said


def reports_of(group: Group, standby: Standby, at_ms: int) -> tuple[ReplicaReport, ...]:
    """What a standby's store partition has reported, at a moment of the broker's."""
    return tuple(
        ReplicaReport(one.at_ms, one.process, one.applied, one.beginning, one.end)
        for one in said(group, standby, at_ms)
    )


def standbys(fleet: Fleet, *faults: Fault) -> Iterator[tuple[Group, Standby]]:
    """Of the groups with one of these faults whose stores have a changelog; none named: of all."""
    for group in fleet.groups:
        if group.fault is not Fault.NO_CHANGELOG and (not faults or group.fault in faults):
            for standby in group.standbys:
                yield group, standby


def replicas(
    fleet: Fleet, at_ms: int, *faults: Fault, bounds: Bounds
) -> Iterator[tuple[Standby, ReplicaReadiness]]:
    """How ready each of them is."""
    for group, standby in standbys(fleet, *faults):
        reports = reports_of(group, standby, at_ms)
        silent_ms = at_ms - reports[-1].came_ms if reports else 0
        reason = "" if standby.changelog.has_leader else "no-leader"
        yield standby, replica_readiness(reports, bounds, silent_ms=silent_ms, reason=reason)
