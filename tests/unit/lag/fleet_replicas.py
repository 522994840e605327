"""The standbys of a generated fleet as the product's rules see them: reports by the broker's times."""

from __future__ import annotations

from collections.abc import Iterator

from samza_dagster.lag import ReplicaReport, ReplicaReports
from tests.rig.fleets import Fault, Fleet, Group, Standby, said


def replica(group: Group, standby: Standby, at_ms: int) -> ReplicaReports:
    """One store partition of a standby, at a moment of the broker's."""
    reports = tuple(
        ReplicaReport(one.at_ms, one.process, one.applied, one.beginning, one.end)
        for one in said(group, standby, at_ms)
    )
    return ReplicaReports(
        standby=f"{group.job}/{standby.container}",
        host=standby.restores[-1][0].host,
        task=standby.task,
        store="lab",
        partition=standby.partition,
        reports=reports,
        silent_ms=at_ms - reports[-1].came_ms if reports else 0,
        reason="" if standby.changelog.has_leader else "no-leader",
    )


def replicas(
    fleet: Fleet, at_ms: int, *faults: Fault
) -> Iterator[tuple[Group, Standby, ReplicaReports]]:
    """Of the groups with one of these faults whose stores have a changelog; none named: of all."""
    for group in fleet.groups:
        if group.fault is Fault.NO_CHANGELOG or (faults and group.fault not in faults):
            continue
        for standby in group.standbys:
            yield group, standby, replica(group, standby, at_ms)
