"""Streams of stores' changes and checkpoints, read from a job's config as Samza reads it.

Sources: Samza's `StorageConfig`, `TaskConfig`, `KafkaConfig`,
`StreamManager.createUniqueNameForBatch` (1.8.0).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

_PREFIX = "stores."
_CHANGELOG = ".changelog"
_KAFKA_CHECKPOINTS = ".KafkaCheckpointManagerFactory"
_FACTORY_SUFFIXES = (".side.inputs.processor.factory", ".factory")


@dataclass(frozen=True, order=True)
class StoreChangelog:
    """A store and the stream that its changes go to; `system` is empty where none is set."""

    store: str
    system: str
    topic: str

    def offset_gauge(self, partition: int) -> str:
        """Return the gauge by which a standby reports the offset that it applied last."""
        return offset_gauge(self.system, self.topic, partition)


def offset_gauge(system: str, stream: str, partition: int | str) -> str:
    """Return the name of a partition's offset in a task's metrics (`TaskInstanceMetrics.addOffsetGauge`)."""
    return f"{system}-{stream}-{partition}-offset"


def store_changelogs(config: Mapping[str, str]) -> tuple[StoreChangelog, ...]:
    """Return the stores with a changelog: `stores.<name>.changelog` is set.

    A changelog without a system is of `job.changelog.system`, else of
    `job.default.system`. A run in batch mode has changelogs of its own.
    """
    default_system = config.get("job.changelog.system") or config.get("job.default.system", "")
    run_id = config.get("app.run.id") if config.get("app.mode") == "BATCH" else None
    found: list[StoreChangelog] = []
    for store in _store_names(config):
        stream = config.get(f"{_PREFIX}{store}{_CHANGELOG}", "").strip()
        if not stream:
            continue
        system, dot, topic = stream.partition(".")
        if not dot:
            system, topic = default_system, stream
        found.append(StoreChangelog(store, system, f"{topic}-{run_id}" if run_id else topic))
    return tuple(found)


def checkpoint_system(config: Mapping[str, str]) -> str | None:
    """Return the system of the Kafka topic with the job's checkpoints, or None."""
    if not config.get("task.checkpoint.factory", "").strip().endswith(_KAFKA_CHECKPOINTS):
        return None
    return config.get("task.checkpoint.system") or config.get("job.default.system", "")


def _store_names(config: Mapping[str, str]) -> list[str]:
    names: set[str] = set()
    for key in config:
        if not key.startswith(_PREFIX):
            continue
        rest = key.removeprefix(_PREFIX)
        for suffix in _FACTORY_SUFFIXES:
            if rest.endswith(suffix):
                names.add(rest.removesuffix(suffix))
                break
        else:  # a store may be named by its changelog alone
            name = rest.removesuffix(_CHANGELOG)
            if name != rest and "." not in name:
                names.add(name)
    return sorted(names)
