"""The owner of a directory of stores: two jobs may share the name that Samza gives it.

Samza keeps the stores of job `orders`, id `eu-1`, and of job `orders-eu`, id `1`, both in
`orders-eu-1` below the state directory. The first that starts a container there is recorded
as its owner, beside it; the other is refused before its container reads foreign state.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Dict, Optional, Tuple

from samza_dagster.agent.files import read_json, write_json
from samza_dagster.agent.protocol import Launch

_ENDING = ".owner.json"


def refusal(state_dir: Path, launch: Launch) -> Optional[str]:
    """Return why a launch may not use its store directories; None when it may, which is recorded.

    A launch without stores, or with a JobModel that names no job, uses none. Raises `OSError`.
    """
    job = _job_of(launch.job_model_json)
    if job is None:
        return None
    for name in sorted({path.split("/", 1)[0] for path in launch.store_directories}):
        owner = _claimed(state_dir / (name + _ENDING), job)
        if owner != job:
            return (
                "{} holds the stores of job {}, id {}, and job {}, id {}, would have the same: "
                "start this job's agents with another --state-dir".format(
                    state_dir / name, *owner, *job
                )
            )
    return None


def _job_of(job_model_json: str) -> Optional[Tuple[str, str]]:
    try:
        config: Any = json.loads(job_model_json)["config"]
        name: Any = config["job.name"]
        ident: Any = config.get("job.id") or "1"
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return (name, ident) if isinstance(name, str) and isinstance(ident, str) else None


def _claimed(path: Path, job: Tuple[str, str]) -> Tuple[str, str]:
    """Return the recorded owner; record `job` if there is none."""
    owner = _owner(read_json(path))
    if owner is not None:
        return owner
    beside = path.with_name("{}.{}".format(path.name, os.getpid()))
    write_json(beside, {"version": 1, "job.name": job[0], "job.id": job[1]}, durable=True)
    try:
        os.link(str(beside), str(path))  # one of two concurrent agents wins
    except FileExistsError:
        if _owner(read_json(path)) is None:  # torn, as by a power cut: it says nothing
            beside.replace(path)
    finally:
        if beside.exists():
            beside.unlink()
    return _owner(read_json(path)) or job


def _owner(record: Optional[Dict[str, Any]]) -> Optional[Tuple[str, str]]:
    found = record or {}
    name, ident = found.get("job.name"), found.get("job.id")
    return (name, ident) if isinstance(name, str) and isinstance(ident, str) else None
