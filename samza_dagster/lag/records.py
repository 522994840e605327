"""How many records a replica of a changelog partition is behind, by what was reported of it. Pure.

The one definition for client, coordinator and snapshots; see docs/decisions/0018. None of them reads
`messages-behind-high-watermark`: it is 0 for a dead standby.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

Came = tuple[str, int, int]
"""Changelog's topic and partition, and the time in ms of the record that brought a report."""

FirstSince = Mapping[Came, int]
"""Topic, partition and time in ms → the first record of that time or a later one."""


class Behind(NamedTuple):
    """How far a replica is behind `end_offset`: by `lag` records, None when it can't be known.

    `written_since`: what the changelog has got since it ended there.
    """

    end_offset: int
    lag: int | None
    written_since: int = 0


def records_behind(
    beginning_offset: int | None, end_offset: int | None, applied_offset: int | None
) -> int | None:
    """Return how many offsets a replica has still to apply; None when that can't be known.

    `end_offset` is the offset of the next record, `applied_offset` that of the last record applied;
    read the end after the applied offset. Lag is `end - 1 - applied`. Records that the changelog no
    longer holds don't count: a replica before its beginning has as much to apply as is there. An
    applied offset at or beyond the end is of a changelog that was deleted or cut since: it tells
    nothing, and 0 would be a lie. Else an empty changelog (end = beginning) has lag 0, whatever is
    known of the replica. The count is an upper bound in records: compaction and transaction markers
    take offsets without records.
    """
    if end_offset is None or (applied_offset is not None and applied_offset >= end_offset):
        return None
    if beginning_offset is not None and beginning_offset >= end_offset:
        return 0
    if applied_offset is None:
        return None
    return end_offset - max(applied_offset + 1, beginning_offset or 0)


def times_to_ask(came: Came, applied: int, end: int, patience_ms: int) -> tuple[Came, ...]:
    """Return the times that `behind` needs of `FirstSince`: when a report came, and `patience_ms` later.

    Nothing for a replica that is at the end.
    """
    topic, partition, at_ms = came
    return (came, (topic, partition, at_ms + patience_ms)) if applied < end - 1 else ()


def behind(
    beginning: int,
    end: int,
    applied: int | None,
    came: Came | None = None,
    *,
    patience_ms: int = 0,
    first_since: FirstSince | None = None,
) -> Behind:
    """Return how far a replica is behind; `beginning` and `end` are the present ones of its changelog.

    `came` is the time of a standby's report, and its lag is as of that time: a job reports once a
    minute by default, and everything written since would look like lag. The times of records tell where
    the changelog ended then: not before what the report says was applied, nor after the end of now.
    None: the end of now counts, as for a commit.
    """
    then = end
    if applied is not None and came is not None:
        topic, partition, came_ms = came
        since = first_since or {}
        # A changelog that goes on for longer after a report says that the reporter is silent, or that its clock is
        # wrong by minutes: the end of now then, which is never too little.
        if (topic, partition, came_ms + patience_ms) not in since:
            then = min(max(since.get(came, end), applied + 1, beginning), end)
    return Behind(then, records_behind(beginning, then, applied), end - then)
