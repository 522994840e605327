"""What one snapshot of a fleet found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from samza_dagster.lag import PastError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

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
    """The seven datasets of some jobs at one time; columns as in `schemas.DATASETS`.

    `frames` are cached, by dataset; `unpersist` frees them. `counts` are their rows. `unreadable` counts
    the records that couldn't be read and are kept aside, in table `facts`. `unread` names the job or topic
    that couldn't be reached, and why: what it is about is unknown, and nothing else. `unpublished` names
    the jobs whose standbys' readiness couldn't be published. `past` is the error
    of the last day's forecasts. `seconds` says how long each part took.
    """

    at: datetime
    frames: Mapping[str, DataFrame]
    counts: Mapping[str, int]
    unreadable: int
    unread: Mapping[str, str]
    unpublished: Mapping[str, str]
    past: PastError
    seconds: Mapping[str, float]
    _cached: Sequence[DataFrame] = field(default=(), repr=False)

    def rows(self, dataset: str, limit: int | None = None) -> list[dict[str, Any]]:
        """A dataset as plain dicts, in a stable order; the first `limit`. Times are aware, in UTC."""
        keys = ("job_name", "job_id", *_SORTED_BY[dataset])
        frame: Any = self.frames[dataset]
        if limit is not None:
            frame = frame.orderBy(*keys).limit(limit)
        found: list[dict[str, Any]] = frame.toArrow().to_pylist()
        return sorted(found, key=lambda row: [(row[key] is not None, row[key]) for key in keys])

    def unpersist(self) -> None:
        """Frees the cached frames."""
        for frame in self._cached:
            frame.unpersist()
