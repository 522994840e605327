"""Finds incarnations that may log in at the brokers under a shared principal. Reads alone.

Needed under a broker fence, which has no effect on a container without its own login.
"""

from __future__ import annotations

from samza_dagster.placement.state import Fencing, JobState


def launched_without(state: JobState, present: frozenset[str]) -> frozenset[str]:
    """Return incarnations that may have been launched without a principal of their own."""
    # A login created now wouldn't be the one of the running process: the next leader would take the
    # incarnation for fenced while it continues. If it was never launched, its process can't log in
    # and ends, and another incarnation is started.
    if state.limits.fencing is Fencing.BROKER:
        return frozenset()
    return incarnations(state) - present


def incarnations(state: JobState) -> frozenset[str]:
    """Return the execution ids of all incarnations that may be alive, orphans included."""
    found: set[str] = set()
    for group in state.groups.values():
        found |= {orphan.incarnation.execution_id for orphan in group.orphans}
        for processor in group.processors.values():
            if processor.incarnation is not None:
                found.add(processor.incarnation.execution_id)
    return frozenset(found)
