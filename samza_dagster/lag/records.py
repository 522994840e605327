"""Lag of one replica of one changelog partition."""

from __future__ import annotations


def records_behind(
    beginning_offset: int | None, end_offset: int | None, applied_offset: int | None
) -> int | None:
    """How many offsets a replica has still to apply; None when it can't be known.

    `end_offset` is the offset that the next record will have, `applied_offset` that of
    the last record applied; read the end after the applied offset. Lag is
    `end - 1 - applied`. What the changelog no longer holds isn't to be read: a replica
    before its beginning has as much to apply as is there. An empty changelog
    (end = beginning) has lag 0, whatever is known of the replica. An applied offset at or
    beyond the end is of a changelog that was deleted or cut since: it tells nothing, and 0
    would be a lie. The count is an upper bound in records: compaction and transaction
    markers take offsets that carry none.
    """
    if end_offset is None:
        return None
    if beginning_offset is not None and beginning_offset >= end_offset:
        return 0
    if applied_offset is None or applied_offset >= end_offset:
        return None
    return end_offset - max(applied_offset + 1, beginning_offset or 0)
