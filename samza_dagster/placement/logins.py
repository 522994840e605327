"""Which incarnations may log in at the brokers as somebody else than themselves. Reads alone.

For who leads with a broker fence: it means nothing to a container without a login of its own.
"""

from __future__ import annotations

from samza_dagster.placement.state import Fencing, JobState


def launched_without(state: JobState, present: frozenset[str]) -> frozenset[str]:
    """Incarnations that may have been launched without a principal of their own.

    A login that one of them got now wouldn't be the one that its process has: the next
    leader would take it for fenced while it goes on. If it was never launched, its process
    can't log in and ends, and another incarnation is started.
    """
    if state.limits.fencing is Fencing.BROKER:
        return frozenset()
    return incarnations(state) - present


def incarnations(state: JobState) -> frozenset[str]:
    """Execution ids of all that may be alive: those that run, start or stop, and orphans."""
    found: set[str] = set()
    for group in state.groups.values():
        found |= {orphan.incarnation.execution_id for orphan in group.orphans}
        for processor in group.processors.values():
            if processor.incarnation is not None:
                found.add(processor.incarnation.execution_id)
    return frozenset(found)
