"""Writes a job's coordinator stream record by record, and reads the JobModel that it describes."""

from __future__ import annotations

import json
from collections.abc import Iterable

from samza_dagster.metadata import MetadataStore, StreamRecord
from samza_dagster.metadata import coordinator_stream as stream
from samza_dagster.model import (
    ContainerModel,
    JobModel,
    SystemStreamPartition,
    TaskMode,
    TaskModel,
)


def write(store: MetadataStore, records: Iterable[StreamRecord]) -> None:
    for record in records:
        if record.value is None:
            store.remove(record.namespace, record.key)
        else:
            store.put(record.namespace, record.key, record.value)


def values(store: MetadataStore, namespace: str, field: str) -> dict[str, str]:
    """Key → one field of its envelope."""
    found = {key: stream.decode_envelope(raw).values for key, raw in store.all(namespace).items()}
    return {key: of[field] for key, of in found.items()}


def job_model(store: MetadataStore) -> JobModel:
    """As a coordinator of Samza would serve it."""
    modes = values(store, stream.SET_TASK_MODE, "taskMode")
    changelog = values(store, stream.SET_CHANGELOG, "Partition")
    inputs: dict[str, list[SystemStreamPartition]] = {}
    for key, names in values(store, stream.SET_TASK_PARTITION, "taskNames").items():
        for name in json.loads(names):
            inputs.setdefault(name, []).append(SystemStreamPartition.from_json(key))
    tasks: dict[str, dict[str, TaskModel]] = {}
    for name, processor in sorted(values(store, stream.SET_TASK_CONTAINER, "containerId").items()):
        tasks.setdefault(processor, {})[name] = TaskModel(
            task_name=name,
            system_stream_partitions=tuple(
                sorted(inputs.get(name, ()), key=lambda p: (p.system, p.stream, p.partition))
            ),
            changelog_partition=int(changelog[name]),
            task_mode=TaskMode(modes[name]),
        )
    partitions = [task.changelog_partition for own in tasks.values() for task in own.values()]
    return JobModel(
        config=values(store, stream.SET_CONFIG, "value"),
        containers={
            processor: ContainerModel(processor_id=processor, tasks=own)
            for processor, own in sorted(tasks.items())
        },
        max_change_log_stream_partitions=max(partitions, default=-1) + 1,
    )
