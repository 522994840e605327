"""The record of an incarnation's end, `exit.json`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Optional

from samza_dagster.agent.files import write_json

HOW_BY_ITSELF = "by itself"
HOW_STOPPED = "stopped"
HOW_LEASE = "lease ended"
HOW_NOT_STARTED = "not started"
HOW_WARDEN_GONE = "warden gone"


def write_exit(directory: Path, *, how: str, why: str = "", status: Optional[int] = None) -> None:
    """Record the end, once every process of the incarnation is dead or none ever existed.

    `status` is the exit code, or 128 plus the signal; None when no parent could read it.
    """
    write_json(
        directory / "exit.json",
        {"version": 1, "how": how, "status": status, "why": why, "at_ms": int(time.time() * 1000)},
    )
