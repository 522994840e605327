"""Container output, kept within bounds on the disk that the lease is written to.

`container.log` is cut when it has half of what is kept, and its newest part stays in
`container.log.1`. Containers have it open to append, so what comes after the cut is whole;
what they print between the last read and the cut, microseconds, is lost.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from pathlib import Path
from typing import BinaryIO, List

LOG = logging.getLogger("samza_dagster.agent")

KEPT_MB = 50
OLDER = ".1"
"""Appended to a log's name: what was printed before it."""
_LOOK_S = 1.0
_CHUNK = 1 << 20


def keep_bounded(root: Path, kept_mb: int) -> None:
    """Bound the logs of all incarnations below `root` each second, for the life of the agent.

    A thread of its own does it: a slow disk must delay neither a kill nor the lease.
    """
    while True:
        for log in _logs(root):
            try:
                cut(log, kept_mb << 20)
            except OSError as error:  # not begun, forgotten, or a failing disk: tried again
                LOG.debug("%s isn't cut: %s", log, error)
        time.sleep(_LOOK_S)


def _logs(root: Path) -> List[Path]:
    try:
        return [root / name / "container.log" for name in os.listdir(root)]  # noqa: PTH208
    except OSError:
        return []


def cut(log: Path, kept: int) -> None:
    """Move the newest half of `kept` bytes to the older log once `log` has more than that.

    On a full disk the log is cut all the same, and what can't be copied is lost. Raises
    `OSError` when the log isn't there or can't be cut.
    """
    half = kept // 2
    if log.stat().st_size <= half:
        return
    with log.open("r+b", buffering=0) as stream:
        older = log.with_name(log.name + OLDER)
        with contextlib.suppress(FileNotFoundError):
            older.unlink()  # first: its room is needed
        stream.seek(-half, os.SEEK_END)
        try:
            _copy(stream, older, at_most=kept)
        except OSError as error:
            LOG.warning("%s is cut, what was in it is lost: %s", log, error)
        stream.truncate(0)


def _copy(stream: BinaryIO, to: Path, *, at_most: int) -> None:
    """Copy to the end of `stream`, or `at_most` bytes: it may grow as fast as it is read."""
    descriptor = os.open(str(to), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb", buffering=0) as target:
        copied = 0
        while copied < at_most:
            chunk = stream.read(min(_CHUNK, at_most - copied))
            if not chunk:
                return
            target.write(chunk)
            copied += len(chunk)
