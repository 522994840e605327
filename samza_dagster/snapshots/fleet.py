"""One snapshot of many jobs: where everything is, how far behind each replica, what a host's death would cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from samza_dagster.metadata.connection import Connection

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from samza_dagster.snapshots.tables import Tables


@dataclass(frozen=True)
class FleetSnapshot:
    """The seven datasets of some jobs at one time; columns as in `schemas.DATASETS`.

    `frames` are cached, by dataset; `unpersist` frees them. `counts` are their rows. `unreadable` counts
    the records that couldn't be read and are kept aside, in table `unreadable`. `unread` names what
    couldn't be reached, and why: what it is about is unknown, and nothing else. `seconds` says how long
    each part took.
    """

    at: datetime
    frames: Mapping[str, DataFrame]
    counts: Mapping[str, int]
    unreadable: int
    unread: Mapping[str, str]
    seconds: Mapping[str, float]

    def rows(self, dataset: str, limit: int | None = None) -> list[dict[str, Any]]:
        """A dataset as plain dicts, in a stable order; the first `limit`. Times are aware, in UTC."""
        raise NotImplementedError

    def unpersist(self) -> None:
        """Frees the cached frames."""
        raise NotImplementedError


def take_fleet(
    spark: SparkSession, jobs: Sequence[Connection], at: datetime, store: Tables
) -> FleetSnapshot:
    """Takes a snapshot of these jobs, all on one Kafka cluster, and adds it to the tables.

    Reads what was written since the last one that these tables hold. Raises `InvalidInput` for a job
    that was never deployed, `Unreachable` when no broker answers.
    """
    raise NotImplementedError
