"""What one snapshot of a fleet found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any

from samza_dagster.lag import PastError
from samza_dagster.snapshots.tables import File, Tables

_SORTED_BY = {
    "container_locality": ("processor_id",),
    "task_locality": ("task_name",),
    "changelog_lag": ("store", "partition", "task_name"),
    "standby_readiness": ("processor_id",),
    "restore_forecast": ("processor_id", "host"),
    "host_loss": ("host", "processor_id"),
    "violations": ("rule", "processor_id"),
}


@dataclass(frozen=True)
class FleetSnapshot:
    """The seven datasets of some jobs at one time, in files of the tables; columns as in `schemas.DATASETS`.

    `unreadable` counts the records that couldn't be read and are kept aside, in table `facts`. `unread`
    names the job or topic that couldn't be reached, and why: what it is about is unknown, and nothing
    else. `unpublished` names the jobs whose standbys' readiness couldn't be published. `past` is the
    error of the last day's forecasts. `seconds` says how long each part took.
    """

    at: datetime
    tables: Tables
    files: Sequence[File]
    unreadable: int
    unread: Mapping[str, str]
    unpublished: Mapping[str, str]
    past: PastError
    seconds: Mapping[str, float]

    @property
    def counts(self) -> dict[str, int]:
        """Rows, by dataset."""
        return {name: sum(one.rows for one in self._of(name)) for name in _SORTED_BY}

    def rows(self, dataset: str, limit: int | None = None) -> list[dict[str, Any]]:
        """A dataset as plain dicts, in a stable order; the first `limit`. Times are aware, in UTC."""
        paths = [one.path for one in self._of(dataset)]
        # A file has jobs that come before those of the next one.
        found = list(islice(self.tables.read(dataset, paths), limit))
        keys = ("job_name", "job_id", *_SORTED_BY[dataset])
        return sorted(found, key=lambda row: [(row[key] is not None, row[key]) for key in keys])

    def _of(self, dataset: str) -> list[File]:
        return [one for one in self.files if one.table == dataset]
