"""What the coordinator stream says about a job: config, locality, tasks, changelog.

Reads what any Samza coordinator wrote; `job_model_records` gives what Samza's own
coordinator writes for a JobModel (`JobModelHelper`, `CoordinatorStreamUtil`), as
records for one transaction.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar, cast

from samza_dagster.errors import MalformedRecord
from samza_dagster.metadata import coordinator_stream as stream
from samza_dagster.metadata.coordinator_stream import Author, StreamRecord
from samza_dagster.metadata.interface import MetadataStore
from samza_dagster.model import (
    ContainerModel,
    JobModel,
    LocalityModel,
    ProcessorLocality,
    SystemStreamPartition,
    TaskMode,
    TaskModel,
)

DEPLOYMENT_ID = "app.run.id"
TRACKING_URL = "yarn.am.tracking.url"
_Value = TypeVar("_Value")


class JobMetadata:
    """Reads a job's coordinator stream through any `MetadataStore`.

    Every method raises `MalformedRecord` that names namespace, key and field.
    """

    def __init__(self, store: MetadataStore) -> None:
        self._store = store

    def config(self) -> dict[str, str]:
        """The job's config as it was submitted, with what the coordinator added."""
        return self._values(stream.SET_CONFIG, "value", str)

    def owner(self) -> dict[str, str]:
        """`job.name` and `job.id` alone, as far as they are there and can be read."""
        found: dict[str, str] = {}
        for key in ("job.name", "job.id"):
            with contextlib.suppress(MalformedRecord):  # whoever leads next writes it anew
                value = self._one(stream.SET_CONFIG, key, "value")
                found |= {} if value is None else {key: value}
        return found

    def deployment_id(self) -> str | None:
        """`app.run.id` of the newest deployment; None when nothing was ever deployed."""
        return self._one(stream.SET_CONFIG, DEPLOYMENT_ID, "value")

    def coordinator_url(self) -> str | None:
        """The Application Master's URL, None while none runs."""
        return self._one(stream.SET_CONFIG, TRACKING_URL, "value")

    def locality(self) -> LocalityModel:
        """The host that each processor last reported."""
        found: dict[str, ProcessorLocality] = {}
        for processor_id, values in self._envelopes(stream.SET_CONTAINER_HOST).items():
            found[processor_id] = ProcessorLocality(
                id=processor_id,
                host=values.get("host", ""),
                jmx_url=values.get("jmx-url", ""),
                jmx_tunneling_url=values.get("jmx-tunneling-url", ""),
            )
        return LocalityModel(processor_localities=found)

    def task_containers(self) -> dict[str, str]:
        """Task name → processor id."""
        return self._values(stream.SET_TASK_CONTAINER, "containerId", str)

    def task_modes(self) -> dict[str, TaskMode]:
        """Task name → mode. A task without one is active (older releases)."""
        return self._values(stream.SET_TASK_MODE, "taskMode", TaskMode)

    def changelog_partitions(self) -> dict[str, int]:
        """Task name → partition of its changelogs."""
        return self._values(stream.SET_CHANGELOG, "Partition", int)

    def execution_ids(self) -> dict[str, str]:
        """Processor id → incarnation; empty without AM high availability."""
        return self._values(stream.SET_EXECUTION_ID, "execution-env-container-id", str)

    def partition_tasks(self) -> dict[SystemStreamPartition, tuple[str, ...]]:
        """Input partition → the tasks that read it."""
        tasks = self._values(stream.SET_TASK_PARTITION, "taskNames", _task_names)
        return {SystemStreamPartition.from_json(key): names for key, names in tasks.items()}

    def job_model(self) -> JobModel:
        """The JobModel that the stream describes, as a coordinator would serve it.

        Raises `MalformedRecord` when a task has no changelog partition.
        """
        modes = self.task_modes()
        changelog = self.changelog_partitions()
        inputs: dict[str, list[SystemStreamPartition]] = {}
        for partition, names in self.partition_tasks().items():
            for name in names:
                inputs.setdefault(name, []).append(partition)
        tasks: dict[str, dict[str, TaskModel]] = {}
        for name, processor_id in sorted(self.task_containers().items()):
            if name not in changelog:
                raise MalformedRecord(
                    "read the JobModel from the coordinator stream",
                    seen=f"no {stream.SET_CHANGELOG} for task {name!r}",
                    fix="start the job's coordinator once: it writes the mapping",
                )
            tasks.setdefault(processor_id, {})[name] = TaskModel(
                task_name=name,
                system_stream_partitions=tuple(
                    sorted(inputs.get(name, ()), key=lambda p: (p.system, p.stream, p.partition))
                ),
                changelog_partition=changelog[name],
                task_mode=modes.get(name, TaskMode.ACTIVE),
            )
        partitions = [task.changelog_partition for own in tasks.values() for task in own.values()]
        return JobModel(
            config=self.config(),
            containers={
                processor_id: ContainerModel(processor_id=processor_id, tasks=own)
                for processor_id, own in sorted(tasks.items())
            },
            max_change_log_stream_partitions=max(partitions, default=-1) + 1,
        )

    def write(self, records: Iterable[StreamRecord]) -> None:
        """Writes records one by one, each acknowledged. Not one transaction."""
        for record in records:
            if record.value is None:
                self._store.remove(record.namespace, record.key)
            else:
                self._store.put(record.namespace, record.key, record.value)

    def obsolete(self, records: Iterable[StreamRecord]) -> tuple[StreamRecord, ...]:
        """Deletions of what `records` leave out: settings, tasks and partitions of an older model.

        Covers the namespaces that `job_model_records` writes. The Application Master's
        URL stays.
        """
        kept = {(record.namespace, record.key) for record in records}
        kept.add((stream.SET_CONFIG, TRACKING_URL))
        return tuple(
            stream.delete(namespace, key)
            for namespace in _MODEL_NAMESPACES
            for key in sorted(self._store.all(namespace))
            if (namespace, key) not in kept
        )

    def _envelopes(self, namespace: str) -> dict[str, Mapping[str, str]]:
        found: dict[str, Mapping[str, str]] = {}
        for key, value in self._store.all(namespace).items():
            try:
                found[key] = stream.decode_envelope(value).values
            except MalformedRecord as error:
                raise _named(namespace, key, error) from error
        return found

    def _values(
        self, namespace: str, field: str, parse: Callable[[str], _Value]
    ) -> dict[str, _Value]:
        found: dict[str, _Value] = {}
        for key, values in self._envelopes(namespace).items():
            text = values.get(field)
            if text is None:
                continue
            try:
                found[key] = parse(text)
            except ValueError as error:
                raise _named(
                    namespace, key, MalformedRecord("", seen=f"field values.{field}: {text[:80]!r}")
                ) from error
        return found

    def _one(self, namespace: str, key: str, field: str) -> str | None:
        value = self._store.get(namespace, key)
        if value is None:
            return None
        try:
            return stream.decode_envelope(value).values.get(field)
        except MalformedRecord as error:
            raise _named(namespace, key, error) from error


_MODEL_NAMESPACES = (
    stream.SET_CONFIG,
    stream.SET_TASK_CONTAINER,
    stream.SET_TASK_MODE,
    stream.SET_TASK_PARTITION,
    stream.SET_CHANGELOG,
)


def _named(namespace: str, key: str, error: MalformedRecord) -> MalformedRecord:
    return MalformedRecord(
        "read the coordinator stream", seen=f"{namespace}, key {key}: {error.seen}", fix=error.fix
    )


def _task_names(text: str) -> tuple[str, ...]:
    try:
        parsed: object = json.loads(text)
    except RecursionError as error:
        raise ValueError(text) from error
    if not isinstance(parsed, list):
        raise ValueError(text)
    names = cast("list[object]", parsed)
    if not all(isinstance(name, str) for name in names):
        raise ValueError(text)
    return tuple(cast("list[str]", names))


def job_model_records(
    job_model: JobModel, author: Author, *, deployment_id: str
) -> tuple[StreamRecord, ...]:
    """What Samza writes when it deploys this JobModel.

    Config (with `app.run.id`), then per task its processor and mode, per input
    partition its tasks, per task its changelog partition. No locality: containers
    report it. `author.source` stands in all of them but the config's.
    """
    runner = Author(author.host, author.username, author.timestamp_ms, stream.SOURCE_JOB_RUNNER)
    config = {**job_model.config, DEPLOYMENT_ID: deployment_id}
    records = [stream.set_config(runner, key, value) for key, value in config.items()]
    readers: dict[SystemStreamPartition, list[str]] = {}
    changelog: list[StreamRecord] = []
    for processor_id, container in job_model.containers.items():
        for name, task in container.tasks.items():
            records.append(stream.set_task_container(author, name, processor_id))
            records.append(stream.set_task_mode(author, name, task.task_mode))
            changelog.append(stream.set_changelog(author, name, task.changelog_partition))
            for partition in task.system_stream_partitions:
                readers.setdefault(partition, []).append(name)
    records += [
        stream.set_task_partition(author, partition, names) for partition, names in readers.items()
    ]
    return (*records, *changelog)
