"""The identity of a directory's records: their id, and the boot that they are of.

`journal.json` lasts as long as the directory. An agent that starts with another directory, with
an emptied one, or on another machine reports another id: its records don't cover these
incarnations, so none that they lack is taken for dead.

`boot.json`, for records that don't name their boot, survives a power cut. An agent writes it
once it has dealt with what an earlier boot left, before it starts anything in this one.
"""

from __future__ import annotations

import uuid
from pathlib import Path

from samza_dagster.agent import procfs
from samza_dagster.agent.files import read_record, unreadable, write_json


def identity(directory: Path) -> str:
    """Return the id, made at the first call for a directory, before anything is started from it.

    Raises `RecordError` for one that isn't understood.
    """
    path = directory / "journal.json"
    kept = read_record(path)
    if kept is None:
        made = str(uuid.uuid4())
        write_json(path, {"version": 1, "journal": made}, durable=True)
        return made
    found = kept.get("journal")
    if not isinstance(found, str) or not found:
        raise unreadable(path, "no id in it")
    return found


def of_an_earlier_boot(directory: Path) -> bool:
    """Return whether all records are of an earlier boot; False also when no boot is recorded."""
    kept = read_record(directory / "boot.json")
    return kept is not None and kept.get("boot_id") != procfs.boot_id()


def remember_boot(directory: Path) -> None:
    """Note that everything recorded from here on is of this boot."""
    boot_id = procfs.boot_id()
    kept = read_record(directory / "boot.json") or {}
    if kept.get("boot_id") != boot_id:
        write_json(directory / "boot.json", {"version": 1, "boot_id": boot_id}, durable=True)
