"""What a container's own log says of its restore, per changelog partition."""

from __future__ import annotations

import re

# `KeyValueStorageEngine` of Samza 1.8.0, at the end of each store's restore.
_RESTORED = re.compile(r"(\d+) total entries restored for store: .*?/Partition_(\d+)\b")


def restored_records(log: str) -> dict[int, int]:
    """Partition → records read from the changelog by the container's start.

    Empty when the container hasn't finished its restore yet.
    """
    return {int(partition): int(count) for count, partition in _RESTORED.findall(log)}
