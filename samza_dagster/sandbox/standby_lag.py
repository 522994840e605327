"""How far each standby's store on disk is behind its changelog, read without asking anyone.

The container keeps `OFFSET-v2` beside the store: Java framing and a checksum, then JSON:
`{"kafka.<changelog>.<partition>":"<last applied offset>"}`. A byte of the checksum may be
a `{` by chance, so the JSON begins at the last `{"`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from samza_dagster.model import naming
from samza_dagster.sandbox.demo_job import JOB_ID, JOB_NAME, STORE


def applied_offset(state_directory: Path, task_name: str) -> int | None:
    """Offset of the last record in the task's store on this host; None without a store."""
    store = state_directory / naming.store_directory(JOB_NAME, JOB_ID, STORE, task_name)
    try:
        content = (store / "OFFSET-v2").read_bytes()
        offsets: dict[str, str] = json.loads(content[content.rindex(b'{"') :])
        return int(next(iter(offsets.values())))
    except (OSError, ValueError, StopIteration):
        return None


def near_copies(
    state_directories: Iterable[Path], ends: tuple[int, ...], bound: int
) -> tuple[int, ...]:
    """Per partition, on how many hosts a store lacks at most `bound` records.

    `ends` are the end offsets of the changelog. The active's own store counts as one.
    """
    directories = tuple(state_directories)
    return tuple(
        sum(
            applied is not None and end - 1 - applied <= bound
            for applied in (applied_offset(each, f"Partition {number}") for each in directories)
        )
        for number, end in enumerate(ends)
    )
