"""The topics that a container uses, as far as its job's config names them. Pure.

Sources: Samza's `TaskConfig`, `StorageConfig`, `StreamConfig`, `MetricsConfig` (1.8.0).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping

from samza_dagster.coordinator.deployment import input_topics
from samza_dagster.model import naming
from samza_dagster.model.changelogs import checkpoint_system, store_changelogs

READ, WRITE = "READ", "WRITE"
_STREAM = re.compile(r"streams\.([A-Za-z0-9_-]+)\..+")
_SIDE_INPUTS = re.compile(r"stores\..+\.side\.inputs")


def container_topics(
    config: Mapping[str, str], systems: Collection[str]
) -> dict[str, frozenset[str]]:
    """Return topics of these systems → a container's operations on them, `READ` and `WRITE`.

    The coordinator stream, changelogs and checkpoints are at these systems. A stream that
    has settings and isn't an input counts as an output; one that a task writes to without
    any is in no config.
    """
    name, job_id = config.get("job.name", ""), config.get("job.id", "1")
    used = {naming.coordinator_stream_topic(name, job_id): {READ, WRITE}}
    for changelog in store_changelogs(config):
        used[changelog.topic] = {READ, WRITE}
    if checkpoint_system(config) is not None:
        used[naming.checkpoint_topic(name, job_id)] = {READ, WRITE}
    inputs = {*_inputs(config)}
    for system, topic in inputs:
        if system in systems:
            used.setdefault(topic, set()).add(READ)
    for system, topic in {*_outputs(config)} - inputs | {*_intermediates(config)}:
        if system in systems:
            used.setdefault(topic, set()).add(WRITE)
    for system, topic in _intermediates(config):
        if system in systems:
            used.setdefault(topic, set()).add(READ)
    return {topic: frozenset(operations) for topic, operations in used.items()}


def _inputs(config: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for topic, system in input_topics(config).items():
        yield system, topic
    for entry in _listed(config.get("task.broadcast.inputs", "")):
        yield _stream(config, entry.partition("#")[0])
    for key, value in config.items():
        if _SIDE_INPUTS.fullmatch(key):
            for entry in _listed(value):
                yield _stream(config, entry)


def _outputs(config: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for reporter in _listed(config.get("metrics.reporters", "")):
        stream = config.get(f"metrics.reporter.{reporter}.stream", "").strip()
        if stream:
            yield _stream(config, stream)
    for stream_id in _stream_ids(config):
        yield _stream(config, stream_id)


def _intermediates(config: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for stream_id in _stream_ids(config):
        if config.get(f"streams.{stream_id}.samza.intermediate", "").strip().lower() == "true":
            yield _stream(config, stream_id)


def _stream_ids(config: Mapping[str, str]) -> set[str]:
    return {found[1] for found in map(_STREAM.fullmatch, config) if found is not None}


def _stream(config: Mapping[str, str], name_or_id: str) -> tuple[str, str]:
    """Return system and topic of `<system>.<stream>`, or of a stream's id alone."""
    system, dot, stream = name_or_id.partition(".")
    if not dot:
        stream = name_or_id
        system = config.get(
            f"streams.{stream}.samza.system", config.get("job.default.system", "")
        ).strip()
    return system, config.get(f"streams.{stream}.samza.physical.name", stream).strip()


def _listed(value: str) -> list[str]:
    """Split a list with commas; `[0-3]` in a broadcast input has none."""
    return [entry.strip() for entry in value.split(",") if entry.strip()]
