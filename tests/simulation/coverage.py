"""Which fault hit which transition, and how often."""

from __future__ import annotations

from collections import Counter

from samza_dagster.placement.state import Group, JobState
from tests.simulation.moves import Move

Pair = tuple[str, str]
"""What was under way, and what went wrong then."""

ROWS = (
    "waiting",
    "requesting",
    "reserved",
    "starting",
    "running",
    "stopping",
    "action reserving-standby",
    "action stopping-standby",
    "action reserving",
    "action held",
    "action stopping",
    "action starting",
    "action fallback-source",
    "action fallback-any",
    "queued",
    "failover",
    "orphaned",
    "orphaned, fencing",
    "orphaned, ended",
    "unwanted",
    "unregistered",
)
RARE = frozenset(
    {
        "reserved",
        "action reserving-standby",
        "action stopping-standby",
        "action held",
        "action fallback-source",
        "action fallback-any",
        "failover",
        "orphaned, fencing",
        "unwanted",
    }
)
"""Rows that pass quickly or come seldom: while one is there, faults are more likely."""

RAREST = frozenset(
    {"action reserving-standby", "action stopping-standby", "action held", "reserved"}
)
"""Rows that are over after a few moves."""

COLUMNS = (
    "delay",
    "reorder",
    "duplicate",
    "lost host",
    "partition",
    "freeze",
    "clock",
    "late grant",
    "reboot",
    "agent restart",
    "other agent",
    "death",
    "slow stop",
    "stop fails",
    "failing start",
    "no check-in",
    "expired reservation",
    "metastore twice",
    "crash",
    "zombie",
    "metastore away",
)

_COLUMN_OF = {
    "delay": "delay",
    "deliver": "reorder",
    "notice": "reorder",
    "read": "reorder",
    "late": "reorder",
    "duplicate": "duplicate",
    "silence": "lost host",
    "cut": "partition",
    "freeze": "freeze",
    "clock": "clock",
    "rate": "clock",
    "late-grant": "late grant",
    "reboot": "reboot",
    "reimage": "reboot",
    "other-machine": "reboot",
    "other-directory": "agent restart",
    "agent-restart": "agent restart",
    "agent-down": "agent restart",
    "capacity": "other agent",
    "rack": "other agent",
    "kill": "death",
    "expire": "expired reservation",
    "reread": "metastore twice",
    "crash": "crash",
    "crash-heir": "crash",
    "kill-leader": "crash",
    "pause": "zombie",
    "pause-heir": "zombie",
    "pause-now": "zombie",
    "take-over": "zombie",
    "store-cut": "metastore away",
    "fence-unanswered": "duplicate",
}
_TROUBLES = {
    "starts-fail": "failing start",
    "no-check-in": "no check-in",
    "stops-fail": "stop fails",
    "slow-stops": "slow stop",
    "lost-acks": "duplicate",
}


def column_of(move: Move) -> str | None:
    """The fault's column; None for the end of one."""
    if move.kind == "trouble":
        return _TROUBLES[str(move.ids[1])]
    return _COLUMN_OF.get(move.kind)


def rows_of(state: JobState) -> set[str]:
    """What is under way."""
    rows: set[str] = set()
    for group in state.groups.values():
        _rows_of_group(group, rows)
    if any(host.alive and not host.registered for host in state.hosts.values()):
        rows.add("unregistered")
    return rows


def _rows_of_group(group: Group, rows: set[str]) -> None:
    for processor in group.processors.values():
        rows.add(processor.phase)
        if not processor.wanted:
            rows.add("unwanted")
    if group.action is not None:
        rows.add(f"action {group.action.stage}")
    if group.queue:
        rows.add("queued")
    if group.failover is not None:
        rows.add("failover")
    for orphan in group.orphans:
        rows.add("orphaned, fencing" if orphan.fencing else "orphaned")
        if orphan.ended is not None:
            rows.add("orphaned, ended")


def missing(counts: Counter[Pair], at_least: int) -> list[Pair]:
    """Pairs that were met less often."""
    return [(row, column) for row in ROWS for column in COLUMNS if counts[row, column] < at_least]
