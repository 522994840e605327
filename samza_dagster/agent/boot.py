"""Which boot the records of an agent's directory are of, where they can't say it themselves.

`boot.json` survives a power cut. An agent writes it once it has dealt with what an earlier
boot left, before it starts anything in this one.
"""

from __future__ import annotations

from pathlib import Path

from samza_dagster.agent import procfs
from samza_dagster.agent.files import read_record, write_json


def of_an_earlier_boot(directory: Path) -> bool:
    """Whether all on record is; False also where nobody wrote the boot down."""
    kept = read_record(directory / "boot.json")
    return kept is not None and kept.get("boot_id") != procfs.boot_id()


def remember(directory: Path) -> None:
    """What is recorded from here on is of this boot."""
    boot_id = procfs.boot_id()
    kept = read_record(directory / "boot.json") or {}
    if kept.get("boot_id") != boot_id:
        write_json(directory / "boot.json", {"version": 1, "boot_id": boot_id}, durable=True)
