"""Which streams a job uses, read from its config as Samza reads it. Pure.

Sources: Samza's `StorageConfig`, `StreamManager.createUniqueNameForBatch`,
`MetricsConfig`, `MetricsSnapshotReporterFactory`, `KafkaCheckpointManagerFactory` (1.8.0).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from samza_dagster.model.naming import checkpoint_topic

_STORE_PREFIX = "stores."
_FACTORY_SUFFIX = ".factory"
_SIDE_INPUT_SUFFIX = ".side.inputs.processor.factory"
_SNAPSHOT_REPORTER = "MetricsSnapshotReporterFactory"
_DEFAULT_REPORT_INTERVAL_S = 60


@dataclass(frozen=True, order=True)
class StoreChangelog:
    """A store and the stream that its changes go to."""

    store: str
    system: str
    topic: str


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


def _store_names(config: Mapping[str, str]) -> list[str]:
    names: set[str] = set()
    for key in config:
        if key.startswith(_STORE_PREFIX):
            rest = key.removeprefix(_STORE_PREFIX)
            for suffix in (_SIDE_INPUT_SUFFIX, _FACTORY_SUFFIX):
                if rest.endswith(suffix):
                    names.add(rest.removesuffix(suffix))
                    break
    return sorted(names)


def _changelogs(config: Mapping[str, str], ignored: list[str]) -> tuple[StoreChangelog, ...]:
    found: list[StoreChangelog] = []
    default_system = config.get("job.changelog.system") or config.get("job.default.system")
    run_id = config.get("app.run.id") if config.get("app.mode") == "BATCH" else None
    for store in _store_names(config):
        stream = config.get(f"stores.{store}.changelog", "").strip()
        if not stream:
            continue
        if "." not in stream:
            if not default_system:
                ignored.append(f"stores.{store}.changelog={stream}: no changelog system is set")
                continue
            stream = f"{default_system}.{stream}"
        system, _, topic = stream.partition(".")
        found.append(StoreChangelog(store, system, f"{topic}-{run_id}" if run_id else topic))
    return tuple(found)


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
        given = config.get(f"metrics.reporter.{name}.interval", "").strip()
        interval_s = max(interval_s, int(given) if given.isdigit() else _DEFAULT_REPORT_INTERVAL_S)
    return tuple(sorted(topics)), (interval_s or _DEFAULT_REPORT_INTERVAL_S) * 1000
