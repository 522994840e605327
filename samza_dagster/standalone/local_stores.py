"""Stores on a processor's disk at its start (SAMZA-1554: nothing clears them away)."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from samza_dagster.errors import InvalidInput
from samza_dagster.model.changelogs import store_changelogs
from samza_dagster.model.naming import store_directory
from samza_dagster.standalone.group import LocalStores

BASE_DIRECTORY = "job.logged.store.base.dir"
"""Where Samza keeps stores that have a changelog, unless the environment says so (`LOGGED_STORE_BASE_DIR`)."""
_CHECKPOINT = re.compile(r"-\d+-\d+$")
"""What a directory of a store's checkpoint has after the store's own name (Samza's `CheckpointId`): it goes with the store."""
_USE = os.R_OK | os.W_OK | os.X_OK


def local_stores(
    state_dir: Path, config: Mapping[str, str], locality: Mapping[str, str], location: str
) -> LocalStores:
    """Return the job's stores below `state_dir`.

    `locality` is where each task, or standby, ran last.

    Raises `InvalidInput` for a state directory that this user may not read and write.
    """
    state_dir.mkdir(parents=True, exist_ok=True)
    if not os.access(state_dir, _USE):
        raise InvalidInput(
            f"stores below {state_dir}",
            seen=f"user {os.getuid()} may not read and write there",
            fix="another --state-dir, or the rights: all processors of a location share it",
        )
    stores = [each.store for each in store_changelogs(config)]
    name, job_id = config["job.name"], config.get("job.id") or "1"
    used = {
        store_directory(name, job_id, store, task)
        for task, where in locality.items()
        if where == location
        for store in stores
    }
    found = [
        str(directory.relative_to(state_dir))
        for store in stores
        for directory in sorted((state_dir / f"{name}-{job_id}" / store).glob("*"))
        if directory.is_dir()
    ]
    return LocalStores(
        tuple(each for each in found if _CHECKPOINT.sub("", each) not in used),
        tuple(each for each in found if not os.access(state_dir / each, _USE)),
    )


def barred_stores(processor_id: str, stores: Sequence[str]) -> list[str]:
    """Return what to do about stores that a processor's user may not use.

    Empty when there are none.
    """
    text = (
        f"{processor_id} may not read and write {', '.join(stores)}: a container that needs them fails; "
        "all processors of a location run as one user"
    )
    return [text] if stores else []


def unused_stores(processor_id: str, stores: Sequence[str]) -> list[str]:
    """Return a notice of stores that a processor doesn't use; empty when there are none."""
    text = (
        f"{processor_id} had unused stores when it started, of tasks that ran elsewhere: {', '.join(stores)}; "
        "nobody clears them away"
    )
    return [text] if stores else []
