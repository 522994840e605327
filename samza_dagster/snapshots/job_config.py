"""Which streams a job uses, read from its config as Samza reads it. Pure.

Sources: Samza's `MetricsConfig`, `MetricsSnapshotReporterFactory`,
`KafkaCheckpointManagerFactory` (1.8.0).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from samza_dagster.model.changelogs import StoreChangelog, store_changelogs
from samza_dagster.model.naming import checkpoint_topic
from samza_dagster.model.numbers import long_or_none

_SNAPSHOT_REPORTER = "MetricsSnapshotReporterFactory"
_DEFAULT_REPORT_INTERVAL_S = 60


@dataclass(frozen=True)
class JobStreams:
    """What a snapshot reads beside the coordinator stream.

    `metrics_topics` are those of the job's snapshot reporters; `report_interval_ms` is
    the longest of their intervals. `ignored` names settings that couldn't be used, and why.
    """

    deployment_id: str | None
    changelogs: tuple[StoreChangelog, ...]
    checkpoint_topic: str
    metrics_topics: tuple[str, ...]
    report_interval_ms: int
    ignored: tuple[str, ...] = ()


def job_streams(config: Mapping[str, str], job_name: str, job_id: str) -> JobStreams:
    """Reads the streams of a job out of its whole config; raises nothing."""
    ignored: list[str] = []
    topics, interval_ms = _metrics(config, ignored)
    return JobStreams(
        deployment_id=config.get("app.run.id"),
        changelogs=_changelogs(config, ignored),
        checkpoint_topic=checkpoint_topic(job_name, job_id),
        metrics_topics=topics,
        report_interval_ms=interval_ms,
        ignored=tuple(ignored),
    )


def _changelogs(config: Mapping[str, str], ignored: list[str]) -> tuple[StoreChangelog, ...]:
    changelogs = store_changelogs(config)
    ignored.extend(
        f"stores.{each.store}.changelog={each.topic}: no changelog system is set"
        for each in changelogs
        if not each.system
    )
    return tuple(each for each in changelogs if each.system)


def _metrics(config: Mapping[str, str], ignored: list[str]) -> tuple[tuple[str, ...], int]:
    topics: set[str] = set()
    interval_s = 0
    for raw in config.get("metrics.reporters", "").split(","):
        name = raw.strip()
        if not config.get(f"metrics.reporter.{name}.class", "").endswith(_SNAPSHOT_REPORTER):
            continue
        stream = config.get(f"metrics.reporter.{name}.stream", "")
        _, dot, topic = stream.partition(".")
        if not dot or not topic:
            ignored.append(f"metrics.reporter.{name}.stream={stream}: not <system>.<topic>")
            continue
        topics.add(topic)
        given = long_or_none(config.get(f"metrics.reporter.{name}.interval", "").strip())
        interval_s = max(interval_s, _DEFAULT_REPORT_INTERVAL_S if given is None else given)
    return tuple(sorted(topics)), (interval_s or _DEFAULT_REPORT_INTERVAL_S) * 1000
