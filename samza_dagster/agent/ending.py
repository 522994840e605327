"""How an incarnation ended, as `exit.json` says it."""

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
    """Written when every process of it is dead, or none ever existed.

    `status` is the exit code, or 128 plus the signal; None when nobody could read it.
    """
    write_json(
        directory / "exit.json",
        {"version": 1, "how": how, "status": status, "why": why, "at_ms": int(time.time() * 1000)},
    )
