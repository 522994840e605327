"""Which streams a snapshot reads, from a job's config. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from samza_dagster.model.changelogs import StoreChangelog, store_changelogs
from samza_dagster.model.metrics_snapshots import metrics_topics
from samza_dagster.model.naming import checkpoint_topic


@dataclass(frozen=True)
class JobStreams:
    """What a snapshot reads beside the coordinator stream.

    `metrics_topics` are those of the job's reporters; `report_interval_ms` is
    the longest of their intervals, 0 without any. `ignored` names settings that couldn't be used,
    and why.
    """

    deployment_id: str | None
    changelogs: tuple[StoreChangelog, ...]
    checkpoint_topic: str
    metrics_topics: tuple[str, ...]
    report_interval_ms: int
    ignored: tuple[str, ...] = ()


def job_streams(config: Mapping[str, str], job_name: str, job_id: str) -> JobStreams:
    """Reads the streams of a job out of its whole config; raises nothing."""
    stores, reporters = store_changelogs(config), metrics_topics(config)
    return JobStreams(
        deployment_id=config.get("app.run.id"),
        changelogs=tuple(one for one in stores if one.system),
        checkpoint_topic=checkpoint_topic(job_name, job_id),
        metrics_topics=tuple(sorted(reporters)),
        report_interval_ms=1_000 * max(reporters.values(), default=0),
        ignored=tuple(
            f"stores.{one.store}.changelog={one.topic}: no changelog system is set"
            for one in stores
            if not one.system
        ),
    )
